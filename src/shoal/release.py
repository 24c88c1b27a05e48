"""A release: what leaves the house, with the certificate that says why it may, and what must stay at home."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import shoal.path
from shoal.codes import published
from shoal.engines import Engine, Format, open_data
from shoal.errors import EngineError, PolicyError, RequirementNotMet
from shoal.measures import Measures
from shoal.policy import Policy
from shoal.recoding import Recoding
from shoal.report import Facts, Picture, explain, html
from shoal.requirements import Certificate, certify

OWNER = ".owner"
MARK, OWNER_MARK = "certificate.json", "ledger.json"  # by these a folder is known as a release


def examine(data: Any, policy: Policy, *, suppressed: int = 0, drawn: Engine | None = None) -> Certificate:
    """Test a table against a policy by what stands in it, whoever made it.

    Where records were drawn anew, ``drawn`` is the table that leaves, and ``data`` has in the place of the quasi-identifiers
    the group that each record was drawn from.
    """
    engine = open_data(data)
    policy.fit(engine.schema(), check=True)
    groups, labels = published(engine, policy)
    requirements = [_spread(r, groups.names) for r in policy.require]
    return certify(
        groups,
        requirements,
        fingerprint=(drawn or engine).fingerprint(),
        label=lambda column, code: labels[column][code],
        suppressed=suppressed,
        identifiers=tuple(n for n in policy.identifiers if n in (drawn or engine).schema().names),
        evidence="table" if drawn is None else "groups",
    )


def _spread(requirement: Any, names: tuple[str, ...]) -> Any:
    """A requirement on `age` looks at `age_lo` and `age_hi` where the table has these."""
    if requirement.on is None:
        return requirement
    on = [part for n in requirement.on for part in ((n,) if n in names else (f"{n}_lo", f"{n}_hi"))]
    return replace(requirement, on=tuple(on))


@dataclass(frozen=True)
class Release:
    """What a method made of a table, after its check.

    ``frame`` is the released table as the kind of frame that came in, in its row order, suppressed records left out.
    ``path`` is the way that a method took which opens or closes values step by step, else None; ``seed`` the secret of a
    randomized method.
    """

    policy: Policy
    certificate: Certificate
    measures: Measures
    recoding: Recoding
    method: str
    parameters: Mapping[str, Any]
    dropped: tuple[str, ...]
    format: Format
    engine: Engine
    path: shoal.path.Path | None = None
    seed: int | None = field(default=None, repr=False)

    @cached_property
    def frame(self) -> Any:
        """The released table."""
        return self.engine.frame()

    def __repr__(self) -> str:
        return f"Release({self.method}, {self.certificate.records} records in {self.certificate.groups} groups)"

    def facts(self) -> Facts:
        """What a reader wants to know at a glance; nothing in it points at a person."""
        return Facts(self.certificate, self.measures, self.method, dict(self.parameters))

    def plot_path(self) -> Picture:
        """The path as a picture: the smallest group against what is known, step by step, for the owner alone.

        A notebook shows it; ``.save("path.svg")`` and ``.save("path.html")`` write it. Its tooltips name raw values. Raises
        `PolicyError` where the method leaves no path.
        """
        return Picture(self._walked())

    def explain(self) -> str:
        """The path in plain words: every step, what it was worth, and why the rest was left; for the owner alone.

        The text names raw values, also such as the release hides. Raises `PolicyError` where the method leaves no path.
        """
        return explain(self._walked())

    def _walked(self) -> shoal.path.Path:
        if self.path is None:
            raise PolicyError(
                f"{self.method} leaves no path; only methods that open or close values step by step, as tds and bottom-up "
                "do, leave one: choose such a method"
            )
        return self.path

    def save(self, path: str | Path, *, format: Format | None = None, overwrite: bool = False) -> Path:
        """Write what may leave to ``path``, and what must not to ``path`` + ``.owner`` (mode 700).

        The table is written in an order that does not follow the input, read back and checked again; only then do both
        folders appear, whole. A failure leaves what was there before.
        """
        folder, owner = _places(path)
        for place, mark in ((folder, MARK), (owner, OWNER_MARK)):
            _refuse_to_lose(place, mark, overwrite)
        made = [p for p in folder.parents if not p.exists()]
        work = None
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            work = Path(tempfile.mkdtemp(prefix=f".{folder.name[:40]}-", dir=folder.parent))
            self._write_public(work / "public", format or self.format)
            self._write_owner(work / "owner")
            _exchange([(work / "owner", owner), (work / "public", folder)], work)
            shutil.rmtree(work, ignore_errors=True)
            made = []
        except OSError as error:
            raise EngineError(f"cannot write the release to {str(folder)!r}: {error.strerror or error}") from error
        finally:
            if work is not None and not any(work.glob("old-*")):  # what could not be put back is not thrown away
                shutil.rmtree(work, ignore_errors=True)
            for parent in made:
                with suppress(OSError):
                    parent.rmdir()
        return folder

    def _write_public(self, folder: Path, format: Format) -> None:
        folder.mkdir()
        folder.chmod(0o755)
        table = folder / f"table.{format}"
        self.engine.write(table, format)
        certificate = self._recheck(table)
        if not certificate.holds or certificate.fingerprint != self.certificate.fingerprint:
            raise RequirementNotMet(
                "the table that was written is not the table that was checked; nothing was released"
            ).reached(certificate)
        with table.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        statement = {
            **certificate.to_dict(),
            "file": table.name,
            "sha256": digest,
            "measures": self.measures.public(drawn=certificate.evidence == "groups"),
        }
        (folder / "certificate.json").write_text(_json(statement), encoding="utf-8")
        (folder / "policy.yaml").write_text(self.policy.to_yaml(public=True), encoding="utf-8")
        (folder / "report.html").write_text(html(self.facts(), self.policy, owner=False), encoding="utf-8")

    def _recheck(self, table: Path) -> Certificate:
        """The certificate of the table as it was written; the groups that records were drawn from do not stand in it."""
        if self.certificate.evidence == "groups":
            return replace(self.certificate, fingerprint=open_data(table).fingerprint())
        return examine(table, self.policy, suppressed=self.certificate.suppressed)

    def _write_owner(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        files = {
            "recoding.json": self.recoding.to_json(),
            "policy.yaml": self.policy.to_yaml(),
            "report.html": html(self.facts(), self.policy, owner=True),
            "ledger.json": _json(
                {
                    "method": self.method,
                    "parameters": dict(self.parameters),
                    **({} if self.seed is None else {"seed": self.seed}),
                    "dropped": list(self.dropped),
                    "fingerprint": self.certificate.fingerprint,
                    "records": self.certificate.records,
                    "suppressed": self.certificate.suppressed,
                    "measures": {**self.measures, "columns": self.measures.columns},
                }
            ),
        }
        if self.path is not None:
            files["path.html"] = self.plot_path().html
        for name, text in files.items():
            target = folder / name
            target.touch(mode=0o600)
            target.write_text(text, encoding="utf-8")


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _places(path: str | Path) -> tuple[Path, Path]:
    """The two folders of a release, or an error for a path that can be none."""
    folder = Path(path)
    try:
        if not folder.name:
            folder = folder.resolve()
        if not folder.name or folder.resolve() in (Path.cwd(), *Path.cwd().parents):
            raise EngineError(f"a release cannot take the place of {str(path)!r}; name a folder of its own")
        owner = folder.with_name(folder.name + OWNER)
        owner.exists()
    except (OSError, ValueError) as error:
        raise EngineError(f"{str(path)!r} cannot be a folder: {getattr(error, 'strerror', None) or error}") from error
    return folder, owner


def _refuse_to_lose(place: Path, mark: str, overwrite: bool) -> None:
    """Only an earlier release, or an empty folder, may be replaced."""
    if not place.exists() or (place.is_dir() and not any(place.iterdir())):
        return
    if not place.is_dir() or not (place / mark).is_file():
        raise EngineError(f"{str(place)!r} is there and is no release, so it is not overwritten; choose another folder")
    if not overwrite:
        raise EngineError(f"{str(place)!r} is already there; choose another folder, or allow to overwrite it (--force)")


def _exchange(pairs: list[tuple[Path, Path]], work: Path) -> None:
    """Put new folders in the place of old ones; if anything interrupts, the old ones are put back."""
    olds = [(place, work / f"old-{number}") for number, (_, place) in enumerate(pairs)]
    try:
        for (new, place), (_, old) in zip(pairs, olds, strict=True):
            if place.exists():
                place.replace(old)
            new.replace(place)
    except BaseException:
        for (new, _), (place, old) in reversed(list(zip(pairs, olds, strict=True))):
            if not new.exists() and place.exists():
                place.replace(new)
            if old.exists() and not place.exists():
                old.replace(place)
        raise
