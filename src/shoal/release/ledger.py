"""The ledger: the groups of a release and of all earlier releases, so that later records can be tested together with them.

The ledger holds the published labels of every group and the counts of its sensitive values. Everyone can count these in the
released tables; the ledger holds no raw records.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from shoal.arrays import Int32Array
from shoal.errors import DataError, PolicyError
from shoal.formats.checked_json import (
    array,
    array_to_json,
    member,
    objects,
    read_object,
    read_text,
    refuse_unknown,
    report_damage,
    require,
    texts,
    texts_or_null,
)
from shoal.formats.numbers import read_numbers
from shoal.kernels.combinations import sort_combinations
from shoal.policy import Policy
from shoal.requirements.groups import Groups, stack_columns

Labels = tuple[str | None, ...]

FILE = "groups.json"
KEYS = (
    "releases",
    "recoding",
    "columns",
    "confidential",
    "groups",
    "start",
    "values",
    "records",
    "unit",
    "people",
    "person",
)
MOST_RECORDS = 2**53  # sums of counts are exact up to this number


@dataclass(frozen=True)
class Ledger:
    """The groups of one or several released tables, by their published values.

    ``labels`` has the text of every code, by column. ``releases`` are the fingerprints of the counted tables, the earliest
    first. ``recoding`` is the digest of their recoding. ``normalized`` lists the sensitive columns whose values were normalized
    before counting. Where people are counted, ``people`` has a pseudonym or keyed hash of every person in ``groups.person``,
    and ``unit`` names the column of the person and says which of the two it is.
    """

    groups: Groups
    labels: Mapping[str, Labels]
    releases: tuple[str, ...] = ()
    recoding: str = ""
    normalized: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    unit: str = ""

    @classmethod
    def of(
        cls,
        groups: Groups,
        labels: Mapping[str, Sequence[str | None]],
        release: str,
        *,
        normalized: Sequence[str] = (),
    ) -> Ledger:
        """The ledger of one table; ``release`` is its fingerprint."""
        by_column = {name: tuple(labels[name]) for name in groups.names}
        return cls(groups, by_column, (release,), normalized=tuple(normalized))

    def check_policy(self, policy: Policy) -> Ledger:
        """Select the columns that the policy's requirements name, and normalize the values as the policy requires."""
        if self.unit != describe_unit(policy):
            raise PolicyError(
                f"the earlier releases count {self.unit or 'records'}, and the policy counts "
                f"{describe_unit(policy) or 'records'}, so the same person could count twice. Use the unit of the earlier "
                "releases, or anonymize all records together with a new recoding."
            )
        selected = self.select_sensitive(policy.tested_columns)
        groups = selected.groups
        for name in groups.sensitive:
            if name in self.normalized and name not in policy.normalize:
                raise PolicyError(
                    f"the values of {name!r} were normalized in earlier releases, so new values must be normalized, too. "
                    f"Add 'normalize: [{name}]' to the policy."
                )
        if all(name in self.normalized or name not in policy.normalize for name in groups.sensitive):
            return selected
        labels, codes, none, normal = [], [], np.zeros(0, np.int32), policy.normalizer
        for name, old, column in zip(groups.sensitive, groups.labels, groups.sensitive_codes.T, strict=True):
            if name in policy.normalize:
                old = tuple(normal(label or "") or None for label in old)
            new, recoded = _merge_labels(old, (), column, none)
            labels.append(new)
            codes.append(recoded)
        groups = replace(
            groups,
            sensitive_codes=stack_columns(codes, len(groups.cell_size)),
            domains=tuple(map(len, labels)),
            labels=tuple(labels),
        )
        return replace(selected, groups=_merge_groups(groups), normalized=policy.normalize)

    def select_sensitive(self, names: Sequence[str]) -> Ledger:
        """The same groups with the counts of these sensitive columns only."""
        groups = self.groups
        for name in names:
            if name not in groups.sensitive:
                raise DataError(
                    f"the ledger does not count the values of {name!r} in earlier releases, so no requirement on this column "
                    "can be tested. Use the policy of the earlier release, or anonymize all records together with a new "
                    "recoding."
                )
        if tuple(names) == groups.sensitive:
            return self
        index = [groups.sensitive.index(name) for name in names]
        fewer = replace(
            groups,
            sensitive=tuple(names),
            sensitive_codes=groups.sensitive_codes[:, index],
            domains=tuple(groups.domains[i] for i in index),
            labels=tuple(groups.labels[i] for i in index),
        )
        return replace(self, groups=_merge_groups(fewer))

    def stack(self, other: Ledger) -> Ledger:
        """The groups of this ledger, followed by the groups of another, in common codes; equal groups are not merged."""
        mine = self.groups
        other = other.select_sensitive(mine.sensitive)
        theirs = other.groups
        differing = sorted(set(mine.names) ^ set(theirs.names))
        if differing:
            raise DataError(
                f"column {differing[0]!r} is published in only one of two releases, so they cannot be counted together. Use "
                "the ledger and the recoding of the same owner folder."
            )
        pairs = [(self.labels[n], other.labels[n], mine.quasi[:, j]) for j, n in enumerate(mine.names)]
        columns = [theirs.quasi[:, theirs.names.index(n)] for n in mine.names]
        quasi = [_merge_labels(a, b, x, y) for (a, b, x), y in zip(pairs, columns, strict=True)]
        columns_of_both = zip(mine.labels, theirs.labels, mine.sensitive_codes.T, theirs.sensitive_codes.T, strict=True)
        sensitive = [_merge_labels(a, b, x, y) for a, b, x, y in columns_of_both]
        count = np.concatenate([mine.cell_size, theirs.cell_size])
        people, person = _merge_people(self, other)
        groups = Groups(
            mine.names,
            mine.sensitive,
            stack_columns([codes for _, codes in quasi], len(mine.quasi) + len(theirs.quasi)),
            np.concatenate([mine.start, theirs.start[1:] + mine.start[-1]]),
            stack_columns([codes for _, codes in sensitive], len(count)),
            count,
            tuple(len(labels) for labels, _ in sensitive),
            tuple(labels for labels, _ in sensitive),
            person,
        )
        labels = {name: texts for name, (texts, _) in zip(mine.names, quasi, strict=True)}
        return Ledger(
            groups, labels, (*self.releases, *other.releases), self.recoding, self.normalized, people, self.unit
        )

    def union(self, other: Ledger) -> Ledger:
        """The groups of both tables together; groups with equal labels are merged."""
        both = self.stack(other)
        return replace(both, groups=_merge_groups(both.groups))

    def rows(self) -> list[Labels]:
        """The labels of every group."""
        columns = [np.array(self.labels[n], object)[self.groups.quasi[:, j]] for j, n in enumerate(self.groups.names)]
        return list(zip(*columns, strict=True))

    def to_json(self) -> str:
        """The ledger as JSON text."""
        groups = self.groups
        return json.dumps(
            {
                "releases": list(self.releases),
                "recoding": self.recoding,
                "columns": [{"name": n, "labels": list(self.labels[n])} for n in groups.names],
                "confidential": [
                    {"name": n, "labels": list(labels), "normalized": n in self.normalized}
                    for n, labels in zip(groups.sensitive, groups.labels, strict=True)
                ],
                "groups": array_to_json(groups.quasi),
                "start": array_to_json(groups.start),
                "values": array_to_json(groups.sensitive_codes),
                "records": array_to_json(groups.cell_size),
                **(
                    {}
                    if groups.person is None
                    else {"unit": self.unit, "people": list(self.people), "person": array_to_json(groups.person)}
                ),
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """Read a ledger from JSON text; `DataError` if its parts do not fit together, `ValueError` if it is not JSON."""
        found = read_object(text)
        refuse_unknown(found, KEYS)
        columns, sensitive = _read_labels(found, "columns"), _read_labels(found, "confidential")
        quasi = array(found, "groups", np.int32, (None, len(columns)))
        count = array(found, "records", np.int64, (None,))
        groups = Groups(
            tuple(columns),
            tuple(sensitive),
            quasi,
            array(found, "start", np.int64, (len(quasi) + 1,)),
            array(found, "values", np.int32, (len(count), len(sensitive))),
            count,
            tuple(map(len, sensitive.values())),
            tuple(sensitive.values()),
            array(found, "person", np.int32, (len(count),)) if "person" in found else None,
        )
        people, unit = (texts(found, "people"), member(found, "unit", str)) if "person" in found else ((), "")
        _check_groups(groups, columns, people)
        normalized = tuple(
            member(e, "name", str) for e in objects(found, "confidential") if e.get("normalized") is True
        )
        return cls(groups, columns, texts(found, "releases"), member(found, "recoding", str), normalized, people, unit)

    @classmethod
    def load(cls, recoding: Path) -> Ledger:
        """Read the ledger beside the file of a recoding; `DataError` if the ledger belongs to another recoding."""
        path = recoding.with_name(FILE)
        if not path.is_file():
            raise DataError(
                f"there is no ledger {FILE!r} beside the recoding {str(recoding)!r}, so new records cannot be tested together "
                "with the earlier releases. Use the recoding in the owner folder of a saved release."
            )
        with report_damage(path, "ledger"):
            ledger = cls.from_json(read_text(path))
        if ledger.recoding != digest(read_text(recoding)):
            raise DataError(
                f"the ledger {str(path)!r} belongs to another recoding, not to {str(recoding)!r}. Use the ledger and the "
                "recoding of the same owner folder."
            )
        return ledger


def describe_unit(policy: Policy) -> str:
    """The unit of a policy as a ledger names it; empty without a unit."""
    if policy.unit is None:
        return ""
    return f"people by {'pseudonyms of ' if policy.unit.pseudonym else ''}column {policy.unit.column!r}"


def _read_labels(found: Mapping[str, Any], name: str) -> dict[str, Labels]:
    """The labels of every column, by column name."""
    entries = objects(found, name)
    columns = {member(entry, "name", str): texts_or_null(entry, "labels") for entry in entries}
    once = len(columns) == len(entries) and all(len(set(labels)) == len(labels) for labels in columns.values())
    require(once, f"{name!r} has a name or a label twice")
    return columns


def digest(recoding: str) -> str:
    """The digest of a recoding, given as JSON text, by which a ledger refers to it.

    The digest detects files that were mixed up by accident. It does not protect against a user who can write to the folder.
    """
    return hashlib.sha256(recoding.encode()).hexdigest()


def _merge_labels(mine: Labels, theirs: Labels, codes: Int32Array, others: Int32Array) -> tuple[Labels, Int32Array]:
    """The labels that either side uses, in the order of `encode_column`, and the codes of both sides in these labels."""
    used = {mine[c] for c in np.unique(codes)} | {theirs[c] for c in np.unique(others)}
    texts = sorted(label for label in used if label is not None)
    if (numbers := read_numbers(texts)) is not None:
        number = dict(zip(texts, numbers, strict=True))
        texts.sort(key=number.__getitem__)
    labels: Labels = (*texts, *([None] if None in used else []))
    new_code = {label: code for code, label in enumerate(labels)}

    def recode(old: Labels, old_codes: Int32Array) -> Int32Array:
        return np.array([new_code.get(label, -1) for label in old], np.int32)[old_codes]

    return labels, np.concatenate([recode(mine, codes), recode(theirs, others)]).astype(np.int32)


def _merge_people(mine: Ledger, theirs: Ledger) -> tuple[tuple[str, ...], Int32Array | None]:
    """The people of two ledgers, and the number of the person of every cell of both."""
    one, other = mine.groups.person, theirs.groups.person
    if one is None or other is None:
        if one is not other:
            raise DataError(
                "the earlier releases count records and the policy counts people, or the other way round. Use the policy of "
                "the earlier release, or anonymize all records together with a new recoding."
            )
        return (), None
    number = {person: i for i, person in enumerate(mine.people)}
    new = [number.setdefault(person, len(number)) for person in theirs.people]
    return tuple(number), np.concatenate([one, np.array([*new, -1], np.int32)[other]]).astype(np.int32)


def _merge_groups(groups: Groups) -> Groups:
    """Merge groups with equal labels, and in each group the cells with equal sensitive values and persons."""
    merged, _ = groups.merge_equal()
    group = merged.group_of_cell
    person = [] if merged.person is None else [merged.person + 1]
    _, order, begin = sort_combinations([group, *merged.sensitive_codes.T, *person], len(group))
    first = order[begin]
    count = np.add.reduceat(merged.cell_size[order], begin) if len(begin) else merged.cell_size
    start = np.searchsorted(group[first], np.arange(len(merged.start))).astype(np.int64)
    people = None if merged.person is None else merged.person[first]
    return replace(merged, start=start, sensitive_codes=merged.sensitive_codes[first], cell_size=count, person=people)


def _check_groups(groups: Groups, labels: Mapping[str, Sequence[Any]], people: Sequence[str]) -> None:
    """Raise `DataError` if the arrays of a ledger do not fit together."""
    ends = [len(labels[n]) for n in groups.names], groups.domains
    tables = groups.quasi, groups.sensitive_codes
    codes = all(
        ((table >= 0) & (table < np.array(most, np.int64))).all() for table, most in zip(tables, ends, strict=True)
    )
    start = groups.start
    rising = len(start) == len(groups.quasi) + 1 and start[0] == 0 and (np.diff(start) > 0).all()
    counts = (groups.cell_size > 0).all() and groups.cell_size.sum(dtype=np.float64) < MOST_RECORDS
    person = groups.person is None or ((groups.person >= -1) & (groups.person < len(people))).all()
    fits = (
        codes
        and rising
        and start[-1] == len(groups.cell_size)
        and counts
        and person
        and len(set(people)) == len(people)
    )
    require(fits, "its codes and counts do not fit together")
