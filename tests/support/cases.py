"""Tables and policies for the tests: small, odd, with missing values, duplicate rows and any index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import assume, settings
from hypothesis import strategies as st

import shoal
from tests.reference.requirements import passes
from tests.support.ways import list_needs, list_requirements

TREES = {
    "job": {"ANY": {"Office": ["clerk", "manager"], "Field": {"Land": ["farmer", "miner"], "Sea": ["sailor"]}}},
    "city": {"ANY": {"North": {"Far": ["Oulu"]}, "South": ["Rome", "Bari"]}},
}
ILLNESS = {"ANY": {"Infection": ["flu", "cold"], "Metabolism": ["gout"]}}
MORE = [shoal.TCloseness(0.3, of="illness", distance="hierarchical", taxonomy=ILLNESS)]  # needs a tree of the test
MADE = {"numeric": {"kind": "numeric", "balanced": 3}, "date": {"date": ["day", "month", "year"]}}


COLUMNS = ["age", "job", "city", "sex", "zip", "birth", "score", "seen"]
FEW = 4  # columns that show every pair of kinds; a release takes time for each, and some searches for all combinations
KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "pandas": lambda frame: frame,
    "polars": lambda frame: pl.from_arrow(pa.Table.from_pandas(frame, preserve_index=False)),
}


@dataclass(frozen=True)
class Case:
    frame: Any
    policy: shoal.Policy

    def of_kind(self, kind: str) -> Case:
        """The same table in another kind of frame; pyarrow is the fastest."""
        return Case(KINDS[kind](self.frame), self.policy)


def is_thorough() -> bool:
    """Whether this run tries large examples too."""
    return settings.default.max_examples > 12


def lists_of(values: Sequence[object], count: int) -> st.SearchStrategy[list[object]]:
    """Lists of ``count`` of the values: hypothesis draws one text of bytes much faster than ``count`` values one by one."""
    return st.binary(min_size=count, max_size=count).map(lambda drawn: [values[byte % len(values)] for byte in drawn])


def orders_of(count: int) -> st.SearchStrategy[list[int]]:
    """Orders of ``count`` records, drawn at once like `lists_of`."""
    drawn = st.binary(min_size=count, max_size=count)
    return drawn.map(lambda keys: sorted(range(count), key=keys.__getitem__))


@st.composite
def cases(draw: st.DrawFn, *, secrets: bool = True, least: int = 1, most: int = 40) -> Case:
    rows = draw(st.integers(least, most))
    holes = draw(st.booleans())
    columns: dict[str, list[object]] = {}
    quasi: dict[str, object] = {}

    def column(values: Sequence[object]) -> list[object]:
        cells = [*values, *[None] * len(values)] if holes else values
        return draw(lists_of(cells, rows))

    kinds = draw(
        st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=len(COLUMNS) if is_thorough() else FEW, unique=True)
    )
    for kind in kinds:
        if kind == "age":
            ways = ["numeric", {"kind": "numeric", "widths": [5, 10]}, {"kind": "numeric", "boundaries": [22, 25, 28]}]
            columns[kind] = column(range(20, 31))
            ways += [{**ways[1], "ranges": 10}, {**ways[2], "ranges": False}, {"kind": "numeric", "round": 4}]
            quasi[kind] = draw(st.sampled_from([*ways, {"kind": "numeric", "balanced": 3}]))
        elif kind == "score":
            columns[kind] = column(
                draw(st.sampled_from([[-0.5, 0.0, -0.0, 0.1, 3.0, 1e6], [0.25, 3.14159, 3.0, -17.125]]))
            )
            more = [{"kind": "numeric", "round": 0.1}, {"kind": "numeric", "balanced": 2}]
            quasi[kind] = draw(st.sampled_from(["numeric", {"bounds": [-20, 2e6]}, *more]))
        elif kind == "sex":
            columns[kind] = column(["f", "m", "x"])
            quasi[kind] = draw(st.sampled_from(["categorical", {"balanced": 2}]))
        elif kind == "zip":
            columns[kind], quasi[kind] = column(["01234", "01235", "99", "47906"]), {"mask": "right"}
        elif kind == "birth":
            columns[kind] = column(["1985-05-30", "1985-06-01", "1990-01-01", "2001-12-31"])
            parts = [{"date": ["day", "month", "year"]}, {"date": ["month", "year"]}]
            more = [{**parts[0], "ranges": "year"}, {**parts[0], "ranges": "day"}, {"kind": "date", "round": "none"}]
            quasi[kind] = draw(st.sampled_from(["date", *parts, *more]))
        elif kind == "seen":
            columns[kind] = column(["2024-02-29T23:59:59", "2024-03-01", "2024-03-01T10:20:30", "2023-12-31T08:00:00"])
            quasi[kind] = draw(st.sampled_from(["date", {"kind": "date", "round": "day"}]))
        else:
            leaves = list(shoal.Taxonomy.from_nested(TREES[kind]).leaves)
            columns[kind] = column(leaves)
            quasi[kind] = {"taxonomy": TREES[kind], "ordered": draw(st.booleans())}
    columns["illness"] = column(["flu", "cold", "gout"])
    target = draw(st.sampled_from([None, "illness", "grade", *kinds]))
    if target == "grade":
        columns["grade"] = column(["low", "high"])
    columns["note"] = [f"n{i}" for i in range(rows)]

    frame = pd.DataFrame(columns)
    frame.index = pd.Index(draw(orders_of(rows)))
    some = st.lists(st.sampled_from(kinds), min_size=1, unique=True)
    require: list[object] = [shoal.KAnonymity(draw(st.integers(1, min(5, rows))), on=draw(st.none() | some))]
    if draw(st.booleans()):
        require.append(shoal.KAnonymity(draw(st.integers(1, min(7, rows))), on=draw(some)))
    if secrets and rows > 1 and draw(st.booleans()):
        columns["illness"][0] = "gout"  # so that it can be asked for
        frame.loc[:, "illness"] = columns["illness"]
        asked = draw(st.sampled_from([r for r in (*list_requirements("illness"), *MORE) if r.least <= rows]))
        require.append(replace(asked, on=draw(st.none() | some)))
    suppress = draw(st.sampled_from([0.0, 0.0, 0.1, 0.4, 1.0]))
    policy = shoal.Policy(
        quasi=quasi,
        sensitive=["illness"],
        target=target,
        keep=["note"],
        accept={"note": "a test"},
        require=require,
        suppress=suppress,
    )
    return Case(frame, policy)


def recount(frame: pd.DataFrame, columns: list[str]) -> pd.Series:
    """The size of every group, by plain pandas, missing values counted."""
    if not columns:
        return pd.Series([len(frame)])
    return frame.groupby(columns, dropna=False, observed=True).size()


def holds(frame: pd.DataFrame, policy: shoal.Policy) -> bool:
    """Every requirement, recounted by plain pandas and loops, independent of the package's own code."""
    return all(_holds(frame, list(policy.quasi), requirement) for requirement in policy.require)


def _holds(frame: pd.DataFrame, quasi: list[str], requirement: object) -> bool:
    columns = [column for name in requirement.on or quasi for column in _published(frame, name)]
    if requirement.of is None:  # a requirement on sizes; those of other packages state their least size
        least = requirement.k if isinstance(requirement, shoal.KAnonymity) else requirement.least
        return bool((recount(frame, columns) >= least).all())
    everyone = [None if pd.isna(v) else v for v in frame[requirement.of]]
    groups = frame.assign(secret_=everyone).groupby(columns, dropna=False, observed=True)["secret_"]
    return all(passes(requirement, [None if pd.isna(v) else v for v in group], everyone) for _, group in groups)


def _published(frame: pd.DataFrame, name: str) -> list[str]:
    """The columns of a quasi-identifier: one, or its two ends."""
    return [name] if name in frame else [f"{name}_lo", f"{name}_hi"]


def suited(case: Case, method: str, parameters: Mapping[str, Any] | None = None) -> Case:
    """The case with what the method needs of its policy; see `shoal.pipeline.method.Method.list_needs`."""
    given = parameters or {}
    needs, policy = list_needs(method, given), case.policy
    changes: dict[str, Any] = {}
    counts_classes = given.get("objective") == "cm"  # then the target is no quasi-identifier
    if "target" in needs and (policy.target is None or (counts_classes and policy.target in policy.quasi)):
        changes["target"] = policy.sensitive[0]
    if "truly sensitive" in needs:
        changes["truly_sensitive"] = {policy.sensitive[0]: ["gout"]}
    if "no suppression" in needs:
        changes["suppress"] = 0.0
    if "no unit" in needs:
        changes["unit"] = None
    if "trees" in needs:
        plain = {name: q for name, q in policy.quasi.items() if q.kind != "categorical" and q.tree_builder is None}
        trees = {name: type(q).model_validate(MADE[q.kind]) for name, q in plain.items()}
        changes["quasi"] = {**policy.quasi, **trees}
    fitting = Case(case.frame, policy.model_copy(update=changes)) if changes else case
    return without_rounding(fitting) if "exact ends" in needs else fitting


def averaged(case: Case) -> Case:
    """Means and medians need groups of at least 3 records."""
    assume(len(case.frame) >= 3)
    require = (*case.policy.require, shoal.KAnonymity(3))
    return Case(case.frame, case.policy.model_copy(update={"require": require}))


def without_rounding(case: Case) -> Case:
    """The same table with exact ends of ranges and exact averages."""
    plain = {n: q for n, q in case.policy.quasi.items() if q.has_ends}
    exact = {name: quasi.model_copy(update={"round": "none"}) for name, quasi in plain.items()}
    return Case(case.frame, case.policy.model_copy(update={"quasi": {**case.policy.quasi, **exact}}))


def stayed(case: Case, release: shoal.Release) -> pd.DataFrame:
    """The records that were not suppressed, as they were."""
    return raws_of(case, release.frame)


def raws_of(case: Case, frame: pd.DataFrame) -> pd.DataFrame:
    """The original records of the rows of a release."""
    return case.frame[case.frame["note"].isin(frame["note"])]


def released(case: Case, method: str, parameters: dict[str, object]) -> shoal.Release | None:
    """A release, or None where nothing meets the requirement."""
    try:
        return shoal.anonymize(case.frame, case.policy, method=method, **parameters)
    except shoal.RequirementNotMet:
        return None


def as_rows(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    """The rows of a table in no order."""
    return sorted(tuple("" if pd.isna(v) else str(v) for v in row) for row in frame.itertuples(index=False))


def list_rows(frame: pd.DataFrame) -> list[tuple[object, ...]]:
    """The rows of a table in their order, with None for missing values."""
    plain = frame.astype(object).where(frame.notna(), None)
    return list(plain.itertuples(index=False, name=None))


def covers(label: object, raw: object, quasi: object) -> bool:
    """Whether a label may stand for a value."""
    if label == "*":
        return True
    if pd.isna(label) or pd.isna(raw):
        return bool(pd.isna(label) and pd.isna(raw))
    if str(label).startswith("{") and " … " not in str(label):  # a set lists its values
        return any(covers(member, raw, quasi) for member in str(label)[1:-1].split(", "))
    if quasi.taxonomy is not None:
        tree = quasi.taxonomy
        code = tree.leaves.index(raw)
        first, _, last = str(label).partition(" – ")
        begins = [tree.lo[n] for n, name in enumerate(tree.label) if name == first]
        ends = [tree.hi[n] for n, name in enumerate(tree.label) if name == (last or first)]
        return any(begin <= code for begin in begins) and any(code <= end for end in ends)
    if quasi.balanced and quasi.kind == "categorical":
        first, last = str(label).strip("{}").split(" … ") if " … " in str(label) else (label, label)
        return first <= raw <= last
    if quasi.date:
        first, _, last = str(label).partition(" – ")
        return first <= raw[: len(first)] and raw[: len(last or first)] <= (last or first)
    if quasi.mask:
        return str(raw).startswith(str(label).rstrip("*")) and len(raw) == len(label)
    if not str(label).startswith(("[", "(")):
        return float(raw) == float(label) if quasi.kind == "numeric" else raw == label
    low, high = str(label)[1:-1].split(", ")
    if quasi.kind == "date":
        return low <= raw < high if str(label).endswith(")") else low <= raw <= high
    if str(label).endswith(")"):
        return float(low) <= float(raw) < float(high)
    return float(low) <= float(raw) <= float(high)
