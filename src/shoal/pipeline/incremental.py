"""Next month's rows: new records under last month's recoding, tested together with all that was released before.

Earlier records have left and cannot be called back, so only new ones can be left out: those whose group, old and new records
together, fails a requirement, and those that fail for want of these, until nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import BoolArray, Int32Array
from shoal.encoding.codes import EncodedColumn, encode_column
from shoal.engines import Counts, Dictionary, Engine, GroupColumn, Plan, open_data
from shoal.errors import DataError, PolicyError, RequirementNotMet
from shoal.formats.numbers import format_number, parse_number
from shoal.measures import compute_measures
from shoal.policy import Policy
from shoal.progress import Progress, silent
from shoal.recoding import (
    Columns,
    LaterData,
    LocatedData,
    Placement,
    Recoding,
    Synthesis,
    locate_later_data,
    read_recoding,
    refuse_other_policy,
)
from shoal.release import AuditedTable, Release, on_published_columns
from shoal.release.ledger import Labels, Ledger
from shoal.requirements import Requirement, certify, describe
from shoal.requirements.groups import Groups
from shoal.secret import LEDGER, load_seed, new_seed

UNTRUE = (
    "{} records have labels that are not true of them: no box of the recoding held these records, so that they got the labels "
    "of the nearest one."
)


@dataclass(frozen=True)
class PriorReleases:
    """What earlier releases left with the owner: the policy, the recoding, the ledger of what left, and the secret."""

    policy: Policy
    recoding: Recoding
    ledger: Ledger
    seed: int

    @classmethod
    def load(cls, path: Path, policy: Policy | None) -> PriorReleases:
        """Read an owner's folder by the file of its recoding; a policy that is given goes before the one there."""
        path = path / "recoding.json" if path.is_dir() else path
        if not path.is_file():
            raise DataError(
                f"there is no recoding {str(path)!r}; it is in the owner's folder of a release, as recoding.json"
            )
        recoding = read_recoding(path)
        if isinstance(recoding, Synthesis):
            recoding.apply(path)  # says why not
        policy = policy or Policy.load(path.with_name("policy.yaml"))
        refuse_other_policy(policy, recoding)
        folder = path.parent  # without its ledger nothing but the secret is lost, and no new record is divided by it
        seed = load_seed(folder) if (folder / LEDGER).is_file() else new_seed()
        return cls(policy, recoding, Ledger.load(path).check_policy(policy), seed)


@dataclass(frozen=True)
class NewPartition:
    """Some of the new records: their cells, the group of each combination (-1: left out), what is written for a group.

    ``lost`` counts the records that the recoding leaves out, by the reason; ``outside`` are combinations that no box holds.
    """

    counts: Counts
    group: Int32Array
    written: Columns
    lost: dict[str, int]
    outside: BoolArray

    @property
    def untrue(self) -> int:
        """The records that got the labels of the nearest box, which are not true of them."""
        wrong = np.repeat(self.outside & (self.group >= 0), np.diff(self.counts.start))
        return int(self.counts.size[wrong].sum())

    def ledger(self, secrets: Sequence[EncodedColumn], known: Ledger) -> Ledger:
        """What a stranger will count in these records."""
        group = np.repeat(self.group, np.diff(self.counts.start))
        order = np.argsort(group, kind="stable")
        order = order[group[order] >= 0]
        present, start = np.unique(group[order], return_index=True)
        groups = Groups(
            tuple(w.name for _, w in self.written),
            tuple(s.name for s in secrets),
            _stacked([np.where(w.index < 0, len(w.values), w.index)[present] for _, w in self.written], len(present)),
            np.append(start, len(order)).astype(np.int64),
            self.counts.sensitive[order],
            self.counts.size[order],
            tuple(len(s.labels) for s in secrets),
            tuple(s.labels for s in secrets),
        )
        return Ledger(groups, self._labels(known))

    def without(self, gone: set[Labels], known: Ledger) -> NewPartition:
        """The same records but those of groups with these labels."""
        if not gone:
            return self
        labels = self._labels(known)
        columns = {
            w.name: np.array(labels[w.name], object)[w.index] for _, w in self.written
        }  # index -1 is the last: None
        rows = zip(*(columns[name] for name in known.groups.names), strict=True)
        out = np.array([row in gone for row in rows], bool)
        group = self.group.copy()
        held = np.flatnonzero(group >= 0)
        group[held[out[group[held]]]] = -1
        return replace(self, group=group)

    def _labels(self, known: Ledger) -> dict[str, Labels]:
        return {w.name: _texts(w, known.labels.get(w.name, ())) for _, w in self.written}


@dataclass(frozen=True)
class NewRecords:
    """New records with codes, in as many parts as the engine holds at once."""

    prior: PriorReleases
    located: LocatedData
    sensitive: tuple[EncodedColumn, ...]
    names: tuple[str, ...]
    nearest: bool
    _cached: dict[int, NewPartition] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, engine: Engine, before: PriorReleases, *, nearest: bool) -> NewRecords:
        """Read the columns that are needed."""
        coding: dict[str, Dictionary] = {}
        secrets = tuple(
            encode_column(engine, c, before.policy.published_reading(c), coding) for c in before.policy.tested_columns
        )
        return cls(before, locate_later_data(before.recoding, engine, coding), secrets, engine.schema().names, nearest)

    @property
    def columns(self) -> tuple[list[str], list[str]]:
        """The quasi-identifiers and the confidential columns that are counted."""
        return [f.name for f in self.prior.recoding.fields], [s.name for s in self.sensitive]

    @cached_property
    def partition_count(self) -> int:
        """How many parts there are."""
        return self.located.engine.partition(*self.columns).partitions

    def partitions(self) -> Iterator[NewPartition]:
        """The parts as the recoding places them; a single one is held, several are counted again."""
        for number in range(self.partition_count):
            part = self._cached.get(number) or self._place(number)
            if self.partition_count == 1:
                self._cached[number] = part
            yield part

    def _place(self, number: int) -> NewPartition:
        counts = self.located.engine.count(*self.columns, partition=number)
        later = LaterData(counts.quasi, self.located.positions)
        placed = self.prior.recoding.place(later)
        records = np.zeros(len(placed.group), np.int64)
        np.add.at(records, np.repeat(np.arange(len(records)), np.diff(counts.start)), counts.size)
        nowhere = np.zeros(len(records), bool)
        unknown, outside = (nowhere, nowhere) if self.nearest else (later.unknown, placed.outside & ~later.unknown)
        gone = (placed.group < 0) & ~unknown
        lost = {"unknown": unknown, "outside": outside, "suppressed": gone}
        group = np.where(unknown | outside, -1, placed.group).astype(np.int32)
        outside = placed.outside | later.unknown
        counted = {why: int(records[which].sum()) for why, which in lost.items()}
        return NewPartition(counts, group, placed.written, counted, outside)

    def apply(self, gone: set[Labels]) -> tuple[Engine, int]:
        """The table that leaves, without the groups of these labels, and how many of its records have untrue labels."""
        output, known = self.prior.recoding.output, self.prior.ledger
        untrue: list[int] = []

        def plans() -> Iterator[Plan]:
            for part in self.partitions():
                kept = part.without(gone, known)
                untrue.append(kept.untrue)
                where = Placement.whole(kept.counts, kept.group)
                listed = output.columns(self.names, kept.written)
                yield Plan(kept.counts, where.cell, where.group, where.count, listed)

        return self.located.engine.apply(plans()), sum(untrue)


def release_new_records(
    data: Any, recoding: str | Path, policy: Policy | None, *, nearest: bool = False, tell: Progress | None = None
) -> Release:
    """Release new records by the recoding of an earlier release; see `shoal.anonymize`."""
    tell = tell or silent
    if not isinstance(nearest, bool):
        raise PolicyError(f"nearest must be true or false, not {nearest!r}")
    before = PriorReleases.load(Path(recoding), policy)
    policy, source = before.policy, open_data(data)
    schema = source.schema()
    policy.check_schema(schema, check=True)
    tell("reading", 0, 1)
    new = NewRecords.of(source, before, nearest=nearest)
    tell("reading", 1, 1)
    gone = _left_out(new, schema.rows)
    tell("writing", 0, 1)
    table, untrue = new.apply(gone)
    tell("writing", 1, 1)
    tell("checking", 0, 1)
    suppressed = schema.rows - table.schema().rows
    view = AuditedTable.of(table, policy, measured=policy)
    certificate = view.certificate(policy, suppressed=suppressed, earlier=before.ledger)
    if certificate.fingerprint in before.ledger.releases:
        raise DataError(
            "these rows were released before: the table is the same as an earlier one of this chain, fingerprint "
            f"{certificate.fingerprint}; give only the records that are new"
        )
    if not certificate.holds:
        text = f"the release fails its check together with what was released before; nothing was written\n{certificate}"
        raise RequirementNotMet(text).reached(certificate)
    measures = compute_measures([], view.for_measures(suppressed))
    if nearest:
        measures["untrue_labels"] = float(untrue)
    if untrue:
        certificate = replace(certificate, notes=(*certificate.notes, UNTRUE.format(untrue)))
    tell("checking", 1, 1)
    return Release(
        policy,
        certificate,
        measures,
        before.recoding,
        "recoding",
        {"kind": before.recoding.kind, "nearest": nearest},
        tuple(n for n in schema.names if n not in policy.quasi and n not in policy.unchanged),
        source.format,
        table,
        seed=before.seed,
        prior=before.ledger,
    )


def _left_out(new: NewRecords, records: int) -> set[Labels]:
    """The labels of groups whose new records must be left out; an error where these are more than the policy allows."""
    policy, known = new.prior.policy, new.prior.ledger
    lost = dict.fromkeys(("unknown", "outside", "suppressed", "failing"), 0)
    both = known
    for part in new.partitions():
        both = both.stack(part.ledger(new.sensitive, known))
        lost = {why: count + part.lost.get(why, 0) for why, count in lost.items()}
    fixed = np.arange(len(both.groups.quasi)) < len(known.groups.quasi)
    require = on_published_columns(policy.require, both.groups.names)
    kept = select_new_groups(both.groups, require, fixed)
    _refuse_broken(both.groups.keep(kept), both.groups.keep(fixed), require)
    out = ~kept & ~fixed
    lost["failing"] = int(both.groups.size[out].sum())
    total, allowed = sum(lost.values()), policy.most_suppressed(records)
    if total > allowed or total == records:
        raise RequirementNotMet(_refusal(new, lost, total, records, allowed))
    return set(replace(both, groups=both.groups.keep(out)).rows()) if out.any() else set()


def select_new_groups(groups: Groups, requirements: Sequence[Requirement], fixed: BoolArray) -> BoolArray:
    """Which groups may stay, where those that are ``fixed`` cannot go; groups with the same labels count as one.

    As `requirements.settle`, a fixed point: no group that can still be left out fails. Fixed ones may.
    """
    kept = np.ones(len(fixed), bool)
    changed = True
    while changed:
        changed = False
        for requirement in requirements:
            merged, place = _by(groups.keep(kept), requirement)
            out = np.flatnonzero(kept)[~requirement.test(merged).ok[place]]
            out = out[~fixed[out]]
            kept[out] = False
            changed |= len(out) > 0
    return kept


def _by(groups: Groups, requirement: Requirement) -> tuple[Groups, Int32Array]:
    """The groups that a requirement is about, those with the same labels made one."""
    on = requirement.on
    return groups.merge_equal() if on is None or tuple(on) == groups.names else groups.project(on)


def _refuse_broken(groups: Groups, earlier: Groups, requirements: Sequence[Requirement]) -> None:
    """An error where groups fail that hold earlier records alone."""
    for requirement in requirements:
        merged, _ = _by(groups, requirement)
        verdict = requirement.test(merged)
        if verdict.ok.all():
            continue
        alone = bool(requirement.test(_by(earlier, requirement)[0]).ok.all())
        why = (
            "The new records shift what the whole tables tell; release fewer of them, relax the requirement, or learn a "
            "recoding anew"
            if alone
            else "It did not hold for what was released before; use the policy of that release"
        )
        failing = ~verdict.ok
        raise RequirementNotMet(
            f"{describe(requirement)} fails for {int(failing.sum())} groups with {int(merged.size[failing].sum())} records "
            f"that were released before and cannot be called back. {why}"
        ).reached(
            certify(groups.merge_equal()[0], requirements, fingerprint="", label=lambda *_: None, evidence="union")
        )


def _refusal(new: NewRecords, lost: dict[str, int], total: int, records: int, allowed: int) -> str:
    """Why too many new records would be left out, and what can be done."""
    unseen = next(((name, values[0]) for name, values in new.located.unseen.items()), ("", ""))
    wanted = "; ".join(describe(r) for r in new.prior.policy.require)
    reasons = {
        "unknown": f"hold a value that the recoding has never seen, as column {unseen[0]!r} does: {unseen[1]!r}",
        "outside": "lie outside every box of the recoding",
        "suppressed": "fall where records were suppressed before",
        "failing": f"stand in groups that fail {wanted}, even together with what was released before",
    }
    listed = ", ".join(f"{lost[why]} {text}" for why, text in reasons.items() if lost[why])
    anew = "learn a recoding anew on all of them"
    last = f"{anew}, or ask for the nearest box" if lost["unknown"] or lost["outside"] else f"or {anew}"
    head = (
        f"none of {records} new records could be released"
        if total == records
        else f"{total} of {records} new records would have to be left out, and the policy allows {allowed}"
    )
    return f"{head}: {listed}; raise 'suppress', wait for more records, {last}"


def _texts(column: GroupColumn, known: Labels) -> Labels:
    """What a stranger reads where each value of a column is written, None behind them.

    A number has the text that it had in the releases before, however that was written.
    """
    if column.values.dtype == object:
        return (*(str(v) or None for v in column.values), None)
    before = {parse_number(label): label for label in known if label is not None}
    return (*(before.get(float(v)) or format_number(v) for v in column.values), None)


def _stacked(columns: Sequence[NDArray[Any]], rows: int) -> Int32Array:
    return np.stack(columns, axis=1).astype(np.int32) if columns else np.zeros((rows, 0), np.int32)
