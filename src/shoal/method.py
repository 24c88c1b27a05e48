"""What every method is: parameters in the constructor, a decision on codes, and the way from data to a release."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as File
from typing import Any, ClassVar, TypedDict

import numpy as np
from numpy.typing import NDArray

from shoal import kernels, threads
from shoal.clusters import Records
from shoal.codes import Attribute, Codes, encode
from shoal.engines import Engine, Format, Plan, Written, format_of, open_data
from shoal.errors import PolicyError, RequirementNotMet, choices
from shoal.groups import Groups, dense, packed
from shoal.measures import Published, measures_of
from shoal.measures.statistics import statistics_kept
from shoal.measures.tables import audience_of, original_counts
from shoal.path import Path
from shoal.policy import Policy
from shoal.polish import polished
from shoal.recoding import (
    Assignment,
    Boxes,
    Cut,
    Field,
    FieldCut,
    Output,
    Placement,
    Recoding,
    Style,
    style_of,
    write_boxes,
)
from shoal.recoding.writing import AVERAGES, STYLES
from shoal.release import Release, examine
from shoal.requirements import certify, describe, layout_of, refuse_unreachable, settle
from shoal.requirements.base import real, whole

I4 = NDArray[np.int32]
F8 = NDArray[np.float64]

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Cuts:
    """A tree of cuts in codes: node n sends codes up to ``at[n]`` left; a leaf (-1) is the group ``group[n]``."""

    attribute: I4
    at: I4
    left: I4
    right: I4
    group: I4


@dataclass(frozen=True)
class Slices:
    """One attribute cut into intervals of codes, the same everywhere: interval i begins with the code ``first[i]``.

    ``node[i]`` is the node of the attribute's taxonomy that is published for it; numbers have none. One interval that holds
    all codes is the root. A missing value has an interval of its own unless it is in the root. ``shown`` has the lowest and
    the highest number of each interval that is released, where others were suppressed.
    """

    first: I4
    node: I4 | None = None
    shown: tuple[F8, F8] | None = None

    def without(self, attribute: Attribute, codes: I4) -> Slices:
        """The same cut, published only as far as these codes reach: no label may tell what is suppressed."""
        if attribute.taxonomy is not None or self.uncut:
            return self
        codes = codes[codes != attribute.missing]
        place = np.searchsorted(self.first, codes, side="right") - 1
        low, high = np.full(len(self.first), np.inf), np.full(len(self.first), -np.inf)
        np.minimum.at(low, place, attribute.position[codes])
        np.maximum.at(high, place, attribute.position[codes])
        return replace(self, shown=(low, high))

    def table(self, size: int) -> I4:
        """The interval of every code."""
        return np.repeat(np.arange(len(self.first), dtype=np.int32), np.diff(self.first, append=size))

    @property
    def uncut(self) -> bool:
        """Whether the root is published for all."""
        return len(self.first) == 1 and (self.node is None or self.node[0] == 0)


@dataclass(frozen=True)
class Decision:
    """What a method decided: where each cell goes, the box of every group, the cuts that led there, figures.

    ``cuts`` is a tree of cuts whose leaves are the groups; ``slices`` has a cut through every attribute, whose combinations
    are the groups, and ``gone`` the first codes of those that are suppressed. With neither, cells are sent one by one.
    """

    placement: Placement
    lo: I4
    hi: I4
    cuts: Cuts | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    slices: tuple[Slices, ...] = ()
    gone: I4 | None = None
    path: Path | None = None

    @classmethod
    def of_slices(
        cls, codes: Codes, slices: Sequence[Slices], path: Path | None = None, group: I4 | None = None
    ) -> Decision:
        """The groups that cuts through all attributes make; ``group`` numbers them by combination where that is known."""
        group = _grouped(codes, slices) if group is None else group
        one = np.zeros(int(group.max(initial=-1)) + 1, np.int64)
        one[group] = np.arange(len(group))
        size = np.array([a.size for a in codes.attributes], np.int64)
        length = [np.diff(cut.first, append=n) for cut, n in zip(slices, size, strict=True)]
        first = np.concatenate([np.repeat(s.first, n) for s, n in zip(slices, length, strict=True)])
        last = np.concatenate([np.repeat(s.first + n - 1, n) for s, n in zip(slices, length, strict=True)])
        tables, half = (first.astype(np.int32), last.astype(np.int32), size), len(one) // 2
        lo, hi = np.empty((2, len(one), len(size)), np.int32)
        threads.each(
            lambda part: kernels.boxes.around(codes.quasi, one[part], *tables, lo[part], hi[part]),
            [slice(0, half), slice(half, None)],
        )
        return cls(Placement.whole(codes.counts, group), lo, hi, slices=tuple(slices), path=path)

    @classmethod
    def of_records(cls, codes: Codes, cell: I4, group: I4) -> Decision:
        """Groups told record by record: entry i sends one record of ``cell[i]`` to ``group[i]``, -1 to none of them.

        Groups are numbered by their first cell, so that nothing tells in which order they were found.
        """
        held = group >= 0
        first = np.full(int(group.max(initial=-1)) + 1, len(codes.counts.weight), np.int64)
        np.minimum.at(first, group[held], cell[held])
        number = np.empty(len(first) + 1, np.int32)
        number[np.argsort(first, kind="stable")], number[-1] = np.arange(len(first), dtype=np.int32), -1
        groups = int((first < len(codes.counts.weight)).sum())
        key, weight = np.unique(cell.astype(np.int64) * (groups + 1) + number[group] + 1, return_counts=True)
        cells, group = key // (groups + 1), (key % (groups + 1) - 1).astype(np.int32)
        lo, hi = kernels.boxes.bounds(codes.quasi, codes.combination[cells], group, groups)
        return cls(Placement(cells, group, weight.astype(np.int64)), lo, hi)

    def size(self) -> NDArray[np.int64]:
        """The records of every group."""
        present = self.placement.group >= 0
        return np.bincount(
            self.placement.group[present], self.placement.weight[present], minlength=len(self.lo)
        ).astype(np.int64)


def _grouped(codes: Codes, slices: Sequence[Slices]) -> I4:
    """The group of every combination."""
    cut = [j for j, s in enumerate(slices) if len(s.first) > 1]
    tables = [slices[j].table(codes.attributes[j].size) for j in cut]
    return packed(codes.quasi, cut, [len(slices[j].first) for j in cut], tables)[0]


@dataclass(frozen=True)
class Made:
    """A decision carried out: the recoding, and the table by which the groups are counted.

    That is the table that leaves, unless records were drawn anew: then ``drawn`` leaves, and the other has the group of every
    record in the place of its quasi-identifiers.
    """

    recoding: Recoding
    counted: Engine
    drawn: Engine | None = None


class Common(TypedDict, total=False):
    """The parameters that every method takes; see `Method`."""

    write: str
    improve: bool
    max_size: int | None


class Method(ABC):
    """A method that makes a release. Subclasses decide; applying, checking and measuring are the same for all.

    Parameters
    ----------
    policy : the policy
    write : how generalized values are written: ``label``, ``lo-hi`` (two columns per number), ``midpoint``, ``set``; or one
        value for a group: ``mean`` or ``median`` of numbers and dates, the most frequent category
    improve : move and swap records between the groups, dissolve and split groups, while the information loss falls
    max_size : with ``improve``, the most records that a group may grow to; 2k - 1 unless said
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    randomized: ClassVar[bool] = False  # whether its seed is a secret that hides the records

    def __init__(
        self, policy: Policy, *, write: str = "label", improve: bool = False, max_size: int | None = None
    ) -> None:
        self.policy = policy
        self.write = write
        self.improve = improve
        self.max_size = max_size

    @abstractmethod
    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Decision:
        """From codes and counts to groups; reads no file, prints nothing, applies nothing."""

    def release(self, data: Any, *, seed: int | None = None, progress: Progress | None = None) -> Release:
        """Anonymize a table, check the result from the outside, and measure it.

        Raises `RequirementNotMet` where no release within the policy's allowance was found.
        """
        tell = progress or _silent
        style = style_of(self.write)
        engine = open_data(data)
        schema = engine.schema()
        self.policy.fit(schema)
        tell("reading", 0, 1)
        codes, coded = encode(engine, self.policy, also=self.watched())
        tell("reading", 1, 1)
        refuse_unreachable(self.policy.require, codes.table)
        rng = self._generator(seed)
        decision = self.decide(codes, rng=rng, progress=tell)
        written = self._shown(codes, decision, style)
        _refuse_clash([w.name for _, w in written], self.policy)
        decision, written = self._suppress(codes, decision, written)
        if self.improve or self.max_size is not None:
            decision, written = self._improve(codes, decision, written, tell)
        suppressed = codes.records - int(decision.size().sum())
        tell("writing", 0, 1)
        output = Output(self.policy.kept, self.policy.tokens)
        made = self._make(codes, coded, decision, written, output, rng)
        tell("writing", 1, 1)
        tell("checking", 0, 1)
        certificate = examine(made.counted, self.asked(), suppressed=suppressed, drawn=made.drawn)
        if not certificate.holds:
            raise RequirementNotMet(f"the release fails its check; nothing was written\n{certificate}").reached(
                certificate
            )
        if made.drawn or style in ("lo-hi", "midpoint", *AVERAGES):  # these show less than was published of the box
            written = self._write(codes, decision, "label")
        audience = audience_of(made.counted, self.policy, suppressed)
        measures = measures_of(_published(codes, decision, written), audience)
        measures |= decision.figures
        if made.drawn:
            measures |= statistics_kept(codes, made.drawn, self.policy)
        tell("checking", 1, 1)
        return Release(
            self.policy,
            certificate,
            measures,
            made.recoding,
            self.name,
            self.parameters(),
            tuple(n for n in schema.names if n not in self.policy.quasi and n not in output.kept),
            _format(data),
            made.drawn or made.counted,
            decision.path,
            _secret_of(rng) if self.randomized else None,
        )

    def weights_of(self, codes: Codes) -> F8:
        """How much each attribute counts in the information loss."""
        return np.ones(len(codes.attributes))

    def watched(self) -> tuple[str, ...]:
        """Columns that the method looks at beside the quasi-identifiers and what the requirements name."""
        return ()

    def refuse_unions(self) -> None:
        """An error for requirements that a union of groups may fail: groups that come to look alike are one."""
        for requirement in self.asked().require:
            if not requirement.monotone:
                raise PolicyError(
                    f"{self.name} cannot promise {describe(requirement)}: a union of groups that pass it may fail; "
                    "use another method"
                )

    def asked(self) -> Policy:
        """The policy with all that must hold, where the method promises more than it asks."""
        return self.policy

    def parameters(self) -> dict[str, Any]:
        """The parameters of this method, by name."""
        return {name: getattr(self, name) for name in constructor(type(self)) if name != "policy"}

    def _generator(self, seed: int | None) -> np.random.Generator:
        """Chance for the search; where it hides nobody it is the same on every run unless a seed is given."""
        if seed is not None and (not isinstance(seed, int) or seed < 0):
            raise PolicyError(f"a seed is a whole number of at least 0, not {seed!r}")
        return np.random.default_rng(0 if seed is None and not self.randomized else seed)

    def _shown(self, codes: Codes, decision: Decision, style: Style) -> tuple[tuple[str, Written], ...]:
        """By what the groups are told apart in the table that is checked: what is published for them."""
        return self._write(codes, decision, style)

    def _make(
        self,
        codes: Codes,
        coded: Engine,
        decision: Decision,
        written: tuple[tuple[str, Written], ...],
        output: Output,
        rng: np.random.Generator,
    ) -> Made:
        """Carry out a decision; only methods that draw records use ``rng``."""
        place, columns = decision.placement, output.columns(coded.schema().names, written)
        table = coded.apply(Plan(codes.counts, place.cell, place.group, place.weight, columns))
        return Made(self._recoding(codes, decision, written, output), table)

    def _write(self, codes: Codes, decision: Decision, style: Style) -> tuple[tuple[str, Written], ...]:
        """What is published for every group."""
        if not decision.slices:
            return write_boxes(codes.attributes, decision.lo, decision.hi, style, _members(codes, decision))
        if style in AVERAGES:
            cuts = [s for s in STYLES if s not in AVERAGES]
            raise PolicyError(
                f"{self.name} publishes the same cut everywhere, so no group has a {style} of its own; "
                f"{choices(style, cuts)}, or take another method"
            )
        return self._cut(codes, decision, Output((), ()), style).write(_intervals(decision, decision.lo))

    def _cut(self, codes: Codes, decision: Decision, output: Output, style: Style) -> Cut:
        fields = tuple(Field.of(a, self.policy) for a in codes.attributes)
        listed = zip(codes.attributes, fields, decision.slices, strict=True)
        cuts = tuple(_field_cut(a, f, s, sets=style == "set") for a, f, s in listed)
        cut = Cut(fields, output, cuts, numbers="label" if style == "set" else style)
        if decision.gone is None:
            return cut
        return replace(cut, suppressed=tuple(cut.labels(_intervals(decision, decision.gone))))

    def _suppress(
        self, codes: Codes, decision: Decision, written: tuple[tuple[str, Written], ...]
    ) -> tuple[Decision, tuple[tuple[str, Written], ...]]:
        """Leave out the groups that fail, as far as the policy allows."""
        groups, place_of = _as_published(codes, decision, written, self.policy).merged()
        require = self.asked().require
        kept = settle(groups, require)[place_of]
        size = decision.size()
        lost, allowed = codes.records - int(size[kept].sum()), int(self.policy.suppress * codes.records + 1e-9)
        if lost > allowed or not kept.any():
            wanted = "; ".join(describe(r) for r in require)
            reached = certify(groups, require, fingerprint="", label=lambda *_: None)
            raise RequirementNotMet(
                f"{self.name} cannot meet {wanted}: {lost} of {codes.records} records would have to be suppressed, "
                f"and the policy allows {allowed}; relax the requirement or raise 'suppress'"
            ).reached(reached)
        if kept.all():
            return decision, written
        number = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
        place = decision.placement
        group = np.where(place.group >= 0, number[place.group], -1).astype(np.int32)
        cuts = decision.cuts
        if cuts is not None:
            cuts = replace(cuts, group=np.where(cuts.group >= 0, number[cuts.group], -1).astype(np.int32))
        stays = codes.quasi[codes.combination[place.cell[group >= 0]]]
        listed = zip(decision.slices, codes.attributes, strict=False)
        decision = replace(
            decision,
            placement=replace(place, group=group),
            lo=decision.lo[kept],
            hi=decision.hi[kept],
            cuts=cuts,
            gone=decision.lo[~kept],
            slices=tuple(s.without(a, np.unique(stays[:, j])) for j, (s, a) in enumerate(listed)),
        )
        if decision.slices:
            return decision, self._write(codes, decision, style_of(self.write))
        return decision, tuple((source, replace(w, index=w.index[kept])) for source, w in written)

    def _improve(
        self, codes: Codes, decision: Decision, written: tuple[tuple[str, Written], ...], tell: Progress
    ) -> tuple[Decision, tuple[tuple[str, Written], ...]]:
        """Let records change their groups while the loss falls; the groups stay where one does not hold on its own."""
        if self.improve is not True:
            wrong = self.max_size is None
            raise PolicyError(
                f"improve must be true or false, not {self.improve!r}" if wrong else "max_size goes with improve=True"
            )
        asked, place, number = self.asked(), decision.placement, codes.records
        layout = layout_of(_as_published(codes, decision, written, self.policy))
        records = Records.of(codes, asked, self.weights_of(codes), layout=layout)
        most = 2 * records.k - 1 if self.max_size is None else whole(self.max_size, "max_size", records.k)
        cell, group = (np.repeat(part, place.weight).astype(np.int32) for part in (place.cell, place.group))
        tell("improving", 0, number)
        found = polished(records, cell, group, most, lambda done: tell("improving", done, number))
        decision = replace(decision, figures={**decision.figures, "improved": found.gained})
        if found.gained <= 0.0:
            return decision, written
        made = Decision.of_records(codes, cell, found.group)
        decision = replace(made, figures=decision.figures, path=decision.path)
        return decision, self._shown(codes, decision, style_of(self.write))

    def _recoding(
        self, codes: Codes, decision: Decision, written: tuple[tuple[str, Written], ...], output: Output
    ) -> Recoding:
        if decision.slices:
            return self._cut(codes, decision, output, style_of(self.write))
        fields = tuple(Field.of(a, self.policy) for a in codes.attributes)
        lo, hi = self._extents(codes, decision, fields)
        cuts, place = decision.cuts, decision.placement
        if cuts is None:
            cells = _positions(codes, codes.quasi[codes.combination[place.cell]])
            return Assignment(fields, output, cells, place.group, place.weight, lo, hi, written)
        at = np.zeros(len(cuts.at))
        for j, attribute in enumerate(codes.attributes):
            mine = cuts.attribute == j
            at[mine] = attribute.position[cuts.at[mine]]
        return Boxes(fields, output, cuts.attribute, at, cuts.left, cuts.right, cuts.group, lo, hi, written)

    def _extents(
        self, codes: Codes, decision: Decision, fields: tuple[Field, ...]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The positions that each published box holds: a range as it is, a node with all that lies under it."""
        lo, hi = (_positions(codes, box) for box in (decision.lo, decision.hi))
        for j, (attribute, known) in enumerate(zip(codes.attributes, fields, strict=True)):
            if attribute.taxonomy is not None and self.write != "set":
                nodes, index = np.unique(
                    attribute.taxonomy.covers(decision.lo[:, j], decision.hi[:, j]), return_inverse=True
                )
                ends = np.array([known.extent(int(n)) for n in nodes], np.float64)
                lo[:, j], hi[:, j] = ends[index, 0], ends[index, 1]
            lo[np.isinf(hi[:, j]) & np.isfinite(lo[:, j]), j] = -np.inf  # with a missing value among others: '*'
        return lo, hi


def constructor(method: type[Method]) -> dict[str, inspect.Parameter]:
    """The parameters that a method takes, those of its bases included, in the order they are written."""
    found: dict[str, inspect.Parameter] = {}
    for kind in reversed(method.__mro__):
        if "__init__" in vars(kind) and kind is not object:
            signature = inspect.signature(vars(kind)["__init__"])
            found |= {n: p for n, p in signature.parameters.items() if p.kind is p.KEYWORD_ONLY or n == "policy"}
    return found


def make(method: type[Method], policy: Policy, parameters: Mapping[str, Any]) -> Method:
    """A method with parameters by name; unknown ones are an error that lists the known."""
    known = [n for n in constructor(method) if n != "policy"]
    for name in parameters:
        if name not in known:
            raise PolicyError(f"{method.name} has no parameter {name!r}; {choices(name, known)}")
    return method(policy, **parameters)


def weights_for(codes: Codes, given: Mapping[str, float] | str | None) -> F8:
    """How much each attribute counts, by the names of columns; those that are not named count 1.

    A command line gives them as text, ``age=2,zip=0.5`` or ``age:2,zip:0.5``. Zero is allowed.
    """
    names = [a.name for a in codes.attributes]
    weights = np.ones(len(names))
    if isinstance(given, str):
        given = _weights_in(given)
    if given is not None and not isinstance(given, Mapping):
        raise PolicyError(f"weights are numbers by the names of columns, such as {{{names[0]!r}: 2}}, not {given!r}")
    for name, value in (given or {}).items():
        if name not in names:
            raise PolicyError(f"weights name {name!r}, which is no quasi-identifier; {choices(name, names)}")
        weight = real(value, f"the weight of {name!r}")
        if weight < 0:
            raise PolicyError(f"the weight of {name!r} must be at least 0, not {value!r}")
        weights[names.index(name)] = weight
    return weights


def _weights_in(text: str) -> dict[str, Any]:
    """Weights out of ``name=weight`` or ``name:weight`` pairs with commas between them."""
    found: dict[str, Any] = {}
    for part in filter(str.strip, text.split(",")):
        at = max(part.rfind("="), part.rfind(":"))
        name = part[: max(at, 0)].strip()
        if not name or name in found:
            raise PolicyError(f"weights take NAME=NUMBER once for a column, with commas between, not {text!r}")
        found[name] = part[at + 1 :].strip()
    return found


def _intervals(decision: Decision, codes: I4) -> I4:
    """The interval of every group and attribute, told by a code that lies in it."""
    places = [np.searchsorted(s.first, codes[:, j], side="right") - 1 for j, s in enumerate(decision.slices)]
    return np.stack(places, axis=1).astype(np.int32)


def _field_cut(attribute: Attribute, field: Field, slices: Slices, *, sets: bool) -> FieldCut:
    """A cut in codes as a cut in positions, which later data can be held against."""
    if slices.uncut:
        return FieldCut.whole()
    seen = slices.first != attribute.missing  # it stands behind the others and is published as it is
    if slices.node is not None:
        return FieldCut.of_nodes(field, slices.node[seen].tolist(), sets=sets)
    ends = np.concatenate(([attribute.low], attribute.position[slices.first[seen][1:]], [attribute.high]))
    shown = None if slices.shown is None else (slices.shown[0][seen], slices.shown[1][seen])
    return FieldCut.of_ends(field, ends, closed=True, shown=shown)


def _secret_of(rng: np.random.Generator) -> int:
    """The seed of a generator, also one that the operating system gave."""
    return int(getattr(rng.bit_generator.seed_seq, "entropy"))  # noqa: B009


def _silent(stage: str, done: int, total: int) -> None:
    """Nobody watches."""


def _format(data: Any) -> Format:
    return format_of(File(data)) if isinstance(data, (str, File)) else "csv"


def _positions(codes: Codes, box: I4) -> NDArray[np.float64]:
    columns = [a.position[box[:, j]] for j, a in enumerate(codes.attributes)]
    return np.stack(columns, axis=1) if columns else np.zeros(box.shape)


def _members(codes: Codes, decision: Decision) -> Callable[[int], tuple[I4, I4, NDArray[np.int64]]]:
    """For each attribute the distinct pairs of group and code, sorted, and the records of each."""

    def members(j: int) -> tuple[I4, I4, NDArray[np.int64]]:
        place = decision.placement
        combination = codes.combination[place.cell]
        present = place.group >= 0
        size = codes.attributes[j].size
        key = place.group[present].astype(np.int64) * size + codes.quasi[combination[present], j]
        pair, index = np.unique(key, return_inverse=True)
        records = np.bincount(index, place.weight[present], minlength=len(pair)).astype(np.int64)
        return (pair // size).astype(np.int32), (pair % size).astype(np.int32), records

    return members


def _published(codes: Codes, decision: Decision, written: tuple[tuple[str, Written], ...]) -> list[Published]:
    """The labels of every attribute, with the records that bear them."""
    size = decision.size()
    found = []
    for j, (_, column) in enumerate(written):
        labels: list[str | None] = [*column.values, None]  # the last serves index -1
        records = np.bincount(column.index % len(labels), size, minlength=len(labels)).astype(np.int64)
        borne = np.flatnonzero(records)
        found.append(
            Published(codes.attributes[j], [labels[i] for i in borne], records[borne], original_counts(codes, j))
        )
    return found


def _as_published(codes: Codes, decision: Decision, written: tuple[tuple[str, Written], ...], policy: Policy) -> Groups:
    """The groups as a stranger will see them: by what is written, not by what was decided."""
    place = decision.placement
    order = np.argsort(place.group, kind="stable")
    order = order[place.group[order] >= 0]
    start = np.searchsorted(place.group[order], np.arange(len(decision.lo) + 1)).astype(np.int64)
    sources = [source for source, _ in written]
    quasi = np.stack([w.index for _, w in written], axis=1) + 1
    names = tuple(policy.quasi)
    if len(sources) > len(names):  # two columns for one attribute: number their pairs
        quasi = np.stack(
            [dense([quasi[:, c] for c, s in enumerate(sources) if s == name], len(quasi)) for name in names],
            axis=1,
        )
    return Groups(
        names,
        tuple(s.name for s in codes.secrets),
        quasi.astype(np.int32),
        start,
        codes.counts.secret[place.cell[order]],
        place.weight[order],
        tuple(len(s.labels) for s in codes.secrets),
        tuple(s.labels for s in codes.secrets),
    )


def _refuse_clash(written: list[str], policy: Policy) -> None:
    pairs = [
        (name, f"{name}{end}") for name in policy.quasi for end in ("_lo", "_hi") if f"{name}{end}" in policy.quasi
    ]
    split = [(name, other) for name, other in pairs if name not in written]
    if split:
        raise PolicyError(
            f"column {split[0][0]!r} would be written as two, which cannot be told from the column {split[0][1]!r}; rename it"
        )
    twice = [name for name in written if written.count(name) > 1 or name in policy.kept]
    if twice:
        raise PolicyError(
            f"the released column {twice[0]!r} would stand beside another of that name; rename the column"
        )
