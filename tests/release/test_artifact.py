"""The store releases any artifact: here class counts, which are not a table."""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

import shoal
from shoal.engines import digest_file
from shoal.measures import Measures
from shoal.release import Release, WrittenArtifact
from shoal.release.artifact import SaveOptions
from shoal.release.ledger import Ledger
from shoal.requirements import Certificate, Finding

POLICY = shoal.Policy(quasi={"age": "numeric"}, require=[shoal.KAnonymity(3)])


@dataclass(frozen=True)
class CountsArtifact:
    """The number of records of every class; each count must reach k."""

    counts: dict[str, int]
    spoiled: bool = False

    def write(self, folder: Path, options: SaveOptions) -> WrittenArtifact:
        """Write ``counts.json``."""
        path = folder / "counts.json"
        path.write_text(json.dumps({**self.counts, **({"z": 1} if self.spoiled else {})}))
        return WrittenArtifact(path.name, digest_file(path), ("counts of classes",))

    def reopen(self, path: Path) -> CountsArtifact:
        """Read ``counts.json``."""
        return CountsArtifact(json.loads(path.read_text()))

    def fingerprint(self) -> str:
        """The counts as text."""
        return json.dumps(self.counts, sort_keys=True)

    def audit(
        self, policy: shoal.Policy, before: Certificate | None, prior: Ledger | None
    ) -> tuple[Certificate, Ledger | None]:
        """Test the smallest count."""
        least, smallest = policy.least_group_size, min(self.counts.values())
        result = f"smallest class has {smallest} records"
        finding = Finding("k-anonymity", {}, "counts", [], smallest >= least, smallest, 0, 0, 0, {}, 0, "", result)
        records = sum(self.counts.values())
        return Certificate(finding.holds, records, len(self.counts), smallest, (finding,), self.fingerprint()), None


def release_of(artifact: CountsArtifact) -> Release:
    certificate, _ = artifact.audit(POLICY, None, None)
    measures = Measures({"records": 12.0, "ncp": 0.25}, {})
    return Release(POLICY, certificate, measures, None, "counting", {}, (), artifact)


def test_an_artifact_that_is_no_table_is_released_in_two_folders(tmp_path: Path) -> None:
    release_of(CountsArtifact({"a": 5, "b": 7})).save(tmp_path / "out")
    public = {path.name for path in (tmp_path / "out").iterdir()}
    owner = {path.name for path in (tmp_path / "out.owner").iterdir()}
    assert public == {"counts.json", "certificate.json", "policy.yaml", "report.html"}
    assert owner == {"ledger.json", "policy.yaml", "report.html"}
    assert stat.S_IMODE((tmp_path / "out.owner").stat().st_mode) == 0o700
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert certificate["file"] == "counts.json" and certificate["sha256"] == digest_file(tmp_path / "out/counts.json")
    assert certificate["notes"] == ["counts of classes"] and certificate["measures"] == {"records": 12.0}


def test_the_reopened_artifact_is_audited(tmp_path: Path) -> None:
    """A file that differs from the audited artifact is not published."""
    with pytest.raises(shoal.RequirementNotMet, match="differ from what was audited"):
        release_of(replace(CountsArtifact({"a": 5, "b": 7}), spoiled=True)).save(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_only_a_table_has_a_frame() -> None:
    with pytest.raises(shoal.PolicyError, match="this release is not a table but a CountsArtifact"):
        _ = release_of(CountsArtifact({"a": 5})).frame


def test_two_tables_cannot_be_written_to_one_table_of_a_database(tmp_path: Path) -> None:
    """Refused before the method runs again with the secret of an earlier release."""
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=["ill"], require=[shoal.LDiversity(2, of="ill")])
    table = pa.table({"age": [1, 2, 3, 4], "ill": ["a", "b", "a", "b"]})
    release = shoal.anonymize(table, policy, method="anatomy")
    with pytest.raises(shoal.PolicyError, match="not one table, so it cannot be written to the database table 'ward'"):
        release.save(tmp_path / "release", table="ward")
    assert not list(tmp_path.iterdir())
