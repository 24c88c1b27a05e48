"""Full-domain generalization: the optimum against brute force, levels, the lattice after the search, and bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.encoding.codes import encode_and_count
from shoal.engines import open_data
from shoal.tables import lattice_arrays, lattice_search
from shoal.tables.lattice_objective import OBJECTIVES
from shoal.tables.lattice_search import LatticeSearch, LevelLattice
from tests.reference.full_domain import Tree, Twin
from tests.support.cases import lists_of
from tests.support.outcomes import Outcome, counted

TREES: dict[str, list[Any]] = {
    "job": [
        {"ANY": {"Office": ["clerk", "manager"], "Field": {"Land": ["farmer", "miner"], "Sea": {"Ship": ["sailor"]}}}},
        {"ANY": {"Work": {"Desk": ["clerk", "manager"], "Hand": ["farmer", "miner", "sailor"]}}},
        {"ANY": ["clerk", "manager", "farmer", "miner", "sailor"]},
    ],
    "city": [
        {"ANY": {"North": {"Far": ["Oulu"]}, "South": ["Rome", "Bari"]}},
        {"ANY": {"Cold": ["Oulu"], "Warm": ["Rome", "Bari", "Nice"]}},
    ],
    "sex": [{"ANY": ["f", "m"]}],
}
VALUES = {"job": ["clerk", "manager", "farmer", "miner", "sailor"], "city": ["Oulu", "Rome", "Bari"], "sex": ["f", "m"]}
ILL = [
    shoal.LDiversity(2, of="ill"),
    shoal.LDiversity(2, of="ill", kind="entropy"),
    shoal.LDiversity(2, of="ill", kind="recursive", c=3.0),
    shoal.TCloseness(0.4, of="ill"),
    shoal.AlphaKAnonymity(0.6, k=2, of="ill") if hasattr(shoal, "AlphaKAnonymity") else shoal.TCloseness(0.2, of="ill"),
]


def draw_table(draw: st.DrawFn) -> tuple[pd.DataFrame, shoal.Policy]:
    rows = draw(st.integers(2, 26))
    names = draw(st.lists(st.sampled_from(list(TREES)), min_size=1, max_size=3, unique=True))
    frame = pd.DataFrame({name: draw(lists_of(VALUES[name], rows)) for name in names})
    frame["ill"] = draw(lists_of(["flu", "cold", "gout"], rows))
    frame["grade"] = draw(lists_of(["low", "high"], rows))
    require: list[Any] = [shoal.KAnonymity(draw(st.integers(1, min(4, rows))))]
    some = st.lists(st.sampled_from(names), min_size=1, unique=True)
    more = draw(st.sampled_from(["none", "k", "ill", "ill on"]))
    if more == "k":
        require = [shoal.KAnonymity(r.k, on=draw(some)) for r in (*require, shoal.KAnonymity(min(3, rows)))]
    elif more != "none":
        asked = draw(st.sampled_from(ILL))
        require.insert(
            draw(st.integers(0, 1)), type(asked)(**{**vars(asked), "on": draw(some) if more == "ill on" else None})
        )
    policy = shoal.Policy(
        quasi={name: {"taxonomy": draw(st.sampled_from(TREES[name]))} for name in names},
        sensitive=["ill"],
        target="grade",
        require=require,
        suppress=draw(st.sampled_from([0.0, 0.1, 0.3])),
    )
    return frame, policy


tables = st.composite(draw_table)


def twin_of(frame: pd.DataFrame, policy: shoal.Policy) -> Twin:
    names = list(policy.quasi)
    return Twin(
        [tuple(row) for row in frame[names].to_numpy().tolist()],
        [Tree.of(policy.quasi[name].taxonomy.to_nested()) for name in names],
        names,
        policy.require,
        policy.suppress,
        list(frame["ill"]),
        list(frame["grade"]),
    )


@pytest.mark.parametrize("objective", list(OBJECTIVES))
@given(table=tables())
@counted
def test_the_optimum_equals_brute_force(table: tuple[pd.DataFrame, shoal.Policy], objective: str) -> Outcome:
    frame, policy = table
    twin = twin_of(frame, policy).best(objective)
    method = shoal.tables.FullDomain(policy, objective=objective)
    try:
        release = method.release(frame, seed=1)
    except shoal.RequirementNotMet:
        assert twin is None
        return "not met"
    assert twin is not None
    node, value = twin
    assert release.measures[objective] == pytest.approx(value)
    assert tuple(method.lattice_.chosen.values()) == node
    assert method.lattice_.find(method.lattice_.chosen).loss == pytest.approx(value)
    return None


@given(table=tables(), objective=st.sampled_from(list(OBJECTIVES)))
@counted
def test_incognito_finds_all_minimal_nodes(table: tuple[pd.DataFrame, shoal.Policy], objective: str) -> Outcome:
    frame, policy = table
    twin = twin_of(frame, policy)
    method = shoal.tables.Incognito(policy, objective=objective)
    try:
        release = method.release(frame, seed=1)
    except shoal.RequirementNotMet:
        assert not twin.minimal()
        return "not met"
    minimal = [tuple(node.values()) for node in method.minimal_]
    assert minimal == twin.minimal()
    node, value = twin.best(objective, minimal)
    assert release.measures[objective] == pytest.approx(value)
    assert tuple(method.lattice_.chosen.values()) == node
    return None


@given(table=tables(), objective=st.sampled_from(list(OBJECTIVES)))
@counted
def test_samarati_finds_the_least_height(table: tuple[pd.DataFrame, shoal.Policy], objective: str) -> Outcome:
    frame, policy = table
    twin = twin_of(frame, policy)
    method = shoal.tables.Samarati(policy, objective=objective)
    try:
        release = method.release(frame, seed=1)
    except shoal.RequirementNotMet:
        assert not twin.anonymous()
        return "not met"
    nodes = list(twin.anonymous())
    lowest = [node for node in nodes if sum(node) == min(map(sum, nodes))]
    node, value = twin.best(objective, lowest)
    assert release.measures[objective] == pytest.approx(value)
    assert tuple(method.lattice_.chosen.values()) == node
    return None


@given(table=tables())
@counted
def test_datafly_generalizes_the_widest_attribute(table: tuple[pd.DataFrame, shoal.Policy]) -> Outcome:
    frame, policy = table
    twin = twin_of(frame, policy)
    anonymous, node = twin.anonymous(), next(twin.nodes())
    while node not in anonymous:
        labels = [{t.ancestor(row[j], node[j]) for row in twin.rows} for j, t in enumerate(twin.trees)]
        raised = [j for j, tree in enumerate(twin.trees) if node[j] < tree.height]
        if not raised:
            break
        widest = max(raised, key=lambda j: (len(labels[j]), -j))
        node = tuple(level + (j == widest) for j, level in enumerate(node))
    method = shoal.tables.Datafly(policy)
    try:
        method.release(frame, seed=1)
    except shoal.RequirementNotMet:
        assert node not in anonymous
        return "not met"
    assert tuple(method.lattice_.chosen.values()) == node
    return None


@given(table=tables(), objective=st.sampled_from(list(OBJECTIVES)))
@counted
def test_a_lattice_without_states_has_the_same_optimum(
    table: tuple[pd.DataFrame, shoal.Policy], objective: str
) -> Outcome:
    """As a lattice with too many nodes for an array; then the bound by blocks holds, too."""
    frame, policy = table
    twin = twin_of(frame, policy).best(objective)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lattice_search, "MOST_STATES", 0)
        patch.setattr(lattice_search, "BLOCK_NODES", 4)
        codes = encode_and_count(open_data(frame), policy, extra=("grade",))[0]
        search = LatticeSearch(LevelLattice.of(codes, policy, OBJECTIVES[objective]))
        search.descend()
        search.climb(None)
        search.bound_blocks(None)
        search.sweep(lambda *_: None, None)
    if twin is None:
        assert search.best is None
        return "not met"
    node, value = twin
    assert search.finished and search.best == node
    assert search.best_measure == pytest.approx(value)
    assert search.block_score <= search.place.best[0] + 1e-9
    return None


@given(
    table=tables(),
    objective=st.sampled_from(list(OBJECTIVES)),
    entries=st.sampled_from([0, 8, 2**24]),
    bits=st.sampled_from([3, 64]),
)
@counted
def test_a_large_table_has_the_same_optimum(
    table: tuple[pd.DataFrame, shoal.Policy], objective: str, entries: int, bits: int
) -> Outcome:
    """As a table with many combinations: sizes are counted first, slice by slice, in an array or by hashing."""
    frame, policy = table
    twin = twin_of(frame, policy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lattice_arrays, "MANY", 0)
        patch.setattr(lattice_arrays, "MOST_DENSE", entries)
        patch.setattr(lattice_arrays, "WORD_BITS", bits)
        patch.setattr(lattice_arrays, "ROWS_PER_ENTRY", 1)
        codes = encode_and_count(open_data(frame), policy, extra=("grade",))[0]
        search = LatticeSearch(LevelLattice.of(codes, policy, OBJECTIVES[objective]))
        search.descend()
        search.sweep(lambda *_: None, None)
        assert not search.stack.dense.any()
        best = twin.best(objective)
        anonymous = twin.anonymous()
        fresh = LatticeSearch(LevelLattice.of(codes, policy, OBJECTIVES[objective]))
        for node in twin.nodes():
            assert fresh.check(node).holds == (node in anonymous)
    if best is None:
        assert search.best is None
        return "not met"
    assert search.finished and search.best == best[0]
    assert search.best_measure == pytest.approx(best[1])
    return None


@given(table=tables())
@counted
def test_the_lattice_has_the_state_of_every_node(table: tuple[pd.DataFrame, shoal.Policy]) -> Outcome:
    frame, policy = table
    twin = twin_of(frame, policy)
    method = shoal.tables.FullDomain(policy)
    try:
        method.release(frame, seed=1)
    except shoal.RequirementNotMet:
        return "not met"
    lattice, anonymous = method.lattice_, twin.anonymous()
    covered = set(twin.nodes())
    assert len(lattice) == len(list(lattice)) and lattice.finished
    assert lattice.bound == lattice.find(lattice.chosen).loss
    for node in lattice:
        levels = tuple(node.levels.values())
        if levels not in covered:
            continue
        if node.state == "anonymous":
            kept = anonymous[levels]
            assert node.suppressed == len(frame) - len(kept)
            assert node.loss == pytest.approx(twin.measure(levels, kept, "loss"))
        elif node.state == "not anonymous":
            assert levels not in anonymous and node.loss is None
        else:
            assert node.state == "pruned" and (node.loss, node.suppressed) == (None, None)
    return None


TREE = {"ANY": {"Office": ["clerk", "manager"], "Field": {"Land": ["farmer", "miner"], "Sea": ["sailor"]}}}
JOBS = ["clerk", "manager", "farmer", "miner", "sailor"] * 4


def jobs(**given: Any) -> shoal.Policy:
    return shoal.Policy(quasi={"job": {"taxonomy": TREE}}, require=shoal.KAnonymity(given.pop("k", 4)), **given)


@pytest.mark.parametrize(
    ("level", "labels"),
    [
        (0, ["clerk", "manager", "farmer", "miner", "sailor"]),
        (1, ["clerk", "manager", "Land", "Land", "Sea"]),
        (2, ["Office", "Office", "Field", "Field", "Field"]),
        (3, ["*"] * 5),
    ],
)
def test_a_leaf_that_is_less_deep_keeps_its_value(level: int, labels: list[str]) -> None:
    method = shoal.tables.FullDomain(jobs(), levels={"job": level})
    release = method.release(pd.DataFrame({"job": JOBS}), seed=1)
    assert list(release.frame["job"])[:5] == labels
    assert method.lattice_.chosen == {"job": level}
    assert release.recoding.kind == "cut"


def test_the_search_chooses_the_levels_that_are_not_given() -> None:
    frame = pd.DataFrame({"job": JOBS, "sex": ["f", "m"] * 10})
    policy = shoal.Policy(quasi={"job": {"taxonomy": TREE}, "sex": "categorical"}, require=shoal.KAnonymity(4))
    for levels, chosen in (
        ("sex=0", {"job": 2, "sex": 0}),
        ({"sex": 1}, {"job": 0, "sex": 1}),
        (None, {"job": 2, "sex": 0}),
    ):
        method = shoal.tables.FullDomain(policy, levels=levels)
        method.release(frame, seed=1)
        assert method.lattice_.chosen == chosen


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"levels": {"jobs": 1}}, "levels name 'jobs', which is no quasi-identifier; choose from 'job'"),
        ({"levels": {"job": 4}}, r"the level of 'job' must be from 0 \(the values\) to 3 \(the root\), not 4"),
        ({"levels": {"job": "high"}}, "the level of 'job' must be a whole number of at least 0, not 'high'"),
        ({"levels": [2]}, r"levels must be numbers by column name, such as {'job': 1}, not \[2\]"),
        ({"objective": "il"}, "unknown value 'il' for 'objective'"),
        ({"objective": "cm"}, "objective='cm' counts the classes of a target"),
        ({"seconds": -1}, "'seconds' must be at least 0"),
    ],
)
def test_wrong_parameters_are_refused(parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(shoal.PolicyError, match=text):
        shoal.anonymize(pd.DataFrame({"job": JOBS}), jobs(), method="optimal", **parameters)


def test_levels_that_fail_say_which_requirement_and_how_far() -> None:
    frame = pd.DataFrame({"job": [*JOBS, "clerk"]})
    text = (
        r"optimal cannot meet k-anonymity \(k = 5\): smallest group has 4 records, 5 required\. With the levels {'job': 0} 16 "
        r"of 21 records would have to be suppressed, and the policy allows 2"
    )
    with pytest.raises(shoal.RequirementNotMet, match=text) as error:
        shoal.anonymize(frame, jobs(k=5, suppress=0.1), method="optimal", levels={"job": 0})
    assert error.value.certificate.smallest == 4


def test_an_unreachable_requirement_says_how_far_it_is() -> None:
    frame = pd.DataFrame({"job": JOBS, "ill": ["flu", "cold"] * 10})
    policy = shoal.Policy(
        quasi={"job": {"taxonomy": TREE}}, sensitive=["ill"], require=shoal.LDiversity(3, of="ill"), suppress=0
    )
    text = r"l-diversity \(l = 3, of = ill\) cannot be met: the whole table as one group reaches 2 distinct values"
    for method in ("optimal", "samarati", "datafly", "incognito"):
        with pytest.raises(shoal.RequirementNotMet, match=text):
            shoal.anonymize(frame, policy, method=method)


def test_numbers_without_a_taxonomy_are_divided_at_quantiles() -> None:
    frame = pd.DataFrame({"age": range(64)})
    method = shoal.tables.FullDomain(shoal.Policy(quasi={"age": "numeric"}, require=shoal.KAnonymity(5)))
    release = method.release(frame, seed=1)
    assert method.lattice_.heights == {"age": 6}  # values, 32, 16, 8, 4 and 2 ranges, the root
    assert method.lattice_.chosen == {"age": 3}
    assert release.measures["loss"] == pytest.approx(method.lattice_.find({"age": 3}).loss)
    assert release.frame["age"].nunique() == 8


def test_people_with_one_record_are_counted_as_records() -> None:
    chance = np.random.default_rng(5)
    frame = pd.DataFrame({"job": chance.choice(JOBS, 60), "sex": chance.choice(["f", "m"], 60), "who": range(60)})
    quasi: Any = {"job": {"taxonomy": TREE}, "sex": "categorical"}
    chosen = []
    for unit in (None, "who"):
        policy = shoal.Policy(quasi=quasi, require=shoal.KAnonymity(6), suppress=0.1, unit=unit)
        method = shoal.tables.FullDomain(policy)
        release = method.release(frame if unit else frame.drop(columns="who"), seed=1)
        chosen.append((method.lattice_.chosen, release.measures["loss"]))
    assert chosen[0] == chosen[1]


def test_seventy_attributes_end_with_the_best_node_of_the_time() -> None:
    chance = np.random.default_rng(0)
    names = [f"q{i}" for i in range(70)]
    frame = pd.DataFrame({name: chance.choice(list("abcd"), 200, p=[0.7, 0.1, 0.1, 0.1]) for name in names})
    tree = {"ANY": {"x": ["a", "b"], "y": ["c", "d"]}}
    policy = shoal.Policy(
        quasi={name: {"taxonomy": tree} for name in names}, require=shoal.KAnonymity(5), suppress=0.05
    )
    method = shoal.tables.FullDomain(policy, seconds=0.5)
    release = method.release(frame, seed=1)
    lattice = method.lattice_
    assert release.certificate.holds and release.measures["loss"] < 1 and not lattice.finished
    assert lattice.size == 3**70 and 0 <= lattice.bound <= release.measures["loss"]
    (note,) = [note for note in release.method_notes if "The search ended after 0.5 seconds" in note]
    assert "No generalization has a lower value than" in note
    assert {node.state for node in lattice} == {"anonymous", "not anonymous"}
    with pytest.raises(shoal.PolicyError, match="incognito lists the nodes of the lattice"):
        shoal.anonymize(frame, policy, method="incognito")


def test_no_historic_method_is_better() -> None:
    frame, policy = shoal.datasets.hospital(400), shoal.datasets.hospital_policy(5)
    policy = policy.model_copy(update={"suppress": 0.05})
    found = {
        m: shoal.anonymize(frame, policy, method=m, seed=1) for m in ("optimal", "samarati", "datafly", "incognito")
    }
    best = found.pop("optimal").measures["loss"]
    assert all(release.measures["loss"] >= best - 1e-12 for release in found.values())


def test_suppressed_records_are_generalized_again() -> None:
    """Far fewer records are lost, every group of the union holds, and the loss is not larger."""
    patients = shoal.datasets.hospital(2_000, seed=7, kind="pandas")
    quasi = {"birth": {"date": ["month", "year", "decade"]}, "zip": {"mask": "right"}, "sex": "categorical"}
    policy = shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(5)], suppress=0.5)
    plain, again = (
        shoal.anonymize(patients, policy, method="optimal", recode_suppressed=r, seed=2**70) for r in (False, True)
    )
    assert plain.certificate.suppressed > 100 > again.certificate.suppressed
    assert again.certificate.holds and shoal.check(again.frame, policy).smallest >= 5
    assert again.measures["loss_mean"] < plain.measures["loss_mean"]
    better = shoal.anonymize(patients, policy, method="optimal", recode_suppressed=True, improve=True, seed=2**70)
    assert better.measures["loss_mean"] <= again.measures["loss_mean"]


def test_nothing_is_recoded_where_nothing_is_suppressed() -> None:
    patients = shoal.datasets.hospital(500, seed=7, kind="pandas")
    policy = shoal.Policy(quasi={"zip": {"mask": "right"}, "sex": "categorical"}, require=[shoal.KAnonymity(5)])
    plain, again = (
        shoal.anonymize(patients, policy, method="optimal", recode_suppressed=r, seed=2**70) for r in (False, True)
    )
    assert plain.certificate.fingerprint == again.certificate.fingerprint


@pytest.mark.parametrize(
    ("given", "unit", "text"),
    [
        ({"recode_suppressed": 1}, None, "recode_suppressed must be true or false"),
        ({"recode_suppressed": True, "ends": "cut"}, None, "exclude each other"),
        ({"recode_suppressed": True}, "name", "not possible with a unit"),
    ],
)
def test_recoding_is_refused(given: dict[str, Any], unit: str | None, text: str) -> None:
    policy = shoal.Policy(quasi={"sex": "categorical"}, unit=unit, require=[shoal.KAnonymity(2)])
    with pytest.raises(shoal.PolicyError, match=text):
        shoal.anonymize(shoal.datasets.hospital(50, seed=1, kind="pandas"), policy, method="optimal", **given)


@pytest.mark.parametrize("levels", [3, 12])
def test_the_owner_sees_the_lattice(levels: int, tmp_path: Path) -> None:
    """Small lattices have a dot per node, large ones a bar per height; the public report shows nothing of it."""
    rng = np.random.default_rng(1)
    widths = [2**i for i in range(1, levels)]
    table = pd.DataFrame({name: rng.integers(0, 4000, 300) for name in "abc"})
    policy = shoal.Policy(quasi={n: {"widths": widths} for n in "abc"}, require=[shoal.KAnonymity(3)], suppress=0.1)
    method = shoal.tables.FullDomain(policy)
    method.release(table, seed=2**70).save(tmp_path / "release")
    owner = (tmp_path / "release.owner" / "report.html").read_text(encoding="utf-8")
    assert "Lattice of levels" in owner and "shoal-lattice" in owner
    assert "Lattice" not in (tmp_path / "release" / "report.html").read_text(encoding="utf-8")
    picture = ElementTree.fromstring(method.lattice_.plot())  # noqa: S314
    dots = [e for e in picture.iter() if e.tag.endswith("circle") and len(e)]
    bars = [e for e in picture.iter() if e.tag.endswith("rect") and len(e)]
    assert "pruned" in owner and "not anonymous" in owner
    assert (len(dots) == method.lattice_.size and not bars) if levels == 3 else (bars and not dots)


def test_suppression_can_meet_a_requirement_that_the_whole_table_fails() -> None:
    """Four of six people have a cold; without the two colds in Bari and Oulu, half of the people have one."""
    table = pd.DataFrame(
        {"city": ["Rome"] * 4 + ["Bari", "Oulu"], "ill": ["cold", "gout", "cold", "gout", "cold", "cold"]}
    )
    require = [shoal.AlphaKAnonymity(0.6, 4, of="ill")]
    policy = shoal.Policy(quasi={"city": "categorical"}, sensitive=["ill"], require=require, suppress=0.4)
    release = shoal.anonymize(table, policy, method="optimal")
    assert release.certificate.suppressed == 2 and set(release.frame["city"]) == {"Rome"}
    with pytest.raises(shoal.RequirementNotMet, match="the whole table as one group reaches a share"):
        shoal.anonymize(table, policy.model_copy(update={"suppress": 0.0}), method="optimal")
