"""The store: write a release to its two folders and audit the written files. Both folders appear complete or not at all.

The public folder has the given name. The owner folder has the same name with ``.owner`` appended (mode 700).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.engines import TargetTable
from shoal.engines.keyed_hash import KeyedHash
from shoal.errors import DataError, EngineError, PolicyError, RequirementNotMet
from shoal.formats.checked_json import member, read_object, read_text, report_damage
from shoal.formats.surrogates import is_utf8
from shoal.policy import Policy
from shoal.release.artifact import Artifact, DescribedArtifact, SaveOptions, TableArtifact, WrittenArtifact
from shoal.release.ledger import FILE, Ledger, digest
from shoal.report import render_report
from shoal.requirements import Certificate
from shoal.secret import LEDGER, load_seed
from shoal.work_folder import WorkFolder, sweep

if TYPE_CHECKING:
    from shoal.release.release import Release

OWNER = ".owner"
HAS_MODES = os.name != "nt"
NO_MODES = (
    "Windows has no file modes, so the owner folder has the permissions of the folder that contains it. Allow only the owner "
    "to read the owner folder."
)
MARK, OWNER_MARK = "certificate.json", LEDGER  # a folder with this file is a public or an owner folder


def save_release(release: Release, path: str | Path, options: SaveOptions, *, overwrite: bool) -> Path:
    """Write both folders of a release; see `Release.save`."""
    folder, owner = _folders(path)
    sweep(folder.parent.absolute())
    for existing, mark in ((folder, MARK), (owner, OWNER_MARK)):
        _refuse_overwrite(existing, mark, overwrite)
    if release.prior is not None:
        _refuse_overwriting_prior(owner, release.prior)
    if options.table is not None:
        _refuse_several_tables(release, options.table)
    if release.remake is not None:
        release.reuse_secret(read_earlier_seed(folder, release.policy))
    target = _find_target(release, options, overwrite=overwrite)
    new_parents = [p for p in folder.parents if not p.exists()]
    work = written = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = WorkFolder(folder.parent.absolute())
        written = _write_artifact(release, work.path / "public", options, target)
        ledger = _write_public(release, work.path / "public", written)
        _write_owner(release, work.path / "owner", ledger)
        commit = None if written.table is None else written.table.commit
        work.exchange({"owner": owner.name, "public": folder.name}, commit)
        new_parents = []
    except (OSError, EngineError) as error:
        fault = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(fault, OSError):
            raise
        raise EngineError(f"cannot write the release to {str(folder)!r}: {fault.strerror or fault}.") from fault
    finally:
        if written is not None and written.table is not None:
            written.table.abort()  # without effect on a table that is visible
        if work is not None:
            work.remove()
        for parent in new_parents:
            with suppress(OSError):
                parent.rmdir()
    return folder


def _refuse_several_tables(release: Release, table: str) -> None:
    """Raise `PolicyError` if the release cannot be a table in a database."""
    if not isinstance(release.artifact, TableArtifact) or not release.artifact.one_table:
        raise PolicyError(
            f"this release is not one table, so it cannot be written to the database table {table!r}. Remove 'table' to write "
            "its files."
        )


def _find_target(release: Release, options: SaveOptions, *, overwrite: bool) -> TargetTable | None:
    """The table in a database that the release is written to; None if files are written."""
    if options.table is None or not isinstance(release.artifact, TableArtifact):
        return None
    order = KeyedHash.of(release.seed)
    columns = tuple(name for name, quasi in release.policy.quasi.items() if quasi.kind != "categorical")
    target = TargetTable(options.table, order, overwrite=overwrite, ranges=columns if options.range_types else ())
    release.artifact.engine.refuse_unwritable(target)
    return target


def _write_artifact(
    release: Release, folder: Path, options: SaveOptions, target: TargetTable | None
) -> WrittenArtifact:
    """Write the artifact to the public folder, or to a table in a database."""
    folder.mkdir()  # the user's umask decides the modes of public files and folders
    if target is not None and isinstance(release.artifact, TableArtifact):
        return release.artifact.write_to_database(target)
    return release.artifact.write(folder, options)


def _write_public(release: Release, folder: Path, written: WrittenArtifact) -> Ledger | None:
    """Audit the written artifact and write the other public files; return the ledger, None if there are no visible groups."""
    artifact = _reopen(release.artifact, folder / written.file, written)
    certificate, ledger = artifact.audit(release.policy, release.certificate, release.prior)
    if not certificate.holds or certificate.fingerprint != release.certificate.fingerprint:
        raise RequirementNotMet(
            "the written files differ from what was audited, so nothing was released. Save the release again; if the error "
            "returns, check the disk."
        ).with_certificate(certificate)
    certificate = replace(
        certificate,
        notes=(*release.certificate.notes, *written.notes),
        fingerprint=written.fingerprint or certificate.fingerprint,  # of the table as recipients read it
    )
    statement = {
        **certificate.to_dict(),
        **written.statement(),
        "measures": release.measures.public(evidence=certificate.evidence),
    }
    (folder / "certificate.json").write_text(_json(statement), encoding="utf-8", newline="\n")
    public = release.policy.model_copy(update={"read": written.read})  # how the published table is written
    (folder / "policy.yaml").write_text(public.to_yaml(public=True), encoding="utf-8", newline="\n")
    summary = replace(release.summary(), certificate=certificate)
    (folder / "report.html").write_text(
        render_report(
            summary, release.policy, owner=False, sections=_render_sections(release.artifact, certificate, owner=False)
        ),
        encoding="utf-8",
        newline="\n",
    )
    return ledger if ledger is None or release.prior is None else release.prior.union(ledger)


def _reopen(artifact: Artifact, path: Path, written: WrittenArtifact) -> Artifact:
    """Open a written artifact; only tables can be written like the input, or to a database."""
    if isinstance(artifact, TableArtifact):
        if written.table is not None:
            return artifact.reopen_table(written.table)
        return artifact.reopen(path, written.read)
    return artifact.reopen(path)


def _write_owner(release: Release, folder: Path, ledger: Ledger | None) -> None:
    folder.mkdir(mode=0o700)
    folder.chmod(0o700)  # independent of the umask
    files = {
        "policy.yaml": release.policy.to_yaml(),
        "report.html": render_report(
            release.summary(),
            release.policy,
            owner=True,
            sections=_render_sections(release.artifact, release.certificate, owner=True) + release.owner_sections,
        ),
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
    if release.recoding is not None:
        files["recoding.json"] = release.recoding.to_json()
    if ledger is not None:
        files[FILE] = replace(ledger, recoding=digest(files.get("recoding.json", ""))).to_json()
    if isinstance(release.artifact, DescribedArtifact):
        files |= release.artifact.owner_files(release.certificate)
    if release.path is not None:
        files["path.html"] = release.plot_path().html
    for name, text in files.items():
        _make_private(folder / name).write_text(text, encoding="utf-8", newline="\n")
    for file in release.recoding.files() if release.recoding else ():
        shutil.copyfile(file, _make_private(folder / file.name))


def _render_sections(artifact: Artifact, certificate: Certificate, *, owner: bool) -> str:
    """The sections that an artifact adds to the report."""
    return artifact.sections(certificate, owner=owner) if isinstance(artifact, DescribedArtifact) else ""


def _make_private(file: Path) -> Path:
    """Create an empty file that only its owner can read and write, independent of the umask; return its path."""
    file.touch(mode=0o600)
    file.chmod(0o600)
    return file


def read_earlier_seed(path: str | Path, policy: Policy) -> int | None:
    """The secret seed of the release saved at a path; None if there is no owner folder, or a release with another policy.

    Raises `DataError` for a damaged owner folder. A new secret seed would be a second grouping of the same people.
    """
    owner = _folders(path)[1]
    file = owner / "policy.yaml"
    if not (owner / OWNER_MARK).is_file():
        return None
    try:
        if _describes_same(Policy.load(file), policy):
            file = owner / OWNER_MARK
            return load_seed(owner)
        return None
    except (PolicyError, DataError) as error:
        raise DataError(
            f"the secret seed of the release {str(path)!r} cannot be used again, because the file {str(file)!r} is damaged: "
            f"{str(error).rstrip('.')}. Repair this file, choose another folder, or pass the secret seed (secret= or seed=, "
            "--secret or --seed). If the release was never published, you can also delete its two folders."
        ) from error


def _describes_same(one: Policy, other: Policy) -> bool:
    """Whether two policies are equal, except for how the file with the raw table is written."""
    return one.model_copy(update={"read": None}) == other.model_copy(update={"read": None})


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _folders(path: str | Path) -> tuple[Path, Path]:
    """The public and the owner folder of a release; `EngineError` for a path that cannot be a release folder."""
    folder = Path(path)
    try:
        if not folder.name:
            folder = folder.resolve()
        if not folder.name or folder.resolve() in (Path.cwd(), *Path.cwd().parents):
            raise EngineError(
                f"{str(path)!r} contains the current folder, so a release cannot replace it. Choose another folder."
            )
        if not is_utf8(folder):
            raise EngineError(f"{str(path)!r} cannot be a folder: the path is not valid UTF-8. Choose another folder.")
        owner = folder.with_name(folder.name + OWNER)
        owner.exists()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EngineError(f"{str(path)!r} cannot be a folder: {reason}. Choose another folder.") from error
    return folder, owner


def _refuse_overwrite(existing: Path, mark: str, overwrite: bool) -> None:
    """Raise `EngineError` unless the path is free, an empty folder, or a release that may be overwritten."""
    if not existing.exists() or (existing.is_dir() and not any(existing.iterdir())):
        return
    if not existing.is_dir() or not (existing / mark).is_file():
        raise EngineError(
            f"{str(existing)!r} exists and is not a release, so it is not overwritten. Choose another folder."
        )
    if not overwrite:
        raise EngineError(
            f"{str(existing)!r} already exists. Choose another folder, or overwrite the release (overwrite=True, --force)."
        )


def _refuse_overwriting_prior(owner: Path, prior: Ledger) -> None:
    """Raise `EngineError` if the folder holds one of the earlier releases, which the ledger continues to count."""
    file = owner / OWNER_MARK
    if not file.is_file():
        return
    with report_damage(file, "ledger"):
        fingerprint = member(read_object(read_text(file)), "fingerprint", str)
    if fingerprint in prior.releases:
        raise EngineError(
            f"{str(owner)!r} belongs to an earlier release. The new release was tested together with that earlier release, so "
            "Shoal does not overwrite it. Choose another folder. To replace the earlier release, use the recoding of the "
            "release before it."
        )
