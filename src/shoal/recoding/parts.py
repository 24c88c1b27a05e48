"""`Parts`: a coarse cut of the table, and for each part a recoding of its own, kept in a file of its own."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from shoal.engines import Written, digest_of
from shoal.errors import DataError, choices
from shoal.recoding.assignment import Assignment
from shoal.recoding.base import (
    F8,
    I4,
    Columns,
    Field,
    Later,
    Output,
    Placed,
    Recoding,
    apply,
    array_from_json,
    array_to_json,
    descended,
    head_from_dict,
    head_to_dict,
)
from shoal.recoding.boxes import Boxes
from shoal.recoding.cut import Cut
from shoal.recoding.synthesis import Synthesis


@dataclass(frozen=True)
class Parts:
    """Node n sends positions up to ``at[n]`` of field ``field[n]`` left, others right; where ``field[n]`` is -1 it is the
    part ``part[n]``, whose recoding is in ``folder``, which is there as long as ``owner`` is.
    """

    fields: tuple[Field, ...]
    output: Output
    field: I4
    at: F8
    left: I4
    right: I4
    part: I4
    folder: Path
    owner: Any = dataclasses.field(default=None, repr=False, compare=False)

    kind: ClassVar[str] = "parts"

    @property
    def parts(self) -> int:
        """The number of parts."""
        return int(self.part.max()) + 1

    def files(self) -> tuple[Path, ...]:
        """The files that hold the recodings of the parts."""
        return tuple(self.folder / f"recoding-{part}.json" for part in range(self.parts))

    def put(self, part: int, recoding: Recoding) -> None:
        """Keep what was learned of a part."""
        file = self.files()[part]
        file.touch(mode=0o600)
        file.write_text(recoding.to_json(), encoding="utf-8")

    def apply(self, data: Any, *, nearest: bool = False) -> Any:
        """Recode later data by the recodings of the parts they fall into; see there."""
        return apply(self, data, nearest=nearest)

    def place(self, later: Later) -> Placed:
        """Each combination to its part, and on to a group there; the groups are numbered one part behind the other."""
        part = descended(later, self.field, self.at, self.left, self.right, self.part)
        group, outside = np.full(len(part), -1, np.int32), np.zeros(len(part), bool)
        written: list[Columns] = []
        total = 0
        for number, file in enumerate(self.files()):
            mine = np.flatnonzero(part == number)
            if not len(mine):
                continue
            placed = load_recoding(file).place(replace(later, quasi=later.quasi[mine]))
            group[mine] = np.where(placed.group >= 0, placed.group + total, -1)
            outside[mine] = placed.outside
            written.append(placed.written)
            total += len(placed.written[0][1].index) if placed.written else 0
        return Placed(group, outside, tuple(map(_joined, zip(*written, strict=True))))

    def to_json(self) -> str:
        """The coarse cut as JSON text; the recodings of the parts lie beside it."""
        tree = {name: array_to_json(getattr(self, name)) for name in ("field", "at", "left", "right", "part")}
        digests = [digest_of(file) for file in self.files()]
        return json.dumps({**head_to_dict(self), **tree, "digests": digests}, ensure_ascii=False)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], folder: Path) -> Parts:
        """Back from JSON."""
        field, left, right, part = (array_from_json(found[n], np.int32) for n in ("field", "left", "right", "part"))
        made = cls(*head_from_dict(found), field, array_from_json(found["at"], np.float64), left, right, part, folder)
        for file, digest in zip(made.files(), found["digests"], strict=True):
            if not file.is_file() or digest_of(file) != digest:
                raise DataError(
                    f"the file {file.name!r} of a part of the recoding is not there, or is another's; keep the files of an "
                    "owner's folder together"
                )
        return made


def _joined(columns: tuple[tuple[str, Written], ...]) -> tuple[str, Written]:
    """One released column out of those of the parts."""
    shift = np.cumsum([0, *(len(w.values) for _, w in columns)])
    index = [np.where(w.index >= 0, w.index + at, -1) for (_, w), at in zip(columns, shift[:-1], strict=True)]
    values = np.concatenate([w.values for _, w in columns])
    source, first = columns[0]
    return source, Written(first.name, values, np.concatenate(index).astype(np.int32))


KINDS: dict[str, type[Boxes] | type[Assignment] | type[Cut] | type[Synthesis]] = {
    k.kind: k for k in (Cut, Boxes, Assignment, Synthesis)
}


def load_recoding(path: str | Path) -> Recoding:
    """A recoding from the JSON file that a release left in the owner's folder."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot read the recoding {str(path)!r}: {error}") from error
    kind = found.get("kind") if isinstance(found, dict) else None
    if kind not in (*KINDS, Parts.kind):
        known = [*KINDS, Parts.kind]
        raise DataError(f"{str(path)!r} is no recoding that this version knows; {choices(str(kind), known)}")
    try:
        return Parts.from_dict(found, Path(path).parent) if kind == Parts.kind else KINDS[kind].from_dict(found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"the recoding {str(path)!r} is damaged: {error!r}") from error
