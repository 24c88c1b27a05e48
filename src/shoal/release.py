"""A release: what leaves the house, with the certificate that says why it may, and what must stay at home."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from shoal.codes import published
from shoal.engines import Engine, Format, open_data
from shoal.errors import EngineError, RequirementNotMet
from shoal.groups import Groups
from shoal.policy import Policy
from shoal.recoding import Recoding
from shoal.report import Facts, html
from shoal.requirements import Certificate, certify

OWNER = ".owner"


@dataclass(frozen=True)
class Examined:
    """A table as a stranger sees it: the certificate, and the groups it was made from."""

    certificate: Certificate
    groups: Groups


def examine(data: Any, policy: Policy, *, suppressed: int = 0, also: Sequence[str] = ()) -> Examined:
    """Test a table against a policy by what stands in it, whoever made it; columns of ``also`` are counted too."""
    engine = open_data(data)
    policy.fit(engine.schema(), check=True)
    groups, labels = published(engine, policy, also=also)
    requirements = [_spread(r, groups.names) for r in policy.require]
    certificate = certify(
        groups,
        requirements,
        fingerprint=engine.fingerprint(),
        label=lambda column, code: labels[column][code],
        suppressed=suppressed,
    )
    return Examined(certificate, groups)


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
    """

    policy: Policy
    certificate: Certificate
    measures: Mapping[str, float]
    kept: Mapping[str, float]
    recoding: Recoding
    method: str
    parameters: Mapping[str, Any]
    dropped: tuple[str, ...]
    format: Format
    engine: Engine

    @cached_property
    def frame(self) -> Any:
        """The released table."""
        return self.engine.frame()

    def facts(self) -> Facts:
        """What a reader wants to know at a glance; nothing in it points at a person."""
        return Facts(self.certificate, self.measures, self.kept, self.method, dict(self.parameters))

    def save(self, path: str | Path, *, format: Format | None = None, overwrite: bool = False) -> Path:
        """Write what may leave to ``path``, and what must not to ``path`` + ``.owner`` (mode 700).

        The table is written in an order that does not follow the input, read back and checked again; only then do both
        folders appear, whole. A failure leaves what was there before.
        """
        folder = Path(path)
        owner = folder.with_name(folder.name + OWNER)
        for old in (folder, owner):
            if old.exists() and not overwrite and (not old.is_dir() or any(old.iterdir())):
                raise EngineError(f"{str(old)!r} is already there; choose another folder, or allow to overwrite it")
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        except OSError as error:
            raise EngineError(f"cannot write to {str(folder.parent)!r}: {error.strerror}") from error
        try:
            self._write_public(work / "public", format or self.format)
            self._write_owner(work / "owner")
            _exchange([(work / "owner", owner), (work / "public", folder)], work)
        except OSError as error:
            raise EngineError(f"cannot write the release to {str(folder)!r}: {error.strerror or error}") from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return folder

    def _write_public(self, folder: Path, format: Format) -> None:
        folder.mkdir()
        folder.chmod(0o755)
        table = folder / f"table.{format}"
        self.engine.write(table, format)
        certificate = examine(table, self.policy, suppressed=self.certificate.suppressed).certificate
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
            "measures": dict(self.measures),
        }
        (folder / "certificate.json").write_text(_json(statement), encoding="utf-8")
        (folder / "policy.yaml").write_text(self.policy.to_yaml(public=True), encoding="utf-8")
        (folder / "report.html").write_text(html(self.facts(), self.policy), encoding="utf-8")

    def _write_owner(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        files = {
            "recoding.json": self.recoding.to_json(),
            "policy.yaml": self.policy.to_yaml(),
            "ledger.json": _json(
                {
                    "method": self.method,
                    "parameters": dict(self.parameters),
                    "dropped": list(self.dropped),
                    "fingerprint": self.certificate.fingerprint,
                    "records": self.certificate.records,
                    "suppressed": self.certificate.suppressed,
                }
            ),
        }
        for name, text in files.items():
            target = folder / name
            target.touch(mode=0o600)
            target.write_text(text, encoding="utf-8")


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _exchange(pairs: list[tuple[Path, Path]], work: Path) -> None:
    """Put new folders in the place of old ones; if one fails, the old ones are put back."""
    done: list[tuple[Path, Path | None]] = []
    try:
        for number, (new, place) in enumerate(pairs):
            old = work / f"old-{number}" if place.exists() else None
            if old is not None:
                place.replace(old)
            done.append((place, old))
            new.replace(place)
    except OSError:
        for place, old in reversed(done):
            if place.exists():
                shutil.rmtree(place, ignore_errors=True)
            if old is not None and old.exists():
                old.replace(place)
        raise
