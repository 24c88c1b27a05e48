"""The base class of methods: parameters in the constructor, a decision on codes, and hooks for publishing it."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypedDict

import numpy as np

from shoal.arrays import FloatArray
from shoal.encoding.codes import Codes
from shoal.engines import Engine
from shoal.errors import PolicyError, list_choices
from shoal.pipeline.run import Applied, Labelled, plan_of, run
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding import Output, Style, parse_style
from shoal.recoding.group_labels import AVERAGES, STYLES, parse_ends
from shoal.recoding.grouping import Grouping
from shoal.recoding.publishing import Columns, Publication
from shoal.release import Release
from shoal.requirements import describe
from shoal.requirements.requirement import parse_real_number

LEAST_AVERAGED = 3  # records of a group whose mean or median may be published


class CommonParameters(TypedDict, total=False):
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
    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """From codes and counts to groups; reads no file, prints nothing, applies nothing."""

    def release(self, data: Any, *, seed: int | None = None, progress: Progress | None = None) -> Release:
        """Anonymize a table, audit the result from its published values, and measure it.

        ``seed`` is the secret of the release (default: from the operating system). ``progress`` is called with a stage, the
        work done and the work in all.

        Raises `RequirementNotMet` where no release within the policy's allowance was found.
        """
        return run(self, data, seed=seed, progress=progress)

    def check_parameters(self) -> None:
        """An error for parameters that are wrong, or that exclude each other."""
        self.style()
        self._refuse_ends()
        if not isinstance(self.improve, bool):
            raise PolicyError(f"improve must be true or false, not {self.improve!r}")
        if self.max_size is not None and not self.improve:
            raise PolicyError("max_size needs improve=True")

    def attribute_weights(self, codes: Codes) -> FloatArray:
        """How much each attribute counts, in the search and in the information loss."""
        return parse_weights(codes, self.weights)

    def extra_columns(self) -> tuple[str, ...]:
        """Columns that the method looks at beside the quasi-identifiers and what the requirements name."""
        return ()

    def refuse_non_monotone(self) -> None:
        """An error for requirements that a union of groups may fail: groups that come to look alike are one."""
        for requirement in self.full_policy().require:
            if not requirement.monotone:
                raise PolicyError(
                    f"{self.name} cannot promise {describe(requirement)}: a union of groups that pass it may fail; "
                    "use another method"
                )

    def full_policy(self) -> Policy:
        """The policy with all that must hold, where the method promises more than it asks."""
        return self.policy

    def parameters(self) -> dict[str, Any]:
        """The parameters of this method, by name."""
        return {name: getattr(self, name) for name in constructor_parameters(type(self)) if name != "policy"}

    def label_groups(self, codes: Codes, decision: Grouping) -> Columns:
        """The columns by which the audited table shows its groups: the published labels."""
        return self.write_labels(codes, decision, self.style())

    def apply_groups(
        self, codes: Codes, engine: Engine, found: Labelled, output: Output, rng: np.random.Generator
    ) -> Applied:
        """Apply the groups in the engine. Only methods that publish synthetic records use ``rng``."""
        columns = output.columns(engine.schema().names, found.written)
        table = engine.apply([plan_of(codes, found.decision.placement, columns, self.policy)])
        recoding = self.publication(self.style()).recoding(codes, found.decision, found.written, output)
        return Applied(recoding, table)

    def write_labels(self, codes: Codes, decision: Grouping, style: Style) -> Columns:
        """What is published for every group."""
        if decision.attribute_cuts and style in AVERAGES:
            cuts = [s for s in STYLES if s not in AVERAGES]
            raise PolicyError(
                f"{self.name} publishes the same cut everywhere, so no group has a {style} of its own; "
                f"{list_choices(style, cuts)}, or take another method"
            )
        return self.publication(style).write(codes, decision)

    def style(self) -> Style:
        """How generalized values are written."""
        style = parse_style(str(self.write))
        if style in AVERAGES and self.policy.least_group_size < LEAST_AVERAGED:
            raise PolicyError(
                f"write={style!r} needs groups of at least {LEAST_AVERAGED} records; this policy allows groups of "
                f"{self.policy.least_group_size}. In a group of two, each person can compute the other's value. Use "
                "write='label', or require larger groups."
            )
        return style

    def notes(self) -> tuple[str, ...]:
        """What the owner should know about how the method was run."""
        return ()

    def publication(self, style: Style) -> Publication:
        """How groups are published in a style."""
        return Publication(self.policy, style, None if self.ends is None else parse_ends(self.ends))

    def _refuse_ends(self) -> None:
        if self.ends is None or parse_ends(self.ends) != "cut":
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


def constructor_parameters(method: type[Method]) -> dict[str, inspect.Parameter]:
    """The parameters that a method takes, those of its bases included, in the order they are written."""
    found: dict[str, inspect.Parameter] = {}
    for kind in reversed(method.__mro__):
        if "__init__" in vars(kind) and kind is not object:
            signature = inspect.signature(vars(kind)["__init__"])
            found |= {n: p for n, p in signature.parameters.items() if p.kind is p.KEYWORD_ONLY or n == "policy"}
    return found


def make_method(method: type[Method], policy: Policy, parameters: Mapping[str, Any]) -> Method:
    """A method with parameters by name; unknown ones are an error that lists the known."""
    known = [n for n in constructor_parameters(method) if n != "policy"]
    for name in parameters:
        if name not in known:
            raise PolicyError(f"{method.name} has no parameter {name!r}; {list_choices(name, known)}")
    return method(policy, **parameters)


def parse_weights(codes: Codes, given: Mapping[str, float] | str | None) -> FloatArray:
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
            raise PolicyError(f"weights name {name!r}, which is no quasi-identifier; {list_choices(name, names)}")
        weight = parse_real_number(value, f"the weight of {name!r}")
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
