"""Top-down specialization (Fung, Wang, Yu: Top-down specialization for information and privacy preservation, ICDE 2005).

Everything begins at its topmost value. At each step the value is opened that tells most of the target for each unit of
anonymity it costs, as long as the requirement holds; the path of steps is a path from privacy to information, and each
step on it is a table that may be released.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import ClassVar, Unpack

import numpy as np

from shoal import threads
from shoal.arrays import BoolArray, FloatArray, Int32Array
from shoal.encoding.codes import Codes
from shoal.errors import PolicyError, list_choices
from shoal.pipeline.method import CommonParameters, Method
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding.grouping import AttributeCut, Grouping
from shoal.recoding.search_path import Refusal, SearchPath, Step
from shoal.requirements.requirement import parse_real_number, parse_whole_number
from shoal.tables.attribute_sets import SuppressionAllowance, attribute_sets
from shoal.tables.partitions import RefinedGroups
from shoal.tables.specialization_trees import SAME, SpecializationTrees, class_counts

BY = ("score", "gain")
SPLIT = ("best", "valid")


class TopDownSpecialization(Method):
    """Open values from the top down, the best one first, while the requirement holds.

    Parameters
    ----------
    policy : the policy; with a target, values are judged by what they tell of it (information gain, in bits), without one
        by how much certainty they give (the fall of NCP)
    by : ``score`` divides the gain by the anonymity it costs (the fall of the smallest group, as the mean over the
        identifier sets that hold the attribute); ``gain`` looks at the gain alone
    split : ``best`` splits an interval of numbers where that tells most, as the paper does, and gives it up where the
        requirement forbids that; ``valid`` then takes the best split that it allows (not together with ``suppress``)
    stop_at : release the table after this many steps; the path is followed to its end all the same
    max_steps : go no further than this many steps
    seconds : begin no step after this much time; what is released then depends on the machine
    common : ``write``, ``improve`` and ``max_size``, as for every method; see `Method`

    Categories follow their taxonomy, numbers grow a tree of intervals, each split where it tells most. Requirements on
    several sets of attributes hold each on its own. A quasi-identifier that no requirement looks at is not released (``*``).
    Where a column has missing values these are a value of their own, set apart as soon as the column is opened. Without a
    target a value that holds the records of one child alone is opened at once, which costs nothing. Ties: the earlier
    attribute in the policy, then the earlier value; numbers the smallest split.

    ``path_`` has every step.

    Guarantee
    ---------
    Every group meets every requirement after every step, up to the records that the policy allows to suppress.
    Deterministic, unless ``seconds`` ends it.

    References
    ----------
    Fung, Wang, Yu: Top-down specialization for information and privacy preservation. ICDE 2005.
    """

    name: ClassVar[str] = "tds"
    cuts: ClassVar[bool] = True
    summary: ClassVar[str] = (
        "opens values from the top down, those that tell most of the target for least anonymity first"
    )

    path_: SearchPath

    def __init__(
        self,
        policy: Policy,
        *,
        by: str = "score",
        split: str = "best",
        stop_at: int | None = None,
        max_steps: int | None = None,
        seconds: float | None = None,
        **common: Unpack[CommonParameters],
    ) -> None:
        super().__init__(policy, **common)
        self.by = by
        self.split = split
        self.stop_at = stop_at
        self.max_steps = max_steps
        self.seconds = seconds

    def extra_columns(self) -> tuple[str, ...]:
        """The target, whose classes are counted."""
        return (self.policy.target,) if self.policy.target is not None else ()

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """The cut; ``rng`` is not used."""
        if self.by not in BY:
            raise PolicyError(f"values are chosen by {self.by!r}; {list_choices(self.by, BY)}")
        if self.split not in SPLIT:
            raise PolicyError(f"unknown split {self.split!r}; {list_choices(self.split, SPLIT)}")
        if self.split == "valid" and self.policy.suppress > 0:
            raise PolicyError(
                "split='valid' cannot weigh records that may be suppressed; use split='best', or suppress: 0"
            )
        stop_at = None if self.stop_at is None else parse_whole_number(self.stop_at, "stop_at", 0)
        max_steps = None if self.max_steps is None else parse_whole_number(self.max_steps, "max_steps", 0)
        seconds = None if self.seconds is None else parse_real_number(self.seconds, "seconds")
        if seconds is not None and seconds < 0:
            raise PolicyError(f"seconds must be at least 0, not {seconds:g}")
        until = None if seconds is None else time.monotonic() + seconds
        with threads.workers() as team:
            search = Search.of(codes, self.policy, self.by, self.split, team)
            return self._follow(search, stop_at, max_steps, until, progress)

    def _follow(
        self, search: Search, stop_at: int | None, max_steps: int | None, until: float | None, progress: Progress
    ) -> Grouping:
        """Open one value after the other, as long as that is allowed."""
        chosen = search.slices() if stop_at == 0 else None
        ended = "no value is left that may be opened"
        while (best := search.best()) is not None:
            if max_steps is not None and len(search.steps) >= max_steps:
                ended = f"max_steps = {max_steps}"
                break
            if until is not None and time.monotonic() >= until:
                ended = f"seconds = {self.seconds:g}"
                break
            search.open(best)
            done = len(search.steps)
            if done == stop_at:
                chosen = search.slices()
            progress("opening", done, done + int(search.alive.sum()))
        progress("opening", len(search.steps), len(search.steps))
        stand = len(search.steps) if chosen is None or stop_at is None else stop_at
        self.path_ = search.path(stand, ended)
        if chosen is None:
            return Grouping.from_cuts(search.codes, search.slices(), self.path_, search.groups())
        return Grouping.from_cuts(search.codes, chosen, self.path_)


@dataclass
class Search:
    """The cut as it is, the groups by every set of identifiers, and what opening each value would bring.

    Arrays are by the numbers of the values. A value is alive while it may be opened some day, and ``barred`` where it may not
    be at this step.
    """

    codes: Codes
    policy: Policy
    by: str
    split: str
    team: threads.Workers
    values: SpecializationTrees
    crowds: list[RefinedGroups]
    allowance: SuppressionAllowance
    cut: list[list[int]]
    place: list[Int32Array]
    attribute: Int32Array
    fan: Int32Array
    gain: FloatArray
    alive: BoolArray
    refused: dict[int, str] = field(default_factory=dict)
    barred: set[int] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)
    ncp: float = 1.0
    information: float = 0.0
    suppressed: int = 0
    origin: tuple[dict[tuple[str, ...], int], dict[str, float]] = field(default_factory=lambda: ({}, {}))

    @classmethod
    def of(cls, codes: Codes, policy: Policy, by: str, split: str, team: threads.Workers) -> Search:
        """Everything at its topmost value."""
        sets = attribute_sets(policy)
        values = SpecializationTrees(codes.attributes, class_counts(codes, policy.target), policy.target is not None)
        roots = [values.root(j) for j in range(len(codes.attributes))]
        search = cls(
            codes,
            policy,
            by,
            split,
            team,
            values,
            team.each(lambda s: RefinedGroups.of_set(codes, s, values), sets),
            SuppressionAllowance.of(policy, codes),
            [[x] for x in roots],
            [values.slots(x) for x in roots],
            np.zeros(0, np.int32),
            np.zeros(0, np.int32),
            np.zeros(0),
            np.zeros(0, bool),
        )
        search._know(range(len(roots)))
        for x in set(roots).difference(*(s.columns for s in sets)):
            search.alive[x] = False
            search.refused[x] = "no requirement looks at it; name it in one, or under 'keep' to release it as it is"
        for crowd in search.crowds:
            crowd.begin(search)
        search._look()
        search.origin = (search._smallest(), search._measures())
        return search

    def best(self) -> int | None:
        """The value to open next, or none; what must be suppressed then is noted."""
        while (x := self._first()) is not None:
            self.suppressed = max(int(c.fails[x]) for c in self.crowds)
            if self.suppressed == 0 or not self.allowance.settled:
                break
            slices = [self.values.slices(j, cut, x) for j, cut in enumerate(self.cut)]
            self.suppressed = self.allowance.lost(self.codes, slices)
            if self.allowance.enough(self.suppressed, self.codes.records):
                break
            self._refuse(x, self.suppressed)
        return x

    def open(self, x: int) -> None:
        """Open a value, and say what that was."""
        values, j = self.values, self.values.attribute[x]
        gain, loss = values.gain[x], float(self._loss()[x])
        children = values.open(x)
        self.cut[j].remove(x)
        self.cut[j].extend(children)
        self.place[j][values.lo[x] : values.hi[x] + 1] = np.concatenate([values.slots(c) for c in children])
        self._know(children)
        self.alive[x] = False
        self.barred.clear()
        tasks = [task for crowd in self.crowds if j in crowd.of.columns for task in crowd.open(x, self)]
        self.team.each(lambda task: task(), tasks)
        self._look()
        part = values.records[x] / self.codes.records
        self.ncp -= part * values.fall(x) / len(self.codes.attributes)
        self.information += part * gain
        score = float(_scores(np.array([gain]), np.array([loss]), self.by)[0])
        name, label = self.codes.attributes[j].name, values.label(x)
        smallest, measures = self._smallest(), self._measures()
        self.steps.append(Step(name, label, values.children(x), gain, loss, score, smallest, measures))

    def slices(self) -> tuple[AttributeCut, ...]:
        """The cut as it is."""
        return tuple(self.values.slices(j, cut) for j, cut in enumerate(self.cut))

    def groups(self) -> Int32Array | None:
        """The group of every combination, where some set holds all attributes."""
        for crowd in self.crowds:
            if len(crowd.of.columns) == len(self.codes.attributes):
                return crowd.numbered()
        return None

    def path(self, chosen: int, ended: str) -> SearchPath:
        """The steps so far, and what was left."""
        for x in np.flatnonzero(self.alive & ~self._valid()).tolist():
            self._refuse(x, self._failing(x))
        left = []
        for j, cut in enumerate(self.cut):
            for x in sorted((x for x in cut if x in self.refused), key=lambda x: self.values.lo[x]):
                name, label = self.codes.attributes[j].name, self.values.label(x)
                left.append(Refusal(name, label, self.values.children(x), self.refused[x]))
        return SearchPath("open", tuple(self.steps), chosen, *self.origin, tuple(left), ended)

    def _know(self, made: range) -> None:
        """Take up values that were just made."""
        values = self.values
        self.attribute = np.append(self.attribute, np.array(values.attribute[made.start :], np.int32))
        self.fan = np.append(self.fan, np.array(values.fan[made.start :], np.int32))
        self.gain = np.append(self.gain, values.gain[made.start :])
        self.alive = np.append(self.alive, np.array(values.helps[made.start :], bool))
        idle = "all its records are of one class" if values.informed else "it would tell no more"
        self.refused |= {x: idle for x in made if values.fan[x] and not values.helps[x]}

    def _look(self) -> None:
        """What opening each value would bring now; those that may never be opened are given up."""
        for crowd in self.crowds:
            crowd.outlook(self)
        if self.split == "valid":
            moved = [self._elsewhere(x) for x in np.flatnonzero(self.alive & ~self._valid()).tolist()]
            for crowd in self.crowds if any(moved) else ():
                crowd.outlook(self)
        if self.allowance.lasting:
            for x in np.flatnonzero(self.alive & ~self._valid()).tolist():
                self._refuse(x, self._failing(x))

    def _elsewhere(self, x: int) -> bool:
        """Find another place to split a value of numbers; whether there is one."""
        values, inside = self.values, self.values.numbers(x)
        if inside is None:
            return False
        j, forbidden = values.attribute[x], np.zeros(inside[1] - inside[0], bool)
        held = [crowd for crowd in self.crowds if j in crowd.of.columns]
        for crowd in held:
            crowd.forbid(x, inside, self, forbidden)
        if not values.split_elsewhere(x, forbidden):
            return False
        self.gain[x] = values.gain[x]
        self.place[j][values.lo[x] : values.hi[x] + 1] = values.slots(x)
        for crowd in held:
            crowd.place_anew(x, self)
        return True

    def _valid(self) -> BoolArray:
        """Which values may be opened, as far as the records that fail tell."""
        valid = np.ones(len(self.alive), bool)
        if not self.allowance.sure:
            return valid
        for crowd in self.crowds:
            valid &= (crowd.fails <= self.allowance.records) & (crowd.fails < self.codes.records)
        return valid

    def _failing(self, x: int) -> int:
        return max(int(crowd.fails[x]) for crowd in self.crowds)

    def _refuse(self, x: int, failing: int) -> None:
        """Give a value up, for this step or for good."""
        asked = "; ".join(str(c.of) for c in self.crowds if c.fails[x] > 0)
        most = f", and {self.allowance.records} may be suppressed" if self.allowance.records else ""
        self.refused[x] = f"{failing} record{'s' * (failing != 1)} would stand in groups that fail {asked}{most}"
        if self.allowance.lasting:
            self.alive[x] = False
        else:
            self.barred.add(x)

    def _first(self) -> int | None:
        """Of the values that may be opened the one with the best score; of equals the first."""
        free = [x for x in np.flatnonzero(self.alive & self._valid()).tolist() if x not in self.barred]
        if not free:
            return None
        at_once = [x for x in free if self.values.free[x]]
        if at_once:
            return min(at_once, key=lambda x: (self.values.attribute[x], self.values.lo[x]))
        score = _scores(self.gain[free], self._loss()[free], self.by)
        near = np.array(free)[score * (1 + SAME) >= score.max()]
        return int(min(near, key=lambda x: (self.values.attribute[x], self.values.lo[x])))

    def _loss(self) -> FloatArray:
        """The fall of the smallest group when each value is opened, as the mean over the sets that hold its attribute."""
        loss, sets = np.zeros(len(self.attribute)), np.zeros(len(self.attribute))
        for crowd in self.crowds:
            held = crowd.column[self.attribute] >= 0
            loss[held] += crowd.smallest - crowd.ahead[held]
            sets[held] += 1
        return np.maximum(loss / np.maximum(sets, 1), 0.0)

    def _smallest(self) -> dict[tuple[str, ...], int]:
        return {crowd.of.names: int(crowd.smallest) for crowd in self.crowds}

    def _measures(self) -> dict[str, float]:
        found = {"ncp": max(self.ncp, 0.0), "suppressed": float(self.suppressed)}
        return {**found, "information": self.information} if self.values.informed else found


def _scores(gain: FloatArray, loss: FloatArray, by: str) -> FloatArray:
    """Gain for each unit of anonymity; gain alone where nothing is lost."""
    return gain if by == "gain" else gain / np.where(loss > 0, loss, 1.0)
