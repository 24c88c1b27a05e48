"""The base classes of methods: parameters in the constructor, `decide` returns a grouping of cells or an operator."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypedDict

import numpy as np

from shoal.arrays import FloatArray, Int32Array, Int64Array
from shoal.encoding.attributes import OBJECTIVES, Attribute
from shoal.encoding.codes import Codes, EncodedTable
from shoal.errors import PolicyError, list_choices
from shoal.formats.bucket_columns import BUCKET, COUNT
from shoal.pipeline.bucketed_run import run_bucketing
from shoal.pipeline.publication import LabelPublication, Publication
from shoal.pipeline.randomized_run import run_randomizing
from shoal.pipeline.run import run
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding import Style, parse_style
from shoal.recoding.group_labels import AVERAGES, ENDS, STYLES, parse_ends
from shoal.recoding.grouping import AttributeCut, Grouping
from shoal.release import Release, find_bucketed_column
from shoal.requirements import Attack, Operator, describe
from shoal.requirements.requirement import TestedOn, parse_real_number

LEAST_AVERAGED = 3  # smallest group whose mean or median may be published

NOT_AVERAGED = tuple(style for style in STYLES if style not in AVERAGES)  # ways of writing for cuts of the whole table
Need = Literal["target", "sensitive", "truly sensitive", "trees", "exact ends", "no suppression", "no unit"]


class WritingParameters(TypedDict, total=False):
    """The parameters of every grouping method but the objective; see `GroupingMethod`."""

    write: str
    ends: str | None
    improve: bool
    max_size: int | None
    seconds: float | None


class CommonParameters(WritingParameters, total=False):
    """The parameters that every grouping method takes; see `GroupingMethod`."""

    objective: str


class Method(ABC):
    """A method that makes a release. `GroupingMethod`, `BucketingMethod` and `RandomizingMethod` are its families.

    Parameters
    ----------
    policy : the policy

    ``examples`` are parameters for the tests of all registered methods, for compilation in advance and for comparisons of
    versions: cheap values, with every value that leads through other code. The first example is the default or close to it. All
    examples are possible for any table, if the policy has what `list_needs` says. ``column_examples`` has the parameters that
    take a value per quasi-identifier, and such a value; ``column_names`` the parameters that name another column.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    column_examples: ClassVar[Mapping[str, Any]] = {}
    column_names: ClassVar[tuple[str, ...]] = ()
    tests: ClassVar[
        frozenset[TestedOn]
    ]  # the requirements that the method can guarantee, by the object they are tested on

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    @abstractmethod
    def release(self, data: Any, *, seed: int | None = None, progress: Progress | None = None) -> Release:
        """Anonymize a table, audit the result, and measure it.

        ``seed`` is the secret seed of the release (default: from the operating system). ``progress`` is called with the
        stage, the work done and the total work.

        Raises `RequirementNotMet` if the method finds no release that meets the requirements and suppresses no more records
        than the policy allows.
        """

    def check_parameters(self) -> None:
        """Raise `PolicyError` for wrong parameters, and for requirements of the other family of methods."""
        for requirement in self.policy.require:
            if requirement.tested_on not in self.tests:
                family = "randomizing methods" if requirement.tested_on == "operator" else "methods that group records"
                raise PolicyError(
                    f"{self.name} cannot guarantee {describe(requirement)}, which is a requirement for {family}. Use such a "
                    "method, or another requirement."
                )

    @classmethod
    def publishes_one_table(cls, parameters: Mapping[str, Any]) -> bool:
        """Whether a release with these parameters is one table, so that a table of a database can hold it."""
        return True

    @classmethod
    def list_needs(cls, parameters: Mapping[str, Any]) -> frozenset[Need]:
        """What a release with these parameters needs of a policy, beside requirements that the method can guarantee.

        ``target``: a target that is no quasi-identifier; ``sensitive``: a sensitive column, and ``truly sensitive``: values of
        it; ``trees``: a tree for every quasi-identifier; ``exact ends``: no ``round``; ``no suppression``; ``no unit``.
        """
        return frozenset()

    def extra_columns(self) -> tuple[str, ...]:
        """Columns that the method reads beside the quasi-identifiers and the columns of the requirements."""
        return ()

    def full_policy(self) -> Policy:
        """The policy, with the requirements that the method adds."""
        return self.policy

    def parameters(self) -> dict[str, Any]:
        """The parameters of this method, by name."""
        return {name: getattr(self, name) for name in list_constructor_parameters(type(self)) if name != "policy"}

    def notes(self) -> tuple[str, ...]:
        """Notes for the owner about the run of the method."""
        return ()

    def owner_sections(self) -> str:
        """Sections for the owner's report about the run of the method, as HTML."""
        return ""


class GroupingMethod(Method):
    """A method that groups the cells of a table. Publishing, auditing and measuring the groups is the same for all.

    Parameters
    ----------
    policy : the policy
    write : how generalized values are written: ``label``, ``lo-hi`` (two columns per number), ``midpoint``, ``set``; or one
        value per group: ``mean`` or ``median`` of numbers and dates, with the most frequent category
    ends : ends of published ranges: ``tight`` (smallest and largest released value), or ``cut`` (the boundaries of the
        search, as in ``[20, 40)``; for mondrian, tds and bottom-up). Default: ``tight``; tds and bottom-up publish the cut
        if they suppress no record
    objective : the information loss that the search and ``improve`` minimize, by its name in ``release.measures``: ``ncp``,
        ``loss_mean`` or ``il`` (the heights of tree nodes)
    improve : move and exchange records between groups, dissolve, merge and split groups, while the information loss falls. The
        loss is that of labels: with ``write="set"`` the loss of the sets can increase
    max_size : with ``improve``, the search makes no group larger than this number of records; larger groups of the method
        may stay (default: no limit)
    seconds : with ``improve``, end the local search after this many seconds, with the best groups so far; the release then
        depends on the speed of the machine
    """

    tests: ClassVar[frozenset[TestedOn]] = frozenset({"table", "groups"})
    cuts: ClassVar[bool] = False  # whether ends='cut' is possible
    counts_people: ClassVar[bool] = (
        False  # whether `decide` counts people itself (`Codes.by_person`), else it gets votes
    )
    tries_suppression: ClassVar[bool] = False  # whether `decide` compares releases without some records
    objectives: ClassVar[Sequence[str]] = OBJECTIVES  # the measures that ``objective`` can name
    styles: ClassVar[Sequence[str]] = STYLES  # the ways of writing that are possible
    improvable: ClassVar[bool] = True  # whether ``improve`` is possible
    timed: ClassVar[bool] = False  # whether ``seconds`` also limits the search of the method itself
    weights: Mapping[str, float] | str | None = None  # attribute weights by column, for methods that take them
    write: str | None
    ends: str | None

    def __init__(
        self,
        policy: Policy,
        *,
        write: str = "label",
        ends: str | None = None,
        objective: str = "ncp",
        improve: bool = False,
        max_size: int | None = None,
        seconds: float | None = None,
    ) -> None:
        super().__init__(policy)
        self.write = write
        self.ends = ends
        self.objective = objective
        self.improve = improve
        self.max_size = max_size
        self.seconds = seconds

    @abstractmethod
    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """Group the cells of a table by their codes and counts. Do not read files, print, or apply the groups."""

    @classmethod
    def list_common_examples(cls) -> tuple[Mapping[str, Any], ...]:
        """Examples of the parameters of every grouping method, as far as they are possible; see ``examples``.

        There is none of ``seconds``, because the release then depends on the speed of the machine.
        """
        ends = ENDS if cls.cuts else [one for one in ENDS if one != "cut"]
        searched: tuple[Mapping[str, Any], ...] = ({"improve": True}, {"improve": True, "max_size": 20})
        return (
            *({"write": style} for style in cls.styles),
            *({"ends": one} for one in ends),
            *({"objective": objective} for objective in cls.objectives),
            *(searched if cls.improvable else ()),
        )

    def release(self, data: Any, *, seed: int | None = None, progress: Progress | None = None) -> Release:
        """Anonymize a table, audit the result from its published values, and measure it; see `Method.release`."""
        return run(self, data, seed=seed, progress=progress)

    def check_parameters(self) -> None:
        """Raise `PolicyError` for wrong parameters and for parameters that exclude each other."""
        super().check_parameters()
        self.style()
        self._refuse_ends()
        if self.objective not in self.objectives:
            choices = list_choices(str(self.objective), self.objectives)
            raise PolicyError(f"unknown value {self.objective!r} for 'objective'; {choices}")
        if not isinstance(self.improve, bool):
            raise PolicyError(f"improve must be true or false, not {self.improve!r}.")
        if self.max_size is not None and not self.improve:
            raise PolicyError("max_size has an effect only with improve=True. Set improve=True or remove max_size.")
        if self.seconds is not None and not self.improve and not self.timed:
            raise PolicyError("seconds has an effect only with improve=True. Set improve=True or remove seconds.")
        self.parse_seconds()
        if self.policy.pseudonym_column is not None and self.publication().evidence != "table":
            raise PolicyError(
                f"{self.name} generates synthetic records, which belong to nobody, so they get no pseudonym. Remove "
                "'pseudonym' from the unit, or use another method."
            )

    def parse_seconds(self) -> float | None:
        """The time limit in seconds, or None."""
        seconds = None if self.seconds is None else parse_real_number(self.seconds, "seconds")
        if seconds is not None and seconds < 0:
            raise PolicyError(f"Parameter 'seconds' must be at least 0, not {seconds:g}.")
        return seconds

    def attribute_weights(self, codes: Codes) -> FloatArray:
        """The weight of each attribute in the search and in the information loss."""
        return parse_weights(codes, self.weights)

    @property
    def loss_objective(self) -> str:
        """The information loss that the local search of ``improve`` minimizes: the objective."""
        return self.objective

    def refuse_non_monotone(self) -> None:
        """Raise `PolicyError` for requirements that a union of passing groups may fail.

        Groups that get the same published values are one group.
        """
        for requirement in self.full_policy().require:
            if not requirement.monotone:
                raise PolicyError(
                    f"{self.name} cannot guarantee {describe(requirement)}: a union of passing groups may fail this "
                    "requirement. Use another method."
                )

    def find_partition_obstacle(self) -> str:
        """The parameter that a search in partitions cannot respect, such as ``name=True``; empty if there is none."""
        return ""

    @property
    def merges_partitions(self) -> bool:
        """Whether a table that is counted in partitions is searched as one table, at levels that fit in memory.

        Such a method implements `list_levels` and `measure_cell`, and groups cells by cuts of all attributes.
        """
        return False

    def measure_cell(self, table: EncodedTable) -> int:
        """The largest number of bytes that the search needs for a counted cell."""
        raise NotImplementedError

    def list_levels(self, attribute: Attribute, records: Int64Array) -> Sequence[AttributeCut]:
        """The cuts of an attribute from its values to its root; ``records`` has the number of records of every code."""
        raise NotImplementedError

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

    def publication(self) -> Publication:
        """What is published for the groups: their labels."""
        ends = None if self.ends is None else parse_ends(self.ends)
        return LabelPublication(self.policy, self.style(), ends, self.name)

    def _refuse_ends(self) -> None:
        if self.ends is None or parse_ends(self.ends) != "cut":
            return
        if not self.cuts:
            raise PolicyError(
                f"{self.name} makes no cuts, so ends='cut' is not possible. Use ends='tight', or one of the methods "
                "'mondrian', 'tds' and 'bottom-up'."
            )
        if self.improve:
            raise PolicyError(
                "ends='cut' and improve=True exclude each other: improve=True moves records across the cuts. Remove one of "
                "them."
            )


class BucketingMethod(Method):
    """A method that divides the records into buckets and publishes the sensitive values apart from the records, by bucket.

    The quasi-identifiers are published unchanged. So a method of this family protects the link between a person and a sensitive
    value, and not the fact that a person is in the table. The requirements are tested on the buckets.
    """

    tests: ClassVar[frozenset[TestedOn]] = frozenset({"table"})
    form: str

    @classmethod
    def publishes_one_table(cls, parameters: Mapping[str, Any]) -> bool:
        """Whether the sensitive values are shuffled within the buckets, instead of counted in a second table."""
        return parameters.get("form") == "permuted"

    @classmethod
    def list_needs(cls, parameters: Mapping[str, Any]) -> frozenset[Need]:
        """A sensitive column, and no unit."""
        return frozenset({"sensitive", "no unit"})

    @property
    def sensitive(self) -> str:
        """The column that is published apart from the records."""
        return find_bucketed_column(self.policy, self.name)

    def check_parameters(self) -> None:
        """Raise `PolicyError` for a policy that buckets cannot serve."""
        super().check_parameters()
        find_bucketed_column(self.policy, self.name)
        named = (*self.policy.quasi, *self.policy.unchanged_columns, *self.policy.hidden_columns)
        taken = [name for name in (BUCKET, COUNT) if name in named]
        if taken:
            raise PolicyError(f"the release would have a second column {taken[0]!r}. Rename that column of the table.")

    @abstractmethod
    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> tuple[Int64Array, Int32Array]:
        """Divide the records: the cell and the bucket of every record. Do not read files, print, or apply the buckets."""

    def release(self, data: Any, *, seed: int | None = None, progress: Progress | None = None) -> Release:
        """Divide a table into buckets, test the buckets, and measure the result; see `Method.release`."""
        return run_bucketing(self, data, seed=seed, progress=progress)


class RandomizingMethod(Method):
    """A method that publishes every record with values that are changed at random.

    It returns an operator: the probabilities of the changes. One kernel applies the operator to every record. The requirements
    are on the operator, and a policy without requirements is allowed.
    """

    tests: ClassVar[frozenset[TestedOn]] = frozenset({"operator"})

    @classmethod
    def list_needs(cls, parameters: Mapping[str, Any]) -> frozenset[Need]:
        """No unit."""
        return frozenset({"no unit"})

    def check_parameters(self) -> None:
        """Raise `PolicyError` for a policy with a unit: the records of a person would be changed independently."""
        super().check_parameters()
        if self.policy.unit is not None:
            raise PolicyError(
                f"{self.name} changes every record on its own, so several records of a person reveal more than one. Remove "
                "'unit' from the policy if every person has one record, or use a method that groups records."
            )

    @abstractmethod
    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Operator:
        """Choose the operator from the codes and counts of a table. Do not read files, print, or apply the operator."""

    def strengthen(self, operator: Operator) -> Operator | None:
        """The next stronger operator, if a requirement fails for the published records; None if there is none."""
        return None

    def describe_operator(self, operator: Operator) -> str:
        """The parameters that give an operator, for the error of a requirement that no operator meets (default: none)."""
        return ""

    def note_release(self, operator: Operator, attack: Callable[[], Attack]) -> tuple[str, ...]:
        """Notes for every reader on what the release promises; ``attack`` computes what an adversary achieves."""
        return ()

    def release(self, data: Any, *, seed: int | None = None, progress: Progress | None = None) -> Release:
        """Randomize a table, test the operator, and measure the result; see `Method.release`."""
        return run_randomizing(self, data, seed=seed, progress=progress)


def list_constructor_parameters(method: type[Method]) -> dict[str, inspect.Parameter]:
    """The constructor parameters of a method and its base classes, in the order of definition."""
    found: dict[str, inspect.Parameter] = {}
    for kind in reversed(method.__mro__):
        if "__init__" in vars(kind) and kind is not object:
            signature = inspect.signature(vars(kind)["__init__"])
            found |= {n: p for n, p in signature.parameters.items() if p.kind is p.KEYWORD_ONLY or n == "policy"}
    return found


def make_method(method: type[Method], policy: Policy, parameters: Mapping[str, Any]) -> Method:
    """Create a method from parameters by name; `PolicyError` lists the allowed names if one is unknown."""
    allowed = [n for n in list_constructor_parameters(method) if n != "policy"]
    for name in parameters:
        if name not in allowed:
            choices = list_choices(name, allowed) if allowed else "it has no parameters at all, so remove it"
            raise PolicyError(f"{method.name} has no parameter {name!r}; {choices}")
    return method(policy, **parameters)


def parse_weights(codes: Codes, given: Mapping[str, float] | str | None, parameter: str = "weights") -> FloatArray:
    """The weight of each attribute, from weights by column name; the default weight is 1, and 0 is allowed.

    The command line passes text: ``age=2,zip=0.5`` or ``age:2,zip:0.5``. Errors name the ``parameter``.
    """
    names = [a.name for a in codes.attributes]
    weights = np.ones(len(names))
    if isinstance(given, str):
        given = _split_weights(given, parameter)
    if given is not None and not isinstance(given, Mapping):
        raise PolicyError(
            f"{parameter} must be numbers by column name, such as {{{names[0]!r}: 2}} or the text '{names[0]}=2', not "
            f"{given!r}."
        )
    for name, value in (given or {}).items():
        if name not in names:
            verb = "name" if parameter.endswith("s") else "names"
            raise PolicyError(f"{parameter} {verb} {name!r}, which is no quasi-identifier; {list_choices(name, names)}")
        weight = parse_real_number(value, f"the {parameter.removesuffix('s')} of {name!r}")
        if weight < 0:
            raise PolicyError(f"the {parameter.removesuffix('s')} of {name!r} must be at least 0, not {value!r}.")
        weights[names.index(name)] = weight
    return weights


def _split_weights(text: str, parameter: str) -> dict[str, Any]:
    """Weights by column name, from ``name=weight`` or ``name:weight`` pairs separated by commas."""
    found: dict[str, Any] = {}
    for part in filter(str.strip, text.split(",")):
        at = max(part.rfind("="), part.rfind(":"))
        name = part[: max(at, 0)].strip()
        if not name or name in found:
            raise PolicyError(f"{parameter} must be NAME=NUMBER, once per column, separated by commas, not {text!r}.")
        found[name] = part[at + 1 :].strip()
    return found
