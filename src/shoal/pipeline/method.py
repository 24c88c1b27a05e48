"""What every method is: parameters in the constructor, a decision on codes, and the way from data to a release."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, TypedDict

import numpy as np

from shoal.arrays import FloatArray
from shoal.encoding.codes import Coded, Codes, coded
from shoal.engines import Dealing, Engine, Kept, Plan, Written, open_data
from shoal.engines.keyed_hash import KeyedHash
from shoal.errors import PolicyError, RequirementNotMet, choices
from shoal.formats.column_pairs import pair_names
from shoal.measures import Published, measures_of, merged
from shoal.measures.comparison import published_labels
from shoal.measures.statistics import statistics_kept
from shoal.pipeline.clustering import Records
from shoal.pipeline.local_search import polished
from shoal.policy import Policy
from shoal.recoding import Output, Placement, Recoding, Style, style_of
from shoal.recoding.group_labels import AVERAGES, STYLES, ends_of
from shoal.recoding.grouping import Decision, as_published
from shoal.recoding.publishing import Columns, Publication, parts_of
from shoal.release import Release, View
from shoal.requirements import Certificate, certify, describe, layout_of, refuse_unreachable, settle
from shoal.requirements.requirement import real, whole
from shoal.secret import new_seed, seed_of

Progress = Callable[[str, int, int], None]

LEAST_AVERAGED = 3  # records of a group whose mean or median may be published
ROOM = "give it more memory, or allow more combinations at once"


@dataclass(frozen=True)
class Made:
    """A decision carried out: the recoding, and the table by which the groups are counted.

    That is the table that leaves, unless records were drawn anew: then ``drawn`` leaves, and the other has the group of every
    record in the place of its quasi-identifiers.
    """

    recoding: Recoding
    counted: Engine
    drawn: Engine | None = None


@dataclass(frozen=True)
class Found:
    """The groups of a table, and what is published for them."""

    decision: Decision
    written: Columns


class Common(TypedDict, total=False):
    """The parameters that every method takes; see `Method`."""

    write: str
    ends: str | None
    improve: bool
    max_size: int | None


class Method(ABC):
    """A method that makes a release. Subclasses decide; applying, checking and measuring are the same for all.

    Parameters
    ----------
    policy : the policy
    write : how generalized values are written: ``label``, ``lo-hi`` (two columns per number), ``midpoint``, ``set``; or one
        value for a group: ``mean`` or ``median`` of numbers and dates, the most frequent category
    ends : where ranges of numbers end: ``tight`` at values of released records, ``cut`` at the cut that was made, as in
        ``[20, 40)``; the latter for mondrian, tds and bottom-up (default: ``tight``; tds and bottom-up publish the cut where
        nothing is suppressed)
    improve : move and swap records between the groups, dissolve and split groups, while the information loss falls
    max_size : with ``improve``, the most records that a group may grow to; 2k - 1 unless said
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    randomized: ClassVar[bool] = False  # whether its seed is a secret that hides the records
    cuts: ClassVar[bool] = False  # whether it makes cuts that can be published
    weights: Mapping[str, float] | str | None = None  # by column, for methods that take them
    write: str | None
    ends: str | None

    def __init__(
        self,
        policy: Policy,
        *,
        write: str = "label",
        ends: str | None = None,
        improve: bool = False,
        max_size: int | None = None,
    ) -> None:
        self.policy = policy
        self.write = write
        self.ends = ends
        self.improve = improve
        self.max_size = max_size

    @abstractmethod
    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Decision:
        """From codes and counts to groups; reads no file, prints nothing, applies nothing."""

    def release(self, data: Any, *, seed: int | None = None, progress: Progress | None = None) -> Release:
        """Anonymize a table, check the result from the outside, and measure it.

        ``seed`` is the secret of the release; it comes from the operating system unless given.

        Raises `RequirementNotMet` where no release within the policy's allowance was found.
        """
        tell = progress or _silent
        style = self.style()
        self._refuse_ends()
        if not isinstance(self.improve, bool):
            raise PolicyError(f"improve must be true or false, not {self.improve!r}")
        if self.max_size is not None and not self.improve:
            raise PolicyError("max_size goes with improve=True")
        secret = new_seed() if seed is None else seed_of(seed)
        engine = open_data(data)
        schema = engine.schema()
        self.policy.fit(schema)
        table = coded(
            engine,
            self.policy,
            also=self.watched(),
            carry=self.policy.carried,
            hash=KeyedHash.of(secret),
            tell=lambda done, total: tell("reading", done, total),
        )
        rng = np.random.default_rng(secret)
        output = Output(self.policy.kept, self.policy.tokens)
        if table.division.parts == 1:
            codes = table.count()
            tell("reading", 1, 1)
            found = self._decided(codes, rng, tell)
            tell("writing", 0, 1)
            made = self._make(codes, table.engine, found, output, rng)
            isolated = None if made.drawn else self._publication(style).isolated(codes, found.decision, found.written)
            if made.drawn or style in ("lo-hi", "midpoint", *AVERAGES):  # these show less than was published of the box
                found = replace(found, written=self._write(codes, found.decision, "label"))
            labels, path = published_labels(codes, found.decision, found.written), found.decision.path
            figures = dict(found.decision.figures)
        else:
            made, labels, isolated = self._in_parts(table, output, rng, tell)
            codes, figures, path = None, {}, None
        tell("writing", 1, 1)
        tell("checking", 0, 1)
        suppressed = schema.rows - made.counted.schema().rows
        view, certificate = self._audit(made, suppressed, table.division.parts)
        measures = measures_of(labels, view.audience(suppressed))
        measures |= figures
        if isolated is not None:
            measures["isolated_ends"] = isolated / max(certificate.records, 1)
        if made.drawn and codes is not None:
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
            engine.format,
            made.drawn or made.counted,
            path,
            secret,
            view=view,
            method_notes=self.notes(),
            again=partial(self.release, engine) if seed is None else None,
        )

    def _audit(self, made: Made, suppressed: int, parts: int) -> tuple[View, Certificate]:
        """Count the released table and test every requirement; an error where one fails."""
        with ThreadPoolExecutor(1) as pool:  # the fingerprint is made while the groups are counted
            fingerprint = pool.submit((made.drawn or made.counted).fingerprint)
            view = View.of(made.counted, self.asked(), measured=self.policy)
        certificate = view.certificate(
            self.asked(), suppressed=suppressed, drawn=made.drawn, parts=parts, fingerprint=fingerprint.result()
        )
        if not certificate.holds:
            raise RequirementNotMet(f"the release fails its check; nothing was written\n{certificate}").reached(
                certificate
            )
        return view, certificate

    def _decided(self, codes: Codes, rng: np.random.Generator, tell: Progress) -> Found:
        """The groups of a table, or of a part of one, after what fails was left out and what can be improved was."""
        refuse_unreachable(self.policy.require, codes.table)
        decision = self.decide(codes, rng=rng, progress=tell)
        found = Found(decision, self._shown(codes, decision, self.style()))
        _refuse_clash([w.name for _, w in found.written], self.policy)
        found = self._suppress(codes, found)
        return self._improve(codes, found, tell) if self.improve else found

    def _in_parts(
        self, table: Coded, output: Output, rng: np.random.Generator, tell: Progress
    ) -> tuple[Made, list[Published], int]:
        """Search the parts of a table that is too large for one search, one after another, and release them together.

        Returns also what is published, and the number of records that are isolated by an end of a range. Each part meets the
        requirement on its own; so does the union, where unions of groups that pass do.
        """
        division, names = table.division, table.engine.schema().names
        if self.randomized:
            raise PolicyError(f"{self.name} cannot work in parts; {ROOM}")
        for requirement in self.asked().require:
            if requirement.relative or not requirement.monotone:
                raise PolicyError(
                    f"{describe(requirement)} cannot be promised for a table that is searched in parts: it looks at the "
                    f"whole table; {ROOM}"
                )
        recoding = parts_of(table.attributes, division, self.policy, output)
        labels: list[list[Published]] = []
        isolated: list[int] = []

        def plans() -> Iterator[Plan]:
            for part, chance in enumerate(rng.spawn(division.parts)):
                tell("parts", part, division.parts)
                codes = table.count(part)
                try:
                    found = self._decided(codes, chance, _silent)
                except RequirementNotMet as error:
                    where = f"part {part + 1} of the {division.parts} that the table was cut into"
                    raise RequirementNotMet(f"{where}: {error}; {ROOM}").reached(error.certificate) from None
                recoding.put(part, self._recoding(codes, found, output))
                shown = replace(found, written=self._write(codes, found.decision, "label"))
                labels.append(published_labels(codes, shown.decision, shown.written))
                isolated.append(self._publication(self.style()).isolated(codes, found.decision, found.written))
                yield self._plan(codes, found, output, names)
            tell("parts", division.parts, division.parts)

        released = table.engine.apply(plans())
        return Made(recoding, released), [merged(listed) for listed in zip(*labels, strict=True)], sum(isolated)

    def weights_of(self, codes: Codes) -> FloatArray:
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

    def _shown(self, codes: Codes, decision: Decision, style: Style) -> Columns:
        """By what the groups are told apart in the table that is checked: what is published for them."""
        return self._write(codes, decision, style)

    def _make(self, codes: Codes, engine: Engine, found: Found, output: Output, rng: np.random.Generator) -> Made:
        """Carry out a decision; only methods that draw records use ``rng``."""
        table = engine.apply([self._plan(codes, found, output, engine.schema().names)])
        return Made(self._recoding(codes, found, output), table)

    def _plan(self, codes: Codes, found: Found, output: Output, names: Sequence[str]) -> Plan:
        place, columns = found.decision.placement, output.columns(names, found.written)
        return self.plan(codes, place, columns)

    def plan(self, codes: Codes, place: Placement, columns: Sequence[Kept | Written]) -> Plan:
        """What an engine is to do: the records of a cell that is divided are dealt by the hash that the secret keys."""
        dealing = None
        if codes.hash is not None and (np.diff(place.cell) == 0).any():
            key = (self.policy.key,) if self.policy.key else ()
            kept = (c.name for c in columns if isinstance(c, Kept))
            dealing = Dealing(codes.hash, codes.cell_hash, (*kept, *key))
        return Plan(codes.counts, place.cell, place.group, place.weight, tuple(columns), dealing)

    def _recoding(self, codes: Codes, found: Found, output: Output) -> Recoding:
        return self._publication(self.style()).recoding(codes, found.decision, found.written, output)

    def _write(self, codes: Codes, decision: Decision, style: Style) -> Columns:
        """What is published for every group."""
        if decision.slices and style in AVERAGES:
            cuts = [s for s in STYLES if s not in AVERAGES]
            raise PolicyError(
                f"{self.name} publishes the same cut everywhere, so no group has a {style} of its own; "
                f"{choices(style, cuts)}, or take another method"
            )
        return self._publication(style).write(codes, decision)

    def style(self) -> Style:
        """How generalized values are written."""
        style = style_of(str(self.write))
        if style in AVERAGES and self.policy.least < LEAST_AVERAGED:
            raise PolicyError(
                f"write={style!r} is refused where groups may have fewer than {LEAST_AVERAGED} records, and the policy allows "
                f"{self.policy.least}: of two people each could compute the other's value. Use write='label', or require "
                "larger groups."
            )
        return style

    def notes(self) -> tuple[str, ...]:
        """What the owner should know about how the method was run."""
        return ()

    def _publication(self, style: Style) -> Publication:
        return Publication(self.policy, style, None if self.ends is None else ends_of(self.ends))

    def _refuse_ends(self) -> None:
        if self.ends is None or ends_of(self.ends) != "cut":
            return
        if not self.cuts:
            raise PolicyError(
                f"{self.name} makes no cuts, so ends='cut' cannot be published. Use ends='tight', or one of the methods "
                "'mondrian', 'tds' and 'bottom-up'."
            )
        if self.improve:
            raise PolicyError(
                "ends='cut' and improve=True exclude each other: records that change groups leave the cuts. Give one of them."
            )

    def _suppress(self, codes: Codes, found: Found) -> Found:
        """Leave out the groups that fail, as far as the policy allows."""
        decision, written = found.decision, found.written
        groups, place_of = as_published(codes, decision, written, self.policy).merged()
        require = self.asked().require
        kept = settle(groups, require)[place_of]
        size = decision.size()
        lost, allowed = codes.records - int(size[kept].sum()), self.policy.most_suppressed(codes.records)
        if lost > allowed or not kept.any():
            wanted = "; ".join(describe(r) for r in require)
            reached = certify(groups, require, fingerprint="", label=lambda *_: None)
            raise RequirementNotMet(
                f"{self.name} cannot meet {wanted}: {lost} of {codes.records} records would have to be suppressed, "
                f"and the policy allows {allowed}; relax the requirement or raise 'suppress'"
            ).reached(reached)
        if kept.all():
            return found
        number = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
        place = decision.placement
        group = np.where(place.group >= 0, number[place.group], -1).astype(np.int32)
        cuts = decision.cuts
        if cuts is not None:
            cuts = replace(cuts, group=np.where(cuts.group >= 0, number[cuts.group], -1).astype(np.int32))
        decision = replace(
            decision,
            placement=replace(place, group=group),
            lo=decision.lo[kept],
            hi=decision.hi[kept],
            cuts=cuts,
            gone=decision.lo[~kept],
            regions=None if decision.regions is None else decision.regions.of(kept),
        )
        return Found(decision, self._shown(codes, decision, self.style()))  # no label may tell what is suppressed

    def _improve(self, codes: Codes, given: Found, tell: Progress) -> Found:
        """Let records change their groups while the loss falls; the groups stay where one does not hold on its own."""
        decision, written = given.decision, given.written
        place, number, weights = decision.placement, codes.records, self.weights_of(codes)
        layout = layout_of(as_published(codes, decision, written, self.policy))
        records = Records.of(codes, self.asked(), weights / (weights.max(initial=0.0) or 1.0), layout=layout)
        most = 2 * records.k - 1 if self.max_size is None else whole(self.max_size, "max_size", records.k)
        most = min(most, number)
        turn = np.argsort(codes.turn[place.cell], kind="stable")  # ties go to the earlier record in keyed order
        cell, group = (np.repeat(p[turn], place.weight[turn]).astype(np.int32) for p in (place.cell, place.group))
        tell("improving", 0, number)
        found = polished(records, cell, group, most, lambda done: tell("improving", done, number))
        decision = replace(decision, figures={**decision.figures, "improved": found.gained})
        if not found.apart or (found.gained <= 0.0 and not decision.slices):
            return replace(given, decision=decision)
        decision = replace(Decision.of_records(codes, cell, found.group), figures=decision.figures)
        return Found(decision, self._shown(codes, decision, self.style()))


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


def weights_for(codes: Codes, given: Mapping[str, float] | str | None) -> FloatArray:
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


def _silent(stage: str, done: int, total: int) -> None:
    """Nobody watches."""


def _refuse_clash(written: list[str], policy: Policy) -> None:
    for column in policy.quasi:
        clash = next((name for name in pair_names(column) if name in policy.quasi), None)
        if clash and column not in written:
            raise PolicyError(f"write='lo-hi' would create {clash!r}, which already exists. Rename that column.")
    others = (*policy.kept, *policy.identifiers, policy.key)  # a name of an identifier would look like one to the check
    twice = [name for name in written if written.count(name) > 1 or name in others]
    if twice:
        raise PolicyError(
            f"the released column {twice[0]!r} would stand beside another of that name, or take its place; rename the column"
        )
