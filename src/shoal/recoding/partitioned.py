"""`Parts`: a coarse cut of the table, and for each part a recoding of its own, kept in a file of its own."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import FloatArray, Int32Array
from shoal.engines import GroupColumn, digest_of
from shoal.errors import DataError, PolicyError, list_choices
from shoal.formats.checked_json import array_to_json, read_object, report_damage, require, texts
from shoal.policy import Policy
from shoal.recoding.assignment import Assignment
from shoal.recoding.cut import Cut
from shoal.recoding.field import Field
from shoal.recoding.protocol import Columns, LaterData, Output, PlacedData, Recoding, apply, descend_split_tree
from shoal.recoding.serialization import check_head, check_tree, head_from_dict, head_to_dict, tree_from_dict
from shoal.recoding.split_tree import Boxes
from shoal.recoding.synthesis import Synthesis


@dataclass(frozen=True)
class Parts:
    """Node n sends positions up to ``at[n]`` of field ``field[n]`` left, others right; where ``field[n]`` is -1 it is the
    part ``partition[n]``, whose recoding is in ``folder``, which is there as long as ``owner`` is.
    """

    fields: tuple[Field, ...]
    output: Output
    field: Int32Array
    at: FloatArray
    left: Int32Array
    right: Int32Array
    partition: Int32Array
    folder: Path
    owner: Any = dataclasses.field(default=None, repr=False, compare=False)

    kind: ClassVar[str] = "parts"

    def __post_init__(self) -> None:
        check_head(self.fields, self.output)
        leaves = np.sort(self.partition[self.field < 0])
        each = np.array_equal(leaves, np.arange(len(leaves))) and self.partition.max(initial=-1) < len(leaves)
        require(each, "the tree of cuts does not lead to each part once")
        tree = self.field, self.at, self.left, self.right, self.partition
        check_tree(len(self.fields), *tree, leaves=len(leaves))

    @property
    def partitions(self) -> int:
        """The number of parts."""
        return int(self.partition.max()) + 1

    def files(self) -> tuple[Path, ...]:
        """The files that hold the recodings of the parts."""
        return tuple(self.folder / f"recoding-{part}.json" for part in range(self.partitions))

    def put(self, part: int, recoding: Recoding) -> None:
        """Keep what was learned of a part."""
        file = self.files()[part]
        file.touch(mode=0o600)
        file.write_text(recoding.to_json(), encoding="utf-8")

    def apply(self, data: Any, *, nearest: bool = False) -> Any:
        """Recode later data by the recodings of the parts they fall into; see there."""
        return apply(self, data, nearest=nearest)

    def place(self, later: LaterData) -> PlacedData:
        """Each combination to its part, and on to a group there; the groups are numbered one part behind the other."""
        part = descend_split_tree(later, self.field, self.at, self.left, self.right, self.partition)
        group, outside = np.full(len(part), -1, np.int32), np.zeros(len(part), bool)
        written: list[Columns] = []
        total = 0
        for number, file in enumerate(self.files()):
            mine = np.flatnonzero(part == number)
            if not len(mine):
                continue
            placed = self._load_part(file).place(replace(later, quasi=later.quasi[mine]))
            group[mine] = np.where(placed.group >= 0, placed.group + total, -1)
            outside[mine] = placed.outside
            written.append(placed.written)
            total += len(placed.written[0][1].index) if placed.written else 0
        return PlacedData(group, outside, tuple(map(_joined, zip(*written, strict=True))))

    def _load_part(self, file: Path) -> Recoding:
        """The recoding of a part, which must be of the same columns."""
        recoding = read_recoding(file)
        with report_damage(file, "recoding"):
            plain = isinstance(recoding, (Cut, Boxes, Assignment))
            require(plain, f"a part cannot be of the kind {recoding.kind!r}; {list_choices('', PLAIN)}")
            same = [(f.name, f.kind) for f in recoding.fields] == [(f.name, f.kind) for f in self.fields]
            require(same and recoding.output == self.output, "its columns differ from those of the whole recoding")
        return recoding

    def to_json(self) -> str:
        """The coarse cut as JSON text; the recodings of the parts lie beside it."""
        arrays: dict[str, NDArray[Any]] = {
            "field": self.field,
            "at": self.at,
            "left": self.left,
            "right": self.right,
            "part": self.partition,
        }
        tree = {name: array_to_json(values) for name, values in arrays.items()}
        digests = [digest_of(file) for file in self.files()]
        return json.dumps({**head_to_dict(self), **tree, "digests": digests}, ensure_ascii=False)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], folder: Path) -> Parts:
        """Back from JSON."""
        fields, output = head_from_dict(found)
        made = cls(fields, output, *tree_from_dict(found, "part"), folder)
        digests = texts(found, "digests")
        require(len(digests) == made.partitions, "there is not one digest for each part")
        for file, digest in zip(made.files(), digests, strict=True):
            require(
                file.is_file() and digest_of(file) == digest,
                f"the file {file.name!r} of a part of the recoding is not there, or is another's; keep the files of an "
                "owner's folder together",
            )
        return made


def _joined(columns: tuple[tuple[str, GroupColumn], ...]) -> tuple[str, GroupColumn]:
    """One released column out of those of the parts."""
    shift = np.cumsum([0, *(len(w.values) for _, w in columns)])
    index = [np.where(w.index >= 0, w.index + at, -1) for (_, w), at in zip(columns, shift[:-1], strict=True)]
    values = np.concatenate([w.values for _, w in columns])
    source, first = columns[0]
    return source, GroupColumn(first.name, values, np.concatenate(index).astype(np.int32))


KINDS: dict[str, type[Boxes] | type[Assignment] | type[Cut] | type[Synthesis]] = {
    k.kind: k for k in (Cut, Boxes, Assignment, Synthesis)
}


PLAIN = (Cut.kind, Boxes.kind, Assignment.kind)  # what a part may be


def load_recoding(path: str | Path) -> Recoding:
    """A recoding from the JSON file that a release left in the owner's folder.

    The content is checked: `DataError` names the file where it is damaged. Where the owner's ``policy.yaml`` is in the
    same folder, the columns must be those of that policy, so that no identifier is released. Without a policy in the
    folder, `apply` releases the columns that the file lists under ``kept``: load only files that you trust then.
    """
    file = Path(path)
    recoding = read_recoding(file)
    beside = file.with_name("policy.yaml")
    if beside.is_file():
        policy = Policy.load(beside)
        try:
            refuse_other_policy(policy, recoding)
        except PolicyError as error:
            raise DataError(f"the recoding {str(path)!r} does not fit the policy in the same folder: {error}") from None
    return recoding


def read_recoding(path: Path) -> Recoding:
    """A recoding from its file, by what the file says alone; see `load_recoding`."""
    with report_damage(path, "recoding"):
        found = read_object(path.read_text(encoding="utf-8"))
        kind, known = found.get("kind"), [*KINDS, Parts.kind]
        require(kind in known, f"it is of no kind that this version knows; {list_choices(str(kind), known)}")
        return Parts.from_dict(found, path.parent) if kind == Parts.kind else KINDS[str(kind)].from_dict(found)


def refuse_other_policy(policy: Policy, recoding: Recoding) -> None:
    """An error for a policy under which the recoding was not learned; requirements and the allowance may differ."""
    kinds = {f.name: f.kind for f in recoding.fields}
    for name, quasi in policy.quasi.items():
        if name in kinds and quasi.kind != kinds[name]:
            raise PolicyError(
                f"column {name!r} is {quasi.kind} in the policy and {kinds[name]} in the recoding; use the policy in the "
                "owner's folder, or learn a recoding anew"
            )
    pairs: dict[str, tuple[Sequence[str], Sequence[str]]] = {
        "column {!r} is a quasi-identifier": (tuple(policy.quasi), tuple(kinds)),
        "column {!r} is kept": (policy.unchanged, recoding.output.kept),
        "the text {!r} stands for a missing value": (policy.missing_texts, recoding.output.missing),
    }
    for text, (mine, theirs) in pairs.items():
        differ = set(mine) ^ set(theirs)
        for name in (*mine, *theirs):
            if name in differ:
                where = "policy, but not in the recoding" if name in mine else "recoding, but not in the policy"
                raise PolicyError(
                    f"{text.format(name)} in the {where}; use the policy in the owner's folder, or learn a recoding anew"
                )
