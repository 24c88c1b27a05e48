"""Top-down specialization (Fung, Wang, Yu: Top-down specialization for information and privacy preservation, ICDE 2005).

Every attribute starts at its root. Each step specializes the value with the highest information gain per anonymity loss, as
long as the requirements hold. The path of steps leads from privacy to information, and every table on it may be released.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Unpack

import numpy as np

from shoal import threads
from shoal.encoding.codes import Codes
from shoal.errors import PolicyError, list_choices
from shoal.pipeline.method import NOT_AVERAGED, CommonParameters, GroupingMethod, Need
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding.grouping import Grouping
from shoal.recoding.search_path import SearchPath
from shoal.requirements.requirement import parse_whole_number
from shoal.specialization.search import SAME, Search, Stop

BY = ("score", "gain")
SPLIT = ("best", "valid")
FEW = 0.01  # the share of records that may prevent a better release, for a note
WORTH_A_NOTE = 0.05  # of the information
MOST_NOTED = 100_000  # combinations; larger tables are not searched a second time


class TopDownSpecialization(GroupingMethod):
    """Specialize values top-down, highest score first, while the requirements hold.

    Parameters
    ----------
    policy : the policy; with a target the gain of a value is its information gain in bits, without one the reduction of the
        objective
    by : ``score`` divides the gain by the anonymity loss (the reduction of the smallest group, as the mean over the attribute
        sets that contain the attribute); ``gain`` uses the gain alone
    split : ``best`` splits an interval where the gain is highest, as in the paper, and keeps the interval if a requirement
        forbids this split; ``valid`` then uses the best split that the requirements allow (not together with ``suppress``)
    stop_at : release the table after this many steps; the search still follows the path to its end
    max_steps : end the search after this many steps
    seconds : start no step after this many seconds, and end the local search of ``improve`` after so many more; the release
        then depends on the speed of the machine
    common : ``write``, ``objective``, ``improve`` and others, as for every method; see `GroupingMethod`

    Categories follow their taxonomy; numbers grow a tree of intervals, each split where the gain is highest. Requirements on
    different attribute sets are tested separately. A quasi-identifier that no requirement covers is published as ``*``. The
    missing values of a column are a child of the root. Without a target, a value whose records all have the same child is
    specialized at once, since no group changes. Ties: the earlier attribute in the policy, then the earlier value; for numbers
    the smallest split.

    Where the policy allows to suppress records, two searches run: one suppresses records at any step, the other only when no
    value is left that can be specialized without. The release is the table on both paths that keeps most: the share of
    information kept times the share of records kept (with ``stop_at`` or ``max_steps``: the end of the first path).

    ``path_`` has every step.

    Guarantee
    ---------
    After every step every group meets every requirement, except for the records that the policy allows to suppress.
    Deterministic, unless ``seconds`` ends the search.

    References
    ----------
    Fung, Wang, Yu: Top-down specialization for information and privacy preservation. ICDE 2005.
    """

    name: ClassVar[str] = "tds"
    cuts: ClassVar[bool] = True
    counts_people: ClassVar[bool] = True
    timed: ClassVar[bool] = True
    summary: ClassVar[str] = "specializes values top-down, highest information gain per anonymity loss first"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {},
        {"by": "gain"},
        {"split": "valid"},
        {"stop_at": 2},
        {"max_steps": 2},
        {"ends": "tight"},
        {"ends": "cut"},
        {"improve": True},
    )
    styles: ClassVar[Sequence[str]] = NOT_AVERAGED

    path_: SearchPath

    def __init__(
        self,
        policy: Policy,
        *,
        by: str = "score",
        split: str = "best",
        stop_at: int | None = None,
        max_steps: int | None = None,
        **common: Unpack[CommonParameters],
    ) -> None:
        super().__init__(policy, **common)
        self.by = by
        self.split = split
        self.stop_at = stop_at
        self.max_steps = max_steps
        self._notes: tuple[str, ...] = ()

    @classmethod
    def list_needs(cls, parameters: Mapping[str, Any]) -> frozenset[Need]:
        """No suppression, where splits are chosen among the valid ones."""
        return frozenset({"no suppression"}) if parameters.get("split") == "valid" else frozenset()

    def notes(self) -> tuple[str, ...]:
        """Return the note on records that prevent a more informative release."""
        return self._notes

    def extra_columns(self) -> tuple[str, ...]:
        """Return the target, whose classes the method counts."""
        return (self.policy.target,) if self.policy.target is not None else ()

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """Return the cut of the table; ``rng`` is not used."""
        if self.by not in BY:
            raise PolicyError(f"Parameter 'by' cannot be {self.by!r}; {list_choices(self.by, BY)}.")
        if self.split not in SPLIT:
            raise PolicyError(f"Parameter 'split' cannot be {self.split!r}; {list_choices(self.split, SPLIT)}.")
        if self.split == "valid" and self.policy.suppress > 0:
            raise PolicyError(
                f"split='valid' does not support suppression, and the policy has suppress: {self.policy.suppress:g}. "
                "Use split='best', or set suppress: 0."
            )
        stop_at = None if self.stop_at is None else parse_whole_number(self.stop_at, "stop_at", 0)
        max_steps = None if self.max_steps is None else parse_whole_number(self.max_steps, "max_steps", 0)
        seconds = self.parse_seconds()
        deadline = None if seconds is None else time.monotonic() + seconds
        chooses = self.policy.most_suppressed(codes.records) > 0 and stop_at is None and max_steps is None
        best: Stop | None = None
        with threads.workers(len(codes.quasi)) as workers:
            for thrifty in (False, True) if chooses else (False,):
                search = Search.start(codes, self.policy, self.by, self.split, self.objective, workers, thrifty=thrifty)
                found = search.run(progress, stop_at=stop_at, max_steps=max_steps, deadline=deadline, chooses=chooses)
                best = found if best is None or found.kept > best.kept + SAME else best
            assert best is not None  # noqa: S101
            if stop_at is None and max_steps is None and deadline is None:
                self._notes = note_obstacles(codes, self.policy, self.objective, workers, best.kept_of_all, progress)
        self.path_ = best.path
        return Grouping.from_cuts(codes, best.cuts, best.path, best.rows)


def note_obstacles(
    codes: Codes, policy: Policy, objective: str, workers: threads.Workers, kept: float, progress: Progress
) -> tuple[str, ...]:
    """Return a note if few records prevent a release that keeps much more, because a cut is the same for all records."""
    if (
        policy.suppress >= FEW
        or FEW * codes.records < 1
        or len(codes.quasi) > MOST_NOTED
        or codes.by_person is not None
    ):
        return ()
    allowing = policy.model_copy(update={"suppress": FEW})
    search = Search.start(codes, allowing, "score", "best", objective, workers, thrifty=True)
    found = search.run(progress, chooses=True)
    if found.kept_of_all - kept < WORTH_A_NOTE or not found.suppressed:
        return ()
    share = np.ceil(1000 * found.suppressed / codes.records) / 1000
    subject = "1 record prevents" if found.suppressed == 1 else f"{found.suppressed:,} records prevent"
    return (
        f"{subject} a release that keeps more: every value is published in the same way for all records. With "
        f"'suppress: {share:g}' about {found.kept_of_all:.0%} of the information is kept instead of {kept:.0%}.",
    )
