"""The ledger: what was counted in a release and in those before it, so that later rows can be tested with them.

It holds what anybody can count in the released tables, and no raw rows: the labels of every group and the counts of its
confidential values.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
    report_damage,
    require,
    texts,
    texts_or_null,
)
from shoal.kernels.combinations import sort_combinations
from shoal.policy import Policy
from shoal.requirements.groups import Groups

Labels = tuple[str | None, ...]

FILE = "groups.json"
MOST_RECORDS = 2**53  # beyond it, sums of counts are not exact


@dataclass(frozen=True)
class Ledger:
    """The groups of one or several released tables, by what stands in them.

    ``labels`` has for every column of the groups what its codes stand for. ``releases`` are the fingerprints of the tables
    that were counted, the earliest first; ``recoding`` is the digest of the recoding that made them. ``normalized`` are the
    confidential columns whose values were normalized before they were counted.
    """

    groups: Groups
    labels: Mapping[str, Labels]
    releases: tuple[str, ...] = ()
    recoding: str = ""
    normalized: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        groups: Groups,
        labels: Mapping[str, Sequence[str | None]],
        release: str,
        *,
        normalized: Sequence[str] = (),
    ) -> Ledger:
        """What was counted in one table."""
        found = {name: tuple(labels[name]) for name in groups.names}
        return cls(groups, found, (release,), normalized=tuple(normalized))

    def check_policy(self, policy: Policy) -> Ledger:
        """The counts of the columns that a policy's requirements name, their values normalized where the policy says so."""
        found = self.select_sensitive(policy.tested_columns)
        groups = found.groups
        for name in groups.sensitive:
            if name in self.normalized and name not in policy.normalize:
                raise PolicyError(
                    f"the values of {name!r} were normalized when earlier releases were counted, so new ones can only be "
                    f"counted with them in the same way; add 'normalize: [{name}]' to the policy"
                )
        if all(name in self.normalized or name not in policy.normalize for name in groups.sensitive):
            return found
        labels, codes, none, normal = [], [], np.zeros(0, np.int32), policy.normalizer
        for name, old, column in zip(groups.sensitive, groups.labels, groups.sensitive_codes.T, strict=True):
            if name in policy.normalize:
                old = tuple(normal(label or "") or None for label in old)
            new, moved = _common(old, (), column, none)
            labels.append(new)
            codes.append(moved)
        groups = replace(
            groups,
            sensitive_codes=_columns(codes, len(groups.cell_size)),
            domains=tuple(map(len, labels)),
            labels=tuple(labels),
        )
        return replace(found, groups=_summed(groups), normalized=policy.normalize)

    def select_sensitive(self, secrets: Sequence[str]) -> Ledger:
        """The same groups with the counts of these confidential columns alone."""
        groups = self.groups
        for name in secrets:
            if name not in groups.sensitive:
                raise DataError(
                    f"the ledger does not count the values of {name!r} in what was released before, so nothing can be "
                    f"required of them; use the policy of that release, or learn a recoding anew on all records"
                )
        if tuple(secrets) == groups.sensitive:
            return self
        place = [groups.sensitive.index(name) for name in secrets]
        fewer = replace(
            groups,
            sensitive=tuple(secrets),
            sensitive_codes=groups.sensitive_codes[:, place],
            domains=tuple(groups.domains[p] for p in place),
            labels=tuple(groups.labels[p] for p in place),
        )
        return replace(self, groups=_summed(fewer))

    def stack(self, other: Ledger) -> Ledger:
        """Our groups, and behind them those of another ledger, in common codes; equal ones are not joined."""
        mine = self.groups
        theirs = other.select_sensitive(mine.sensitive).groups
        lost = sorted(set(mine.names) ^ set(theirs.names))
        if lost:
            raise DataError(
                f"column {lost[0]!r} is published in one of two releases only, so they cannot be counted together; a ledger "
                "and its recoding stay in the folder where they were written"
            )
        pairs = [(self.labels[n], other.labels[n], mine.quasi[:, j]) for j, n in enumerate(mine.names)]
        columns = [theirs.quasi[:, theirs.names.index(n)] for n in mine.names]
        quasi = [_common(a, b, x, y) for (a, b, x), y in zip(pairs, columns, strict=True)]
        listed = zip(mine.labels, theirs.labels, mine.sensitive_codes.T, theirs.sensitive_codes.T, strict=True)
        secret = [_common(a, b, x, y) for a, b, x, y in listed]
        weight = np.concatenate([mine.cell_size, theirs.cell_size])
        groups = Groups(
            mine.names,
            mine.sensitive,
            _columns([codes for _, codes in quasi], len(mine.quasi) + len(theirs.quasi)),
            np.concatenate([mine.start, theirs.start[1:] + mine.start[-1]]),
            _columns([codes for _, codes in secret], len(weight)),
            weight,
            tuple(len(labels) for labels, _ in secret),
            tuple(labels for labels, _ in secret),
        )
        labels = {name: found for name, (found, _) in zip(mine.names, quasi, strict=True)}
        return Ledger(groups, labels, (*self.releases, *other.releases), self.recoding, self.normalized)

    def union(self, other: Ledger) -> Ledger:
        """What is counted in both together, as a stranger would who puts one table under the other."""
        both = self.stack(other)
        return replace(both, groups=_summed(both.groups))

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
                    {"name": n, "labels": list(found), "normalized": n in self.normalized}
                    for n, found in zip(groups.sensitive, groups.labels, strict=True)
                ],
                "groups": array_to_json(groups.quasi),
                "start": array_to_json(groups.start),
                "values": array_to_json(groups.sensitive_codes),
                "records": array_to_json(groups.cell_size),
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """Back from JSON; `DataError` where its parts do not fit one another, `ValueError` where it is no JSON."""
        found = read_object(text)
        columns, confidential = _columns_of(found, "columns"), _columns_of(found, "confidential")
        quasi = array(found, "groups", np.int32, (None, len(columns)))
        weight = array(found, "records", np.int64, (None,))
        groups = Groups(
            tuple(columns),
            tuple(confidential),
            quasi,
            array(found, "start", np.int64, (len(quasi) + 1,)),
            array(found, "values", np.int32, (len(weight), len(confidential))),
            weight,
            tuple(map(len, confidential.values())),
            tuple(confidential.values()),
        )
        _refuse_torn(groups, columns)
        normalized = tuple(
            member(e, "name", str) for e in objects(found, "confidential") if e.get("normalized") is True
        )
        return cls(groups, columns, texts(found, "releases"), member(found, "recoding", str), normalized)

    @classmethod
    def load(cls, recoding: Path) -> Ledger:
        """The ledger beside the file of a recoding, if it belongs to it."""
        path = recoding.with_name(FILE)
        if not path.is_file():
            raise DataError(
                f"there is no ledger {FILE!r} beside the recoding {str(recoding)!r}, so new records cannot be counted with "
                "what was released before; use the recoding in the owner's folder of a saved release"
            )
        with report_damage(path, "ledger"):
            ledger = cls.from_json(path.read_text(encoding="utf-8"))
        if ledger.recoding != digest(recoding.read_text(encoding="utf-8")):
            raise DataError(
                f"the ledger {str(path)!r} does not belong to the recoding {str(recoding)!r}: it counts what another one "
                "made; keep the files of an owner's folder together"
            )
        return ledger


def _columns_of(found: Mapping[str, Any], name: str) -> dict[str, Labels]:
    """The labels of every column, by its name."""
    listed = objects(found, name)
    columns = {member(entry, "name", str): texts_or_null(entry, "labels") for entry in listed}
    once = len(columns) == len(listed) and all(len(set(labels)) == len(labels) for labels in columns.values())
    require(once, f"{name!r} has a name or a label twice")
    return columns


def digest(recoding: str) -> str:
    """By what a ledger knows its recoding, given as JSON text.

    It detects files that were mixed up by accident. It is no protection: whoever can write to the folder can change both.
    """
    return hashlib.sha256(recoding.encode()).hexdigest()


def _common(mine: Labels, theirs: Labels, codes: Int32Array, others: Int32Array) -> tuple[Labels, Int32Array]:
    """The labels that either side uses, in the order that `codes.secret_of` gives them, and all codes by these."""
    used = {mine[c] for c in np.unique(codes)} | {theirs[c] for c in np.unique(others)}
    texts = sorted(label for label in used if label is not None)
    with suppress(ValueError):
        texts.sort(key=float)
    labels: Labels = (*texts, *([None] if None in used else []))
    place = {label: code for code, label in enumerate(labels)}

    def moved(old: Labels, given: Int32Array) -> Int32Array:
        return np.array([place.get(label, -1) for label in old], np.int32)[given]

    return labels, np.concatenate([moved(mine, codes), moved(theirs, others)]).astype(np.int32)


def _columns(columns: Sequence[Int32Array], rows: int) -> Int32Array:
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0), np.int32)


def _summed(groups: Groups) -> Groups:
    """Groups with the same labels made one, and in each the records with the same confidential values."""
    merged, _ = groups.merge_equal()
    group = merged.group_of_cell
    _, order, begin = sort_combinations([group, *merged.sensitive_codes.T], len(group))
    first = order[begin]
    weight = np.add.reduceat(merged.cell_size[order], begin) if len(begin) else merged.cell_size
    start = np.searchsorted(group[first], np.arange(len(merged.start))).astype(np.int64)
    return replace(merged, start=start, sensitive_codes=merged.sensitive_codes[first], cell_size=weight)


def _refuse_torn(groups: Groups, labels: Mapping[str, Sequence[Any]]) -> None:
    """`DataError` where the arrays of a ledger do not fit one another."""
    ends = [len(labels[n]) for n in groups.names], groups.domains
    tables = groups.quasi, groups.sensitive_codes
    codes = all(
        ((table >= 0) & (table < np.array(most, np.int64))).all() for table, most in zip(tables, ends, strict=True)
    )
    start = groups.start
    rising = len(start) == len(groups.quasi) + 1 and start[0] == 0 and (np.diff(start) > 0).all()
    counts = (groups.cell_size > 0).all() and groups.cell_size.sum(dtype=np.float64) < MOST_RECORDS
    fits = codes and rising and start[-1] == len(groups.cell_size) and counts
    require(fits, "its counts do not fit one another")
