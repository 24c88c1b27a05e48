"""The store: a release is written to two folders, audited from its files, and appears whole or not at all.

Public files go to the release's folder, files for the owner to the folder with ``.owner`` behind its name (mode 700).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.engines import Engine, Format, digest_of
from shoal.errors import DataError, EngineError, PolicyError, RequirementNotMet
from shoal.formats.checked_json import member, read_object, report_damage
from shoal.policy import Policy
from shoal.recoding import Parts
from shoal.release.audit import AuditedTable
from shoal.release.ledger import FILE, Ledger, digest
from shoal.report import render_report
from shoal.requirements import Certificate
from shoal.secret import LEDGER, load_seed
from shoal.work_folder import WorkFolder, sweep

if TYPE_CHECKING:
    from shoal.release.release import Release

OWNER = ".owner"
MARK, OWNER_MARK = "certificate.json", LEDGER  # by these a folder is known as a release


def save_release(
    release: Release, path: str | Path, *, format: Format | None, overwrite: bool, escape_formulas: bool
) -> Path:
    """Write both folders of a release; see `Release.save`."""
    folder, owner = _places(path)
    sweep(folder.parent.absolute())
    for place, mark in ((folder, MARK), (owner, OWNER_MARK)):
        _refuse_to_lose(place, mark, overwrite)
    if release.prior is not None:
        _refuse_to_forget(owner, release.prior)
    if release.remake is not None:
        release.reuse_secret(read_earlier_seed(folder, release.policy))
    made = [p for p in folder.parents if not p.exists()]
    work = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = WorkFolder(folder.parent.absolute())
        ledger = _write_public(release, work.path / "public", format or release.format, escape_formulas=escape_formulas)
        _write_owner(release, work.path / "owner", ledger)
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


def _write_public(release: Release, folder: Path, format: Format, *, escape_formulas: bool) -> Ledger | None:
    """Write what may leave, and give back what was counted in it."""
    folder.mkdir()  # public files and folders have the modes that the user's umask gives
    table = folder / f"table.{format}"
    options = {} if escape_formulas else {"escape_formulas": False}
    escaped = release.engine.write(table, format, **options)
    written = release.engine.reopen(table)
    drawn = (
        release.certificate.evidence == "groups"
    )  # the groups that records were drawn from do not stand in the table
    same = release.audited if written is release.engine else None  # the very bytes that were counted
    view = None if drawn else same or AuditedTable.of(written, release.policy)
    certificate = _recheck(release, written, view)
    if not certificate.holds or certificate.fingerprint != release.certificate.fingerprint:
        raise RequirementNotMet(
            "the table that was written is not the table that was checked; nothing was released"
        ).reached(certificate)
    notes = (*release.certificate.notes, *([_note_escaped(escaped)] if escaped else []))
    certificate = replace(certificate, notes=notes)
    statement = {
        **certificate.to_dict(),
        **_digests(table),
        "measures": release.measures.public(synthetic=drawn),
    }
    (folder / "certificate.json").write_text(_json(statement), encoding="utf-8")
    (folder / "policy.yaml").write_text(release.policy.to_yaml(public=True), encoding="utf-8")
    facts = replace(release.summary(), certificate=certificate)
    (folder / "report.html").write_text(render_report(facts, release.policy, owner=False), encoding="utf-8")
    if view is None:
        return None
    ledger = Ledger.of(
        view.groups, view.labels, certificate.fingerprint, normalized=release.policy.normalize
    ).select_sensitive(release.policy.tested_columns)
    return ledger if release.prior is None else release.prior.union(ledger)


def _recheck(release: Release, written: Engine, view: AuditedTable | None) -> Certificate:
    """The certificate of the table as it was written."""
    before = release.certificate
    if view is None:
        return replace(before, fingerprint=written.fingerprint())
    return view.certificate(release.policy, suppressed=before.suppressed, parts=before.parts, earlier=release.prior)


def _write_owner(release: Release, folder: Path, ledger: Ledger | None) -> None:
    folder.mkdir(mode=0o700)
    folder.chmod(0o700)  # whatever the umask takes away
    recoding = release.recoding.to_json()
    files = {
        "recoding.json": recoding,
        "policy.yaml": release.policy.to_yaml(),
        "report.html": render_report(release.summary(), release.policy, owner=True),
        LEDGER: _json(
            {
                "method": release.method,
                "parameters": dict(release.parameters),
                "seed": release.seed,
                "dropped": list(release.dropped),
                "fingerprint": release.certificate.fingerprint,
                **({} if release.prior is None else {"earlier": list(release.prior.releases)}),
                "records": release.certificate.records,
                "suppressed": release.certificate.suppressed,
                "measures": {**release.measures, "columns": release.measures.columns},
            }
        ),
    }
    if ledger is not None:
        files[FILE] = replace(ledger, recoding=digest(recoding)).to_json()
    if release.path is not None:
        files["path.html"] = release.plot_path().html
    for name, text in files.items():
        _make_private(folder / name).write_text(text, encoding="utf-8")
    if isinstance(release.recoding, Parts):
        for file in release.recoding.files():
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


def read_earlier_seed(path: str | Path, policy: Policy) -> int | None:
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
