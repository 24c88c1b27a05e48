"""Lattices of tables that are larger than memory: one search over all partitions, and memory that is known before."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.encoding.codes import encode_and_count
from shoal.engines import open_data
from shoal.engines.resources import CELL
from shoal.tables.lattice_objective import OBJECTIVES
from shoal.tables.lattice_search import LevelLattice
from tests.support.cases import lists_of
from tests.support.outcomes import Outcome, counted

TREES: dict[str, Any] = {
    "job": {"ANY": {"Office": ["clerk", "manager"], "Field": {"Land": ["farmer", "miner"], "Sea": ["sailor"]}}},
    "city": {"ANY": {"North": ["Oulu", "Turku"], "South": {"Italy": ["Rome", "Bari"]}}},
}
VALUES: dict[str, list[Any]] = {
    "job": ["clerk", "manager", "farmer", "miner", "sailor"],
    "city": ["Oulu", "Turku", "Rome", "Bari", None],
    "age": list(range(20, 60, 3)),
    "birth": [f"{year}-{month:02}-11" for year in (1960, 1971, 1999) for month in (1, 2, 12)],
}
ILL = [shoal.LDiversity(2, of="ill"), shoal.LDiversity(2, of="ill", kind="entropy"), shoal.TCloseness(0.4, of="ill")]
SAME = ("loss", "loss_mean", "ncp", "dm", "classes", "smallest", "suppressed", "entropy", "precision")


def draw_table(draw: st.DrawFn) -> tuple[pd.DataFrame, shoal.Policy]:
    rows = draw(st.integers(12, 40))
    names = draw(st.lists(st.sampled_from(list(VALUES)), min_size=2, max_size=3, unique=True))
    frame = pd.DataFrame({n: pd.Series(draw(lists_of(VALUES[n], rows)), dtype=object) for n in names})
    if "age" in names:
        frame["age"] = frame["age"].astype("int64")
    frame["ill"] = draw(lists_of(["flu", "cold", "gout"], rows))
    kinds: dict[str, Any] = {
        "age": draw(st.sampled_from(["numeric", {"widths": [5, 10]}])),
        "birth": {"date": ["month", "year", "decade"]},
    }
    policy = shoal.Policy(
        quasi={n: kinds.get(n) or {"taxonomy": TREES[n]} for n in names},
        sensitive=["ill"],
        require=[shoal.KAnonymity(draw(st.integers(1, 4))), *draw(st.sampled_from([[], *([r] for r in ILL)]))],
        suppress=draw(st.sampled_from([0.0, 0.1, 0.4])),
    )
    return frame, policy


def sort_rows(frame: Any) -> list[tuple[str, ...]]:
    """The rows of a frame or of a relation of DuckDB, without the order of the rows."""
    table = frame.df() if hasattr(frame, "df") else frame
    rows = table[[n for n in (*VALUES, "ill") if n in table.columns]].astype(object).to_numpy().tolist()
    return sorted(tuple("" if pd.isna(value) else str(value) for value in row) for row in rows)


def find_best(frame: pd.DataFrame, policy: shoal.Policy, base: tuple[int, ...]) -> float:
    """The least loss of all nodes from some levels upward, counted from the whole table."""
    codes = encode_and_count(open_data(frame), policy)[0]
    lattice = LevelLattice.of(codes, policy, OBJECTIVES["loss"])
    nodes = product(*(range(low, high + 1) for low, high in zip(base, lattice.top, strict=True)))
    found = [lattice.check(node) for node in nodes]
    scores = [c.score for c in found if c.holds and c.suppressed <= lattice.limit]
    return lattice.objective.measure(min(scores, default=np.inf), len(base))


@settings(max_examples=max(settings.default.max_examples // 2, 10))
@given(table=st.composite(draw_table)(), combinations=st.integers(1, 12))
@counted
def test_partitions_are_searched_as_one_table(table: tuple[pd.DataFrame, shoal.Policy], combinations: int) -> Outcome:
    """The chosen node is the best from the counted levels upward, and its release is that of a table in memory."""
    frame, policy = table
    method = shoal.tables.FullDomain(policy)
    limits = shoal.engines.parse_resources("duckdb", combinations=combinations)
    try:
        release = method.release(open_data(frame, policy.with_conventions(limits)), seed=1)
    except shoal.RequirementNotMet:
        with pytest.raises(shoal.RequirementNotMet):
            shoal.anonymize(frame, policy, method="optimal", seed=1)
        return "not met"
    lattice = method.lattice_
    chosen = lattice.chosen
    assert chosen is not None and release.certificate.holds and release.certificate.parts == 1
    base = tuple(lattice.base.values())
    assert lattice.find(chosen).loss == pytest.approx(find_best(frame, policy, base))
    expected = shoal.anonymize(frame, policy, method="optimal", levels=chosen, seed=1)
    assert sort_rows(release.frame) == sort_rows(expected.frame)
    for name in SAME:
        assert release.measures[name] == pytest.approx(expected.measures[name]), name
    assert type(release.recoding) is type(expected.recoding)
    assert release.recoding.to_json() == expected.recoding.to_json()
    return None if any(base) else "all levels fit"


PEOPLE = pd.DataFrame(
    {
        "job": [VALUES["job"][i * i % 5] for i in range(200)],
        "city": [VALUES["city"][i * 7 % 4] for i in range(200)],
        "age": [20 + i * 13 % 37 for i in range(200)],
        "ill": ["flu", "cold", "gout", "flu"] * 50,
        "who": [f"p{i % 70}" for i in range(200)],
    }
)


def people_policy(**more: Any) -> shoal.Policy:
    quasi = {"job": {"taxonomy": TREES["job"]}, "city": {"taxonomy": TREES["city"]}, "age": {"widths": [5, 10, 20]}}
    return shoal.Policy(**{"quasi": quasi, "require": [shoal.KAnonymity(4)], "suppress": 0.05, **more})


LATTICE_METHODS = ("optimal", "samarati", "datafly", "incognito", "k-optimize", "genetic", "annealing")


@pytest.mark.parametrize("method", LATTICE_METHODS)
def test_every_method_has_one_cut_for_all_partitions(method: str) -> None:
    release = shoal.anonymize(PEOPLE, people_policy(), method=method, engine="duckdb", combinations=30, seed=1)
    assert release.certificate.holds and release.certificate.parts == 1 and release.recoding.kind == "cut"
    (note,) = [text for text in release.method_notes if text.startswith("The table has more combinations")]
    assert "partitions one after another" in note
    assert "The search began at these levels: " in note and "'age' " in note
    later = release.recoding.apply(PEOPLE)
    assert sort_rows(later) == sort_rows(release.frame)


def test_relative_requirements_are_possible_in_partitions() -> None:
    policy = people_policy(sensitive=["ill"], require=[shoal.TCloseness(0.3, of="ill")])
    release = shoal.anonymize(PEOPLE, policy, method="optimal", engine="duckdb", combinations=30, seed=1)
    assert release.certificate.holds
    with pytest.raises(shoal.PolicyError, match="cannot be guaranteed for a table that is searched in partitions"):
        shoal.anonymize(PEOPLE, policy, method="mondrian", engine="duckdb", combinations=30, seed=1)


@pytest.mark.parametrize(
    ("given", "unit"), [({"improve": True}, None), ({"recode_suppressed": True}, None), ({}, "who")], ids=str
)
def test_local_recodings_and_people_are_searched_by_partition(given: dict[str, Any], unit: str | None) -> None:
    policy = people_policy() if unit is None else people_policy(unit=unit)
    release = shoal.anonymize(PEOPLE, policy, method="optimal", engine="duckdb", combinations=30, seed=1, **given)
    assert release.certificate.holds and release.certificate.parts > 1


def test_given_levels_are_counted_or_refused() -> None:
    levels = {"job": 0, "age": 3}
    release = shoal.anonymize(
        PEOPLE, people_policy(), method="optimal", levels=levels, engine="duckdb", combinations=30, seed=1
    )
    expected = shoal.anonymize(PEOPLE, people_policy(), method="optimal", levels=levels, seed=1)
    assert sort_rows(release.frame) == sort_rows(expected.frame)
    with pytest.raises(shoal.PolicyError, match=r"the level of 'age' must be from 0 .* not 9"):
        shoal.anonymize(
            PEOPLE, people_policy(), method="optimal", levels={"age": 9}, engine="duckdb", combinations=30, seed=1
        )


def test_an_unreachable_requirement_says_how_far_it_is() -> None:
    policy = people_policy(sensitive=["ill"], require=[shoal.LDiversity(4, of="ill")], suppress=0)
    with pytest.raises(shoal.RequirementNotMet, match="the whole table as one group reaches 3 distinct values"):
        shoal.anonymize(PEOPLE, policy, method="optimal", engine="duckdb", combinations=30, seed=1)


def test_a_search_that_needs_more_than_the_memory_begins_at_higher_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cells fit, but the search needs more bytes for each of them than other methods do."""
    monkeypatch.setattr("shoal.engines.resources.LEAST", 1)
    policy = people_policy(sensitive=["ill"], require=[shoal.LDiversity(2, of="ill")])
    cells = len(PEOPLE.assign(age=PEOPLE["age"] // 5).drop(columns="who").drop_duplicates())
    bound = shoal.tables.FullDomain(policy).bound_memory(len(PEOPLE), values=3)
    for memory, begins_higher in ((2 * CELL * cells, True), (2 * bound.bytes, False)):
        release = shoal.anonymize(PEOPLE, policy, method="optimal", engine="duckdb", memory=memory, seed=1)
        notes = [text for text in release.method_notes if "The search began at these levels" in text]
        assert release.certificate.parts == 1 and bool(notes) == begins_higher


def test_the_bound_on_memory_needs_no_data() -> None:
    trees = shoal.Policy(quasi={n: {"taxonomy": t} for n, t in TREES.items()}, require=[shoal.KAnonymity(2)])
    bound = shoal.tables.FullDomain(trees).bound_memory(10**9)
    assert bound.groups == (5 + 1) * (4 + 1)  # every column can have missing values
    assert bound.bytes == bound.groups * (60 + 2 * 40)
    assert shoal.tables.Incognito(trees).bound_memory(7).groups == 7
    diverse = people_policy(sensitive=["ill"], require=[shoal.LDiversity(2, of="ill")])
    unknown = shoal.tables.FullDomain(diverse).bound_memory(1000, values=3)
    assert unknown == (1000, 1000 * (60 + 3 * 40 + 3 * 125))
    with pytest.raises(shoal.PolicyError, match="rows"):
        shoal.tables.FullDomain(trees).bound_memory(-1)
