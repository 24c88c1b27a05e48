"""`Parts`: a coarse split of the table into partitions, each with its own recoding in its own file."""

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
from shoal.engines import GroupColumn, digest_file
from shoal.errors import DataError, PolicyError, list_choices
from shoal.formats.checked_json import (
    array_to_json,
    read_object,
    read_text,
    refuse_unknown,
    report_damage,
    require,
    texts,
)
from shoal.policy import Policy
from shoal.recoding.assignment import Assignment
from shoal.recoding.cut import Cut
from shoal.recoding.field import Field
from shoal.recoding.protocol import (
    BaseRecoding,
    Columns,
    LaterData,
    LaterPlacement,
    Output,
    Recoding,
    apply,
    descend_split_tree,
)
from shoal.recoding.randomize import Randomize
from shoal.recoding.serialization import HEAD, check_head, check_tree, head_from_dict, head_to_dict, tree_from_dict
from shoal.recoding.split_tree import Boxes
from shoal.recoding.synthesis import Synthesis


@dataclass(frozen=True)
class Parts(BaseRecoding):
    """A tree of splits. Node n sends positions up to ``at[n]`` of field ``field[n]`` left, others right.

    If ``field[n]`` is -1, node n is the leaf of partition ``partition[n]``. The recodings of the partitions are in
    ``folder``, which exists as long as the object ``owner``.
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
        require(each, "the split tree does not lead to each partition once")
        tree = self.field, self.at, self.left, self.right, self.partition
        check_tree(len(self.fields), *tree, leaves=len(leaves))

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return int(self.partition.max()) + 1

    def files(self) -> tuple[Path, ...]:
        """The files with the recodings of the partitions."""
        return tuple(self.folder / f"recoding-{number}.json" for number in range(self.partitions))

    def put(self, number: int, recoding: Recoding) -> None:
        """Store the recoding of a partition."""
        file = self.files()[number]
        file.touch(mode=0o600)
        file.write_text(recoding.to_json(), encoding="utf-8", newline="\n")

    def apply(self, data: Any, *, nearest: bool = False) -> Any:
        """Recode each later record with the recoding of its partition; see the ``apply`` of that recoding."""
        return apply(self, data, nearest=nearest)

    def place(self, later: LaterData) -> LaterPlacement:
        """Place each combination in a group of its partition; group numbers continue from partition to partition."""
        partition = descend_split_tree(later, self.field, self.at, self.left, self.right, self.partition)
        group, outside = np.full(len(partition), -1, np.int32), np.zeros(len(partition), bool)
        columns: list[Columns] = []
        total = 0
        for number, file in enumerate(self.files()):
            inside = np.flatnonzero(partition == number)
            if not len(inside):
                continue
            placement = self._load_partition(file).place(replace(later, quasi=later.quasi[inside]))
            group[inside] = np.where(placement.group >= 0, placement.group + total, -1)
            outside[inside] = placement.outside
            columns.append(placement.columns)
            total += len(placement.columns[0][1].index) if placement.columns else 0
        return LaterPlacement(group, outside, tuple(map(_join_columns, zip(*columns, strict=True))))

    def _load_partition(self, file: Path) -> Recoding:
        """Read the recoding of a partition; `DataError` unless it has the same columns."""
        recoding = read_recoding(file)
        with report_damage(file, "recoding"):
            is_plain = isinstance(recoding, (Cut, Boxes, Assignment))
            require(is_plain, f"a partition cannot have the kind {recoding.kind!r}; {list_choices('', PLAIN)}")
            same = [(f.name, f.kind) for f in recoding.fields] == [(f.name, f.kind) for f in self.fields]
            require(same and recoding.output == self.output, "its columns differ from those of the whole recoding")
        return recoding

    def to_json(self) -> str:
        """The coarse split as JSON text; the recodings of the partitions are in separate files."""
        arrays: dict[str, NDArray[Any]] = {
            "field": self.field,
            "at": self.at,
            "left": self.left,
            "right": self.right,
            "part": self.partition,
        }
        tree = {name: array_to_json(values) for name, values in arrays.items()}
        digests = [digest_file(file) for file in self.files()]
        return json.dumps({**head_to_dict(self), **tree, "digests": digests}, ensure_ascii=False)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], folder: Path) -> Parts:
        """Read the coarse split from the content of its JSON file."""
        refuse_unknown(found, (*HEAD, "field", "at", "left", "right", "part", "digests"))
        fields, output = head_from_dict(found)
        recoding = cls(fields, output, *tree_from_dict(found, "part"), folder)
        digests = texts(found, "digests")
        require(len(digests) == recoding.partitions, "there is not one digest for each partition")
        for file, digest in zip(recoding.files(), digests, strict=True):
            require(
                file.is_file() and digest_file(file) == digest,
                f"the file {file.name!r} of a partition is missing or belongs to another recoding",
            )
        return recoding


def _join_columns(columns: Columns) -> tuple[str, GroupColumn]:
    """Join the columns of the partitions into one released column."""
    shift = np.cumsum([0, *(len(w.values) for _, w in columns)])
    index = [np.where(w.index >= 0, w.index + at, -1) for (_, w), at in zip(columns, shift[:-1], strict=True)]
    values = np.concatenate([w.values for _, w in columns])
    source, first = columns[0]
    return source, GroupColumn(first.name, values, np.concatenate(index).astype(np.int32))


KINDS: dict[str, Any] = {k.kind: k for k in (Cut, Boxes, Assignment, Synthesis, Randomize)}


OTHER_POLICY = "Use the policy in the owner folder, or anonymize all records together with a new recoding."
NOT_A_RECODING = "{!r} is not a recoding. Use recoding.json in the owner folder of the release."
OTHER_FILES = (".yaml", ".yml", ".csv", ".parquet", ".html")  # suffixes of files that are no recodings
PLAIN = (Cut.kind, Boxes.kind, Assignment.kind)  # possible recodings of a partition


def load_recoding(path: str | Path) -> Recoding:
    """Load a recoding from the owner folder of a release, by the path of ``recoding.json`` or of the folder.

    The content is checked: `DataError` names a damaged file. If ``policy.yaml`` is in the same folder, the recoding must have
    the columns of that policy, so that no identifier is released. Without a policy in the folder, `apply` releases the
    columns that the file lists under ``kept``: in that case load only files that you trust.
    """
    file = Path(path)
    file = file / "recoding.json" if file.is_dir() else file
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
    """Load a recoding from its file, without a policy; see `load_recoding`."""
    if not path.is_file():
        raise DataError(
            f"the recoding {str(path)!r} does not exist. Use 'recoding.json' in the owner folder of a saved release."
        )
    if path.suffix.lower() in OTHER_FILES:
        raise DataError(NOT_A_RECODING.format(str(path)))
    with report_damage(path, "recoding"):
        found = read_object(read_text(path))
    if "kind" not in found:
        raise DataError(NOT_A_RECODING.format(str(path)))
    with report_damage(path, "recoding"):
        kind, known = found.get("kind"), [*KINDS, Parts.kind]
        require(kind in known, f"its kind is unknown to this version of Shoal; {list_choices(str(kind), known)}")
        recoding: Recoding = (
            Parts.from_dict(found, path.parent) if kind == Parts.kind else KINDS[str(kind)].from_dict(found)
        )
        return recoding


def refuse_other_policy(policy: Policy, recoding: Recoding) -> None:
    """Raise `PolicyError` if policy and recoding have different columns; requirements and 'suppress' may differ."""
    kinds = {f.name: f.kind for f in recoding.fields}
    for name, quasi in policy.quasi.items():
        if name in kinds and quasi.kind != kinds[name]:
            raise PolicyError(
                f"column {name!r} is {quasi.kind} in the policy and {kinds[name]} in the recoding. {OTHER_POLICY}"
            )
    pairs: dict[str, tuple[Sequence[str], Sequence[str]]] = {
        "column {!r} is a quasi-identifier": (tuple(policy.quasi), tuple(kinds)),
        "column {!r} is released unchanged": (policy.unchanged_columns, recoding.output.unchanged),
        "the text {!r} means a missing value": (policy.missing_texts, recoding.output.missing),
    }
    for text, (of_policy, of_recoding) in pairs.items():
        differing = set(of_policy) ^ set(of_recoding)
        for name in (*of_policy, *of_recoding):
            if name in differing:
                where = "policy, but not in the recoding" if name in of_policy else "recoding, but not in the policy"
                raise PolicyError(f"{text.format(name)} in the {where}. {OTHER_POLICY}")
