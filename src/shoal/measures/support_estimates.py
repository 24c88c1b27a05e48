"""Supports of combinations of values in the original table, estimated from its randomized release."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from shoal.arrays import FloatArray, Int64Array
from shoal.engines import Engine
from shoal.errors import DataError, PolicyError, escape_invisible, explain_unknown_column, list_choices
from shoal.formats.html_text import render_table, render_view
from shoal.measures.conditions import is_too_large
from shoal.measures.corrected_supports import CorrectedSupports
from shoal.measures.counted_values import Combination, CountedValues, Labels
from shoal.mining.itemsets import SHOWN
from shoal.policy import Policy
from shoal.recoding import Randomize, SelectionOperator


class TableRelease(Protocol):
    """The parts of a release of a table that are read here."""

    @property
    def policy(self) -> Policy:
        """The policy."""
        ...

    @property
    def engine(self) -> Engine:
        """The engine with the released table."""
        ...

    @property
    def frame(self) -> Any:
        """The released table."""
        ...

    @property
    def method(self) -> str:
        """The name of the method."""
        ...

    @property
    def recoding(self) -> Any:
        """The recoding."""
        ...


@dataclass(frozen=True)
class Supports:
    """The supports of combinations of values, as shares of the records.

    ``combinations`` are the values by column, ``length`` the number of their quasi-identifiers. ``raw`` are the published
    supports, ``unbiased`` the estimates of the original ones (NaN where there is none) with their standard ``error``, and
    ``clipped`` the estimates that are used in mining.
    """

    combinations: tuple[Mapping[str, str | None], ...]
    length: Int64Array
    raw: FloatArray
    unbiased: FloatArray
    clipped: FloatArray
    error: FloatArray
    records: int

    def __len__(self) -> int:
        return len(self.combinations)

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns by name, such as for ``pandas.DataFrame``."""
        figures = {name: getattr(self, name).tolist() for name in ("length", "raw", "unbiased", "clipped", "error")}
        return {"combination": [dict(c) for c in self.combinations], **figures}

    def __str__(self) -> str:
        head = ("raw", "unbiased", "error", "clipped")
        lines = ["".join(f"{word:>11}" for word in head) + "  combination"]
        lines += ["".join(f"{text:>11}" for text in figures) + f"  {name}" for name, *figures in self._describe()]
        return "\n".join([self._title, *lines, *self._more()])

    def _repr_html_(self) -> str:
        head = ("combination", "raw", "unbiased", "standard error", "clipped")
        rest = [f"<p>{line.strip()}</p>" for line in self._more()]
        return render_view(self._title, render_table("supports", head, self._describe()), *rest)

    @property
    def _title(self) -> str:
        return f"{len(self):,} combination{'s' * (len(self) != 1)} of {self.records:,} records"

    def _more(self) -> list[str]:
        return [f"  … and {len(self) - SHOWN:,} more"] if len(self) > SHOWN else []

    def _describe(self) -> list[tuple[str, ...]]:
        """The first combinations and their figures in words."""
        figures = np.stack([self.raw, self.unbiased, self.error, self.clipped], axis=1)[:SHOWN].tolist()
        return [
            (name_values(c.items()), *("–" if np.isnan(v) else f"{100 * v:.2f} %" for v in row))
            for c, row in zip(self.combinations, figures, strict=False)
        ]


def name_values(values: Iterable[tuple[str, str | None]]) -> str:
    """Values by column as text."""
    return escape_invisible(", ".join(f"{name}={'(missing)' if v is None else v}" for name, v in values))


def supports(
    release: TableRelease,
    combinations: Iterable[Mapping[str, Any]] | None = None,
    *,
    support: float | str = 0.01,
    longest: int | None = None,
    sensitive: str | Sequence[str] | None = None,
) -> Supports:
    """Estimate how many of the original records have some combinations of values, from a randomized release.

    Parameters
    ----------
    release : a release of the method ``random``
    combinations : values by column, such as ``[{"sex": "Male", "disease": "flu"}]``; None is a missing value. Quasi-identifiers
        and columns that are released unchanged may be named. Default: the frequent combinations of the released table
    support, longest : for the default: the least support of a frequent combination in the released table (or a whole number of
        records above 1), and the largest number of its values
    sensitive : for the default: the unchanged columns whose values are in combinations (default: the sensitive columns)

    Returns
    -------
    For every combination:

    - ``raw``: its support in the released table.
    - ``unbiased``: an estimate of its support in the original table, from the supports of its sub-combinations and the known
      probabilities of the changes. Over all random draws, its mean is the original support. It exists for combinations of at
      most m - λ of the m quasi-identifiers, if λ are replaced; otherwise it is NaN. A single estimate can be below 0.
    - ``error``: the standard error of ``unbiased`` over the random draws, for the fixed original table, as estimated from the
      released table. NaN where ``unbiased`` is.
    - ``clipped``: ``unbiased``, or ``raw`` where there is none, but at least 0 and at most the smallest ``clipped`` support
      of the combinations with one value less. So a longer combination is never more frequent than a shorter one. It is biased.

    Guarantee
    ---------
    None. The estimates use the shares of the values in the original table, which the owner has.

    References
    ----------
    Yang, Qiao: Anonymizing data by random anonymization, section 5. The paper reads supports as they are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import shoal
    >>> table = pa.table({"sex": ["f", "m"] * 500, "job": ["cook", "smith"] * 500, "ill": ["yes", "no"] * 500})
    >>> policy = shoal.Policy(quasi={"sex": "categorical", "job": "categorical"}, sensitive=["ill"])
    >>> release = shoal.anonymize(table, policy, method="random", attributes=1, seed=2)
    >>> print(supports(release, [{"sex": "f", "ill": "yes"}, {"sex": "f", "job": "cook"}]))
    2 combinations of 1,000 records
            raw   unbiased      error    clipped  combination
        36.60 %    48.20 %     1.94 %    48.20 %  sex=f, ill=yes
        22.90 %          –          –    22.90 %  sex=f, job=cook
    """
    check_release(release, "supports")
    operator = _find_operator(release)
    if combinations is not None and not isinstance(combinations, Iterable):
        raise DataError(f"combinations is a list of mappings from columns to values, not {combinations!r}.")
    given = None if combinations is None else list(combinations)
    published, shares = count_randomized(release, operator, _name_others(release, given, sensitive))
    if given is None:
        chosen = list(published.mine(support, longest))
    else:
        chosen = [_parse_combination(published, release.policy, values) for values in given]
    computed = CorrectedSupports(operator, published, shares)
    at = computed.add(chosen)
    items = [[published.items[i] for i in c] for c in chosen]
    return Supports(
        tuple({item.column: item.value for item in own} for own in items),
        np.array([int((np.array(c) < published.first[published.quasi]).sum()) for c in chosen], np.int64),
        computed.raw[at],
        computed.unbiased[at],
        computed.clipped[at],
        computed.error[at],
        published.records,
    )


def check_release(release: Any, function: str) -> None:
    """Raise an error for anything but the release of a table, such as its frame or the path of a file."""
    if not isinstance(getattr(release, "policy", None), Policy) or not hasattr(release, "recoding"):
        raise DataError(
            f"{function} needs the release of a table, as shoal.anonymize returns it, not an object of type "
            f"{type(release).__name__}."
        )


def find_selection(release: TableRelease) -> SelectionOperator | None:
    """The operator of a release of the method ``random``, or None."""
    recoding = release.recoding
    is_selection = isinstance(recoding, Randomize) and isinstance(recoding.operator, SelectionOperator)
    return recoding.operator if is_selection else None


def _find_operator(release: TableRelease) -> SelectionOperator:
    operator = find_selection(release)
    if operator is None and isinstance(release.recoding, Randomize):
        raise DataError(
            f"the release was made by {release.method!r}; supports can be corrected for the method 'random' only."
        )
    if operator is None and (release.method == "anatomy" or getattr(release, "sensitive", None) is not None):
        raise DataError(
            f"the release was made by {release.method!r}, which separates sensitive values from records; supports can be "
            "corrected for the method 'random' only. shoal.measures.associations reads the expected supports of buckets."
        )
    if operator is None:
        raise DataError(
            f"the release was made by {release.method!r}, which changes no values at random. Its supports can be read from the "
            "table directly, such as by shoal.models.mine_itemsets(release.frame)."
        )
    return operator


def count_randomized(
    release: TableRelease, operator: SelectionOperator, others: Sequence[str]
) -> tuple[CountedValues, tuple[FloatArray, ...]]:
    """The counted values of a randomized table, and the original share of every label of its quasi-identifiers."""
    labels: dict[str, Labels] = {}
    shares = []
    for name, own, share in zip(operator.attributes, release.recoding.labels, operator.shares, strict=True):
        labels[name] = tuple(dict.fromkeys(own))
        place = {label: i for i, label in enumerate(labels[name])}
        shares.append(np.bincount([place[label] for label in own], share, minlength=len(place)).astype(np.float64))
    return (
        CountedValues.of_published(release.engine, release.policy, operator.attributes, others, labels),
        tuple(shares),
    )


def parse_columns(policy: Policy, sensitive: str | Sequence[str] | None) -> tuple[str, ...]:
    """The named columns that are released unchanged (default: the sensitive columns)."""
    names = policy.sensitive if sensitive is None else (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    for name in names:
        if name not in policy.unchanged_columns:
            raise PolicyError(
                f"sensitive names {name!r}, which is not released unchanged; {list_choices(name, policy.unchanged_columns)}"
            )
    return tuple(names)


def _name_others(
    release: TableRelease, combinations: Sequence[Mapping[str, Any]] | None, sensitive: str | Sequence[str] | None
) -> tuple[str, ...]:
    """The unchanged columns of the combinations."""
    if combinations is None:
        return parse_columns(release.policy, sensitive)
    named = {name for given in combinations if isinstance(given, Mapping) for name in given}
    return tuple(name for name in release.policy.unchanged_columns if name in named)


def _parse_combination(published: CountedValues, policy: Policy, given: Any) -> Combination:
    """The numbers of the values of a combination."""
    if not isinstance(given, Mapping) or not given:
        raise DataError(
            f"a combination must have values by column, such as {{{published.columns[0]!r}: 'value'}}, not {given!r}."
        )
    values = []
    for name, value in given.items():
        if name in policy.identifiers:
            raise DataError(f"column {name!r} is an identifier, which is not released. Remove it from the combination.")
        if name not in published.columns:
            raise DataError(explain_unknown_column(str(name), (*policy.quasi, *policy.unchanged_columns)))
        if is_too_large(value):
            raise DataError(f"column {name!r} has no whole number of more than 308 digits. Correct the value.")
        number = published.find(name, value)
        if number is None:
            raise DataError(f"column {name!r} has no value {value!r}. Write the value as the released table does.")
        values.append(number)
    return tuple(sorted(values))
