"""What every method is: parameters in the constructor, a decision on codes, and the way from data to a release."""

from __future__ import annotations

import inspect
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path as File
from typing import Any, ClassVar, TypedDict

import numpy as np
from numpy.typing import NDArray

from shoal.clusters import Records
from shoal.codes import Attribute, Codes, encode
from shoal.decision import Decision, Slices, as_published, intervals, members_of, published_labels
from shoal.engines import Engine, Format, Plan, Written, format_of, open_data
from shoal.errors import PolicyError, RequirementNotMet, choices
from shoal.measures import measures_of
from shoal.measures.statistics import statistics_kept
from shoal.measures.tables import audience_of
from shoal.policy import Policy
from shoal.polish import polished
from shoal.recoding import (
    Assignment,
    Boxes,
    Cut,
    Field,
    FieldCut,
    Output,
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
    weights: Mapping[str, float] | str | None = None  # by column, for methods that take them

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
        if not isinstance(self.improve, bool):
            raise PolicyError(f"improve must be true or false, not {self.improve!r}")
        if self.max_size is not None and not self.improve:
            raise PolicyError("max_size goes with improve=True")
        engine = open_data(data)
        schema = engine.schema()
        self.policy.fit(schema)
        tell("reading", 0, 1)
        codes, coded = encode(engine, self.policy, also=self.watched())
        tell("reading", 1, 1)
        refuse_unreachable(self.policy.require, codes.table)
        seed = self._seed(seed)
        rng = np.random.default_rng(seed)
        decision = self.decide(codes, rng=rng, progress=tell)
        written = self._shown(codes, decision, style)
        _refuse_clash([w.name for _, w in written], self.policy)
        decision, written = self._suppress(codes, decision, written)
        if self.improve:
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
        measures = measures_of(published_labels(codes, decision, written), audience)
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
            seed if self.randomized else None,
        )

    def weights_of(self, codes: Codes) -> F8:
        """How much each attribute counts, in the search and in the information loss."""
        return weights_for(codes, self.weights)

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

    def _seed(self, seed: int | None) -> int:
        """The seed of the search: the one given, a new secret where chance hides the records, else the same on every run."""
        if seed is None:
            return secrets.randbits(128) if self.randomized else 0
        if not isinstance(seed, int) or seed < 0:
            raise PolicyError(f"a seed is a whole number of at least 0, not {seed!r}")
        return seed

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
            return write_boxes(codes.attributes, decision.lo, decision.hi, style, members_of(codes, decision))
        if style in AVERAGES:
            cuts = [s for s in STYLES if s not in AVERAGES]
            raise PolicyError(
                f"{self.name} publishes the same cut everywhere, so no group has a {style} of its own; "
                f"{choices(style, cuts)}, or take another method"
            )
        return self._cut(codes, decision, Output((), ()), style).write(intervals(decision, decision.lo))

    def _cut(self, codes: Codes, decision: Decision, output: Output, style: Style) -> Cut:
        fields = tuple(Field.of(a, self.policy) for a in codes.attributes)
        listed = zip(codes.attributes, fields, decision.slices, strict=True)
        cuts = tuple(_field_cut(a, f, s, sets=style == "set") for a, f, s in listed)
        cut = Cut(fields, output, cuts, numbers="label" if style == "set" else style)
        if decision.gone is None:
            return cut
        return replace(cut, suppressed=tuple(cut.labels(intervals(decision, decision.gone))))

    def _suppress(
        self, codes: Codes, decision: Decision, written: tuple[tuple[str, Written], ...]
    ) -> tuple[Decision, tuple[tuple[str, Written], ...]]:
        """Leave out the groups that fail, as far as the policy allows."""
        groups, place_of = as_published(codes, decision, written, self.policy).merged()
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
        place, number, weights = decision.placement, codes.records, self.weights_of(codes)
        layout = layout_of(as_published(codes, decision, written, self.policy))
        records = Records.of(codes, self.asked(), weights / (weights.max(initial=0.0) or 1.0), layout=layout)
        most = 2 * records.k - 1 if self.max_size is None else whole(self.max_size, "max_size", records.k)
        most = min(most, number)
        cell, group = (np.repeat(part, place.weight).astype(np.int32) for part in (place.cell, place.group))
        tell("improving", 0, number)
        found = polished(records, cell, group, most, lambda done: tell("improving", done, number))
        decision = replace(decision, figures={**decision.figures, "improved": found.gained})
        if not found.apart or (found.gained <= 0.0 and not decision.slices):
            return decision, written
        decision = replace(Decision.of_records(codes, cell, found.group), figures=decision.figures)
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


def _silent(stage: str, done: int, total: int) -> None:
    """Nobody watches."""


def _format(data: Any) -> Format:
    return format_of(File(data)) if isinstance(data, (str, File)) else "csv"


def _positions(codes: Codes, box: I4) -> NDArray[np.float64]:
    columns = [a.position[box[:, j]] for j, a in enumerate(codes.attributes)]
    return np.stack(columns, axis=1) if columns else np.zeros(box.shape)


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
