"""A release: what leaves the house, with the certificate that says why it may, and what must stay at home."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import shoal.recoding.search_path
from shoal.encoding.equivalence_classes import published, shown
from shoal.engines import Engine, Format, digest_of, open_data
from shoal.errors import DataError, EngineError, PolicyError, RequirementNotMet, some
from shoal.formats.checked_json import member, read_object, report_damage
from shoal.formats.column_pairs import published_names
from shoal.formats.normalize import Normalizer
from shoal.measures import Audience, Confided, Measures
from shoal.measures.comparison import counted, looked_at
from shoal.policy import Policy
from shoal.recoding import Parts, Recoding
from shoal.release.ledger import FILE, Ledger, digest
from shoal.report import Facts, Picture, explain, html
from shoal.requirements import Certificate, Requirement, certify
from shoal.requirements.groups import Groups
from shoal.secret import GUESSABLE, LEDGER, is_guessable, load_seed
from shoal.work_folder import WorkFolder, sweep

MINIMALITY = (
    "A requirement names a sensitive column: whoever knows the method may learn from the reason why groups were widened "
    "(minimality attack)."
)
OWNER = ".owner"
MARK, OWNER_MARK = "certificate.json", LEDGER  # by these a folder is known as a release


@dataclass(frozen=True)
class View:
    """A finished table as a stranger sees it: its groups by what stands in it."""

    engine: Engine
    groups: Groups
    labels: Mapping[str, Sequence[str | None]]
    confided: Confided = field(default_factory=Confided)

    @classmethod
    def of(cls, engine: Engine, policy: Policy, *, measured: Policy | None = None) -> View:
        """Count a table by a policy; with ``measured`` also the columns that measures look at."""
        policy.fit(engine.schema(), check=True)
        if measured is None:
            return cls(engine, *published(engine, policy))
        table = shown(engine, policy, also=looked_at(engine, measured))
        groups, confided = counted(table, measured, policy.confidential)
        return cls(engine, groups, table.labels, confided)

    def certificate(
        self,
        policy: Policy,
        *,
        suppressed: int = 0,
        drawn: Engine | None = None,
        parts: int = 1,
        earlier: Ledger | None = None,
        fingerprint: str | None = None,
    ) -> Certificate:
        """Test every requirement; ``fingerprint`` is that of the table that leaves, where it is known.

        Where records were drawn anew, ``drawn`` is the table that leaves, and the one counted has in the place of the
        quasi-identifiers the group that each record was drawn from. With the ledger of ``earlier`` releases, the groups are
        those of all tables together.
        """
        leaving = drawn or self.engine
        columns = leaving.schema().names
        fingerprint = fingerprint or leaving.fingerprint()
        groups, labels = self.groups, self.labels
        notes = _unlike_spellings(policy, columns, self.labels, earlier)
        if earlier is not None:
            union = earlier.union(Ledger.of(groups, labels, fingerprint))
            groups, labels = union.groups, union.labels
        found = certify(
            groups,
            spread(policy.require, groups.names),
            fingerprint=fingerprint,
            label=lambda column, code: labels[column][code],
            suppressed=suppressed,
            identifiers=tuple(n for n in columns if n in policy.identifiers or n == policy.key),
            unassigned=policy.unassigned(columns),
            evidence="union" if earlier is not None else "table" if drawn is None else "groups",
            parts=parts,
            notes=(*notes, *((MINIMALITY,) if _names_sensitive(policy) else ())),
        )
        return replace(found, records=self.groups.records)

    def audience(self, suppressed: int) -> Audience:
        """What the measures look at."""
        return Audience(self.groups, suppressed, self.confided)


def examine(data: Any, policy: Policy) -> Certificate:
    """Test a table against a policy by what stands in it, whoever made it."""
    return View.of(open_data(data), policy).certificate(policy)


def _names_sensitive(policy: Policy) -> bool:
    """Whether a requirement looks at values that the table publishes as they are."""
    return any(r.of is not None and (r.of in policy.sensitive or r.of == policy.target) for r in policy.require)


def _unlike_spellings(
    policy: Policy, columns: Sequence[str], labels: Mapping[str, Sequence[str | None]], earlier: Ledger | None
) -> tuple[str, ...]:
    """A warning for each column whose requirements count several spellings of a value as different values.

    A value that a requirement names and the table has in another spelling alone is such a case too. Only values of this
    table and of the policy are quoted, none of ``earlier`` tables.
    """
    notes = []
    for column in policy.confidential:
        if column in policy.normalize or column not in columns or column not in policy.countable:
            continue
        before = () if earlier is None else earlier.groups.labels[earlier.groups.secrets.index(column)]
        named = [v for r in policy.require if r.of == column for v in getattr(r, "values", None) or ()]
        if said := _agreeing(policy.normal, labels[column], named, before):
            notes.append(
                f"Requirements count values of {column!r} as different that agree after normalization (trimming, Unicode NFKC, "
                f"case folding, number text, words for missing): {said}. Add 'normalize: [{column}]' to the policy to count "
                "them as one."
            )
    return tuple(notes)


def _agreeing(
    normal: Normalizer, labels: Sequence[str | None], named: Sequence[str], before: Sequence[str | None]
) -> str:
    """The pairs of values that agree after normalization, in words."""
    first: dict[str, str] = {}
    pairs = []
    for text in (label or "" for label in labels):
        other = first.setdefault(normal(text), text)
        if other != text:
            pairs.append((other, text))
    for text in named:
        other = first.get(normal(text), text)
        if other not in named:
            pairs.append((other, text))
    if pairs:
        return some(dict.fromkeys(pairs))
    unlike = any(first.get(normal(text), text) != text for text in (label or "" for label in before))
    return "values of this table and of earlier releases" if unlike else ""


def spread(requirements: Sequence[Requirement], names: Sequence[str]) -> list[Any]:
    """The same requirements on published columns: one on `age` looks at `age_lo` and `age_hi` where a table has these."""
    found: list[Any] = []
    for requirement in requirements:
        if requirement.on is not None:
            on = [shown for name in requirement.on for shown in published_names(name, names)]
            requirement = replace(requirement, on=tuple(on))  # type: ignore[type-var]
        found.append(requirement)
    return found


@dataclass(frozen=True)
class Release:
    """What a method made of a table, after its check.

    ``frame`` is the released table as the kind of frame that came in, in its row order, suppressed records left out.
    ``path`` is the way that a method took which opens or closes values step by step, else None; ``seed`` the secret, on which
    ties among records and random draws depend; ``again`` makes the release with another secret, where the user gave none;
    ``earlier`` what was released before, where later records were released by the same recoding; ``view``
    what a stranger counts in the table.
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
    path: shoal.recoding.search_path.Path | None = None
    seed: int = field(default=0, repr=False)
    earlier: Ledger | None = field(default=None, repr=False)
    view: View | None = field(default=None, repr=False)
    method_notes: tuple[str, ...] = field(default=(), repr=False)
    again: Callable[..., Release] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def frame(self) -> Any:
        """The released table."""
        return self.engine.frame()

    def __repr__(self) -> str:
        return f"Release({self.method}, {self.certificate.records} records in {self.certificate.groups} groups)"

    @property
    def notes(self) -> tuple[str, ...]:
        """What the owner should know; not for the public."""
        return (*self.method_notes, *((GUESSABLE,) if is_guessable(self.seed) else ()))

    def facts(self) -> Facts:
        """What a reader wants to know at a glance; nothing in it points at a person."""
        return Facts(self.certificate, self.measures, self.method, dict(self.parameters), self.notes)

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

    def _walked(self) -> shoal.recoding.search_path.Path:
        if self.path is None:
            raise PolicyError(
                f"{self.method} leaves no path; only methods that open or close values step by step, as tds and bottom-up "
                "do, leave one: choose such a method"
            )
        return self.path

    def save(
        self,
        path: str | Path,
        *,
        format: Format | None = None,
        overwrite: bool = False,
        escape_formulas: bool = True,
    ) -> Path:
        """Write what may leave to ``path``, and what must not to ``path`` + ``.owner`` (mode 700).

        Parameters
        ----------
        path : the folder to make
        format : ``csv`` or ``parquet``; that of the input unless given, and CSV for frames
        overwrite : replace an earlier release
        escape_formulas : in CSV, write an apostrophe before texts that a spreadsheet program would run as formulas. Shoal
            removes it when it reads the file; a note in ``certificate.json`` counts these cells

        Guarantee
        ---------
        The table is written in an order that does not follow the input, read back and checked again; only then do both
        folders appear, whole. A failure leaves what was there before. Where an earlier program was killed in this, what it
        left beside ``path`` is removed, and a release that it had moved away is put back first.

        Where an earlier release with the same policy is overwritten, its secret is used again, unless a seed was given: the
        release is made once more with that secret, and this object becomes that release. Otherwise whoever has both tables
        could intersect two groupings of the same people.
        """
        folder, owner = _places(path)
        sweep(folder.parent.absolute())
        for place, mark in ((folder, MARK), (owner, OWNER_MARK)):
            _refuse_to_lose(place, mark, overwrite)
        if self.earlier is not None:
            _refuse_to_forget(owner, self.earlier)
        if self.again is not None:
            self._reuse(earlier_seed(folder, self.policy))
        made = [p for p in folder.parents if not p.exists()]
        work = None
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            work = WorkFolder(folder.parent.absolute())
            ledger = self._write_public(work.path / "public", format or self.format, escape_formulas=escape_formulas)
            self._write_owner(work.path / "owner", ledger)
            work.exchange({"owner": owner.name, "public": folder.name})
            made = []
        except (OSError, EngineError) as error:
            fault = error if isinstance(error, OSError) else error.__cause__
            if not isinstance(fault, OSError):
                raise
            raise EngineError(f"cannot write the release to {str(folder)!r}: {fault.strerror or fault}") from fault
        finally:
            if work is not None:
                work.remove()
            for parent in made:
                with suppress(OSError):
                    parent.rmdir()
        return folder

    def _reuse(self, seed: int | None) -> None:
        """Become the release that is made with this secret."""
        if seed is None or seed == self.seed or self.again is None:
            return
        try:
            other = self.again(seed=seed)
        except (DataError, EngineError) as error:
            raise EngineError(
                "the release that is overwritten was made with another secret, and this one cannot be made again with it, "
                "since its source is not there any more. Pass the owner's folder of that release to anonymize, as "
                "secret='….owner'."
            ) from error
        for known in fields(self):
            object.__setattr__(self, known.name, getattr(other, known.name))
        self.__dict__.pop("frame", None)

    def _write_public(self, folder: Path, format: Format, *, escape_formulas: bool) -> Ledger | None:
        """Write what may leave, and give back what was counted in it."""
        folder.mkdir()  # public files and folders have the modes that the user's umask gives
        table = folder / f"table.{format}"
        options = {} if escape_formulas else {"escape_formulas": False}
        escaped = self.engine.write(table, format, **options)
        written = self.engine.opened(table)
        drawn = (
            self.certificate.evidence == "groups"
        )  # the groups that records were drawn from do not stand in the table
        same = self.view if written is self.engine else None  # the very bytes that were counted
        view = None if drawn else same or View.of(written, self.policy)
        certificate = self._recheck(written, view)
        if not certificate.holds or certificate.fingerprint != self.certificate.fingerprint:
            raise RequirementNotMet(
                "the table that was written is not the table that was checked; nothing was released"
            ).reached(certificate)
        notes = (*self.certificate.notes, *([_note_escaped(escaped)] if escaped else []))
        certificate = replace(certificate, notes=notes)
        statement = {
            **certificate.to_dict(),
            **_digests(table),
            "measures": self.measures.public(drawn=drawn),
        }
        (folder / "certificate.json").write_text(_json(statement), encoding="utf-8")
        (folder / "policy.yaml").write_text(self.policy.to_yaml(public=True), encoding="utf-8")
        facts = replace(self.facts(), certificate=certificate)
        (folder / "report.html").write_text(html(facts, self.policy, owner=False), encoding="utf-8")
        if view is None:
            return None
        ledger = Ledger.of(
            view.groups, view.labels, certificate.fingerprint, normalized=self.policy.normalize
        ).asked_of(self.policy.confidential)
        return ledger if self.earlier is None else self.earlier.union(ledger)

    def _recheck(self, written: Engine, view: View | None) -> Certificate:
        """The certificate of the table as it was written."""
        before = self.certificate
        if view is None:
            return replace(before, fingerprint=written.fingerprint())
        return view.certificate(self.policy, suppressed=before.suppressed, parts=before.parts, earlier=self.earlier)

    def _write_owner(self, folder: Path, ledger: Ledger | None) -> None:
        folder.mkdir(mode=0o700)
        folder.chmod(0o700)  # whatever the umask takes away
        recoding = self.recoding.to_json()
        files = {
            "recoding.json": recoding,
            "policy.yaml": self.policy.to_yaml(),
            "report.html": html(self.facts(), self.policy, owner=True),
            LEDGER: _json(
                {
                    "method": self.method,
                    "parameters": dict(self.parameters),
                    "seed": self.seed,
                    "dropped": list(self.dropped),
                    "fingerprint": self.certificate.fingerprint,
                    **({} if self.earlier is None else {"earlier": list(self.earlier.releases)}),
                    "records": self.certificate.records,
                    "suppressed": self.certificate.suppressed,
                    "measures": {**self.measures, "columns": self.measures.columns},
                }
            ),
        }
        if ledger is not None:
            files[FILE] = replace(ledger, recoding=digest(recoding)).to_json()
        if self.path is not None:
            files["path.html"] = self.plot_path().html
        for name, text in files.items():
            _make_private(folder / name).write_text(text, encoding="utf-8")
        if isinstance(self.recoding, Parts):
            for file in self.recoding.files():
                shutil.copyfile(file, _make_private(folder / file.name))


def _note_escaped(cells: int) -> str:
    """What a recipient must know of a CSV file in which formulas are escaped."""
    many = "1 cell begins" if cells == 1 else f"{cells:,} cells begin"
    return (
        f"in the CSV file {many} with an apostrophe that is not part of the value: it keeps spreadsheet programs from running "
        "the value as a formula, and Shoal removes it when it reads the file"
    )


def _make_private(file: Path) -> Path:
    """Make an empty file that nobody but its owner can read or write, whatever the umask, and give back its path."""
    file.touch(mode=0o600)
    file.chmod(0o600)
    return file


def earlier_seed(path: str | Path, policy: Policy) -> int | None:
    """The secret of the release that is saved at a path, if that was made with the same policy."""
    owner = _places(path)[1]
    if not (owner / OWNER_MARK).is_file() or not (owner / "policy.yaml").is_file():
        return None
    try:
        return load_seed(owner) if Policy.load(owner / "policy.yaml") == policy else None
    except (PolicyError, DataError):
        return None


def _digests(table: Path) -> dict[str, Any]:
    """The name of a table and the digest of its bytes; of each of its files where it is a folder of them."""
    if table.is_file():
        return {"file": table.name, "sha256": digest_of(table)}
    listed = sorted(path for path in table.rglob("*") if path.is_file())
    return {"file": table.name, "sha256": {str(path.relative_to(table)): digest_of(path) for path in listed}}


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


def _refuse_to_forget(owner: Path, earlier: Ledger) -> None:
    """A release that others were counted with stays where it is: the ledger goes on counting it."""
    file = owner / OWNER_MARK
    if not file.is_file():
        return
    with report_damage(file, "ledger"):
        fingerprint = member(read_object(file.read_text(encoding="utf-8")), "fingerprint", str)
    if fingerprint in earlier.releases:
        raise EngineError(
            f"{str(owner)!r} belongs to a release that this one goes on from and is counted with; choose another folder. To do "
            "a month over, go on from the release before it"
        )
