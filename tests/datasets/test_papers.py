"""The example tables of the papers: their values, policies and published figures."""

from __future__ import annotations

from math import exp, log, log2
from typing import Any

import numpy as np
import pandas as pd
import pytest

import shoal
from shoal.datasets import papers
from shoal.policy import Policy
from shoal.requirements import KAnonymity, LDiversity
from shoal.taxonomy import Taxonomy
from tests.support.cases import holds

SHAPES = {
    "mortgage": (12, 6),
    "mortgage_released": (12, 5),
    "incomes": (4, 2),
    "incomes_released": (4, 2),
    "incomes_public": (4, 2),
    "borrowers": (6, 4),
    "customers": (6, 3),
    "fung": (34, 4),
    "fung_example6": (40, 4),
    "fung_example6_released": (40, 4),
    "patients": (6, 4),
    "patients_released": (6, 4),
    "sample": (6, 5),
    "diseases": (10, 5),
    "diseases_generalized": (10, 4),
    "diseases_diverse": (10, 4),
    "diseases_permuted": (10, 5),
    "diseases_randomized": (10, 4),
}
POLICIES = {
    "mortgage": papers.mortgage_policy(),
    "incomes": papers.incomes_policy(),
    "borrowers": papers.borrowers_policy(public_car=True),
    "customers": papers.customers_policy(),
    "fung": papers.fung_policy(),
    "fung_example6": papers.fung_example6_policy(),
    "patients": papers.patients_policy(),
    "sample": papers.sample_policy(),
    "diseases": papers.diseases_policy(),
}
# The k of the paper, and the size of the smallest group in its printed table.
RELEASES = {
    "mortgage_released": (papers.mortgage_policy(3), 3),
    "incomes_released": (papers.incomes_policy(), 2),
    "fung_example6_released": (papers.fung_example6_policy(), 6),
    "patients_released": (papers.patients_policy(), 3),
    "diseases_generalized": (papers.diseases_policy(), 2),
    "diseases_diverse": (papers.diseases_policy(diversity=2), 5),
}


def load(name: str) -> pd.DataFrame:
    frame: pd.DataFrame = papers.tables()[name](kind="pandas")
    return frame


def sizes(frame: pd.DataFrame, *columns: str) -> dict[Any, int]:
    counts: dict[Any, int] = frame.groupby(list(columns)).size().to_dict()
    return counts


def entropy(labels: pd.Series[Any]) -> float:
    share = labels.value_counts(normalize=True)
    return float(-(share * np.log2(share)).sum())


def gain(table: pd.DataFrame, by: pd.Series[Any]) -> float:
    parts = table["Class"].groupby(by)
    return entropy(table["Class"]) - sum(len(part) / len(table) * entropy(part) for _, part in parts)


def up(attribute: str, level: int, *, table: str = "fung") -> dict[str | None, str | None]:
    """Every leaf with its ancestor at a level, or itself if it is at a higher level."""
    tree = Taxonomy.from_nested(papers.taxonomies()[table][attribute])
    found = {}
    for node in tree.leaf:
        above = node
        while tree.level[above] > level:
            above = tree.parent[above]
        found[tree.label[node]] = tree.label[above]
    return found


def test_every_table_is_listed_with_its_shape() -> None:
    assert {name: make(kind="pandas").shape for name, make in papers.tables().items()} == SHAPES


@pytest.mark.parametrize("name", SHAPES)
def test_frames_of_every_kind_are_alike_and_whole(name: str) -> None:
    make = papers.tables()[name]
    arrow = make(kind="pyarrow")
    rows = arrow.to_pylist()
    assert make(kind="polars").to_dicts() == rows
    assert make(kind="pandas").to_dict("records") == rows
    assert make().columns.tolist() == arrow.column_names
    assert all(value is not None for row in rows for value in row.values())


@pytest.mark.parametrize("name", POLICIES)
def test_raw_tables_do_not_meet_their_policies(name: str) -> None:
    assert not shoal.check(load(name), POLICIES[name]).holds


@pytest.mark.parametrize("name", RELEASES)
def test_released_tables_meet_the_k_of_the_papers(name: str) -> None:
    policy, smallest = RELEASES[name]
    certificate = shoal.check(load(name), policy)
    assert (certificate.holds, certificate.smallest) == (True, smallest)


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_can_be_met(name: str) -> None:
    release = shoal.anonymize(load(name), POLICIES[name], method="mondrian")
    assert holds(release.frame, POLICIES[name])


def test_policies_survive_their_files() -> None:
    for policy in POLICIES.values():
        assert Policy.parse(policy.to_yaml()) == policy


def test_taxonomies_hold_the_values_and_are_copies() -> None:
    for name, trees in papers.taxonomies().items():
        for column, tree in trees.items():
            assert set(load(name)[column].astype(str)) <= set(Taxonomy.from_nested(tree).leaves)
    papers.taxonomies()["patients"].clear()
    assert papers.taxonomies()["patients"]


# Providing k-anonymity in data mining.


def test_two_anonymity_costs_gender_or_all_the_rest() -> None:
    table, (gender, *rest) = load("mortgage"), ["Gender", "Married", "Age", "Sports Car"]
    assert min(sizes(table, *rest).values()) == 2
    assert [min(sizes(table, gender, other).values()) for other in rest] == [1, 1, 1]
    assert min(sizes(table, gender).values()) == 6


def test_without_gender_every_group_is_half_good_half_bad() -> None:
    table = load("mortgage")
    good = (table["Loan Risk"] == "good").groupby([table[c] for c in ("Married", "Age", "Sports Car")]).mean()
    assert good.eq(0.5).all()


def test_the_release_is_the_table_routed_to_four_leaves() -> None:
    table, male = load("mortgage"), load("mortgage")["Gender"] == "Male"
    routed = pd.DataFrame(
        {
            "Gender": table["Gender"],
            "Married": table["Married"].mask(male, "*"),
            "Age": table["Age"].where(male, "*"),
            "Sports Car": "*",
            "Loan Risk": table["Loan Risk"],
        }
    )
    released = load("mortgage_released")
    assert sizes(routed, *routed.columns) == sizes(released, *released.columns)
    assert not shoal.check(released, papers.mortgage_policy(4)).holds


def test_the_married_women_are_bad_risks() -> None:
    table = load("mortgage")
    leaf = table[(table["Gender"] == "Female") & (table["Married"] == "Yes")]
    assert list(leaf["Name"]) == ["Donna", "Emily", "Fiona"]
    assert set(leaf["Loan Risk"]) == {"bad"}


def test_joining_with_the_public_table() -> None:
    joined = load("incomes").merge(load("incomes_public"), on="Zipcode")
    known = joined.groupby("Name")["Income"].agg(set).to_dict()
    assert known["Laura"] == {"High"}
    assert known["Ben"] == {"Mid"}
    assert known["John"] == known["Lisa"] == {"High", "Low"}
    public = load("incomes_public")
    hidden = load("incomes_released").merge(public.assign(Zipcode=public["Zipcode"].str[:3] + "XX"), on="Zipcode")
    assert hidden.groupby("Name")["Income"].nunique().eq(2).all()


def test_the_sports_car_private_or_public() -> None:
    table = load("borrowers")
    assert shoal.check(table, papers.borrowers_policy()).smallest == 3
    assert shoal.check(table, papers.borrowers_policy()).holds
    public = shoal.check(table, papers.borrowers_policy(public_car=True))
    assert (public.holds, public.smallest) == (False, 1)
    assert list(table["Name"][table["Marital Status"] == "Married"]) == ["John", "Ben", "Laura"]
    assert list(table["Name"][table["Marital Status"] == "Unmarried"]) == ["Lisa", "Robert", "Anna"]
    alone = table[(table["Marital Status"] == "Married") & (table["Sports Car"] == "Yes")]
    assert list(alone["Name"]) == ["John"]


def test_the_car_gains_more_and_marriage_nothing_where_there_is_none() -> None:
    table = load("borrowers").rename(columns={"Loan Risk": "Class"})
    assert gain(table, table["Sports Car"]) > gain(table, table["Marital Status"])
    without = table[table["Sports Car"] == "No"]
    assert gain(without, without["Marital Status"]) == 0


def test_customers_by_zip_code() -> None:
    assert sizes(load("customers"), "Zip Code") == {"11001": 2, "13010": 2, "14384": 1, "15013": 1}
    assert load("customers")["Income"].dtype.kind == "i"


# Top-down specialization.


def test_class_frequencies_of_the_compressed_table() -> None:
    table = load("fung")
    by = table.groupby(["Education", "Sex", "Work_Hrs"], sort=False)["Class"]
    printed = [f"{(c == 'Y').sum()}Y{(c == 'N').sum()}N" for _, c in by]
    assert printed == ["0Y3N", "0Y4N", "2Y3N", "3Y1N", "4Y2N", "4Y0N", "4Y0N", "3Y0N", "1Y0N"]
    assert sizes(table, "Class") == {"N": 13, "Y": 21}


def test_violating_values_of_the_first_identifier() -> None:
    table = load("fung")
    small = {vid for vid, size in sizes(table, "Education", "Sex").items() if size < 4}
    assert small == {("9th", "M"), ("Masters", "F"), ("Doctorate", "F")}
    women = table[(table["Sex"] == "F") & table["Education"].isin(["Masters", "Doctorate"])]
    assert len(women) == 4


def test_taxonomy_of_education_is_unbalanced() -> None:
    tree = Taxonomy.from_nested(papers.taxonomies()["fung"]["Education"])
    assert tree.leaves == ("9th", "10th", "11th", "12th", "Bachelors", "Masters", "Doctorate")
    assert tree.level[tree.leaf].tolist() == [3, 3, 3, 3, 2, 3, 3]
    assert tree.label[0] == "ANY_Edu"


def test_lowest_solution_cut() -> None:
    """Figure 2: {Junior Sec., 11th, 12th, Bachelors, Grad School} meets k = 4; one step further does not."""
    table, parents = load("fung"), up("Education", 2)
    merged = {leaf: above for leaf, above in parents.items() if above in ("Junior Sec.", "Grad School")}
    cut = table.assign(Education=table["Education"].replace(merged))
    policy = Policy(quasi={"Education": "categorical", "Sex": "categorical"}, target="Class", require=[KAnonymity(4)])
    assert shoal.check(cut, policy).smallest == 4
    assert cut.groupby("Education")["Class"].nunique()[["Junior Sec.", "Grad School"]].tolist() == [1, 1]
    for kept in ("Junior Sec.", "Grad School"):
        finer = table["Education"].replace({leaf: above for leaf, above in merged.items() if above != kept})
        assert not shoal.check(table.assign(Education=finer), policy).holds


def test_gain_and_score_of_education() -> None:
    """Example 4."""
    table = load("fung")
    side = table["Education"].map(up("Education", 1))
    assert sizes(table.assign(side=side), "side") == {"Secondary": 16, "University": 18}
    assert entropy(table["Class"]) == pytest.approx(0.9597, abs=5e-5)
    assert entropy(table["Class"][side == "Secondary"]) == pytest.approx(0.8960, abs=5e-5)
    assert entropy(table["Class"][side == "University"]) == pytest.approx(0.5033, abs=5e-5)
    assert gain(table, side) == pytest.approx(0.2716, abs=5e-5)
    assert gain(table, side) / (34 - 16) == pytest.approx(0.0151, abs=5e-5)


def test_split_of_hours() -> None:
    """Example 5: five candidates, the best at 37."""
    table = load("fung")
    values = sorted(table["Work_Hrs"].unique())
    assert values == [30, 32, 35, 37, 42, 44]
    gains = {point: gain(table, table["Work_Hrs"] < point) for point in values[1:]}
    assert len(gains) == 5
    assert max(gains, key=lambda point: gains[point]) == 37
    assert gains[37] == pytest.approx(0.3584, abs=1e-4)
    low = table["Work_Hrs"] < 37
    assert (low.sum(), (~low).sum()) == (12, 22)
    assert entropy(table["Class"][low]) == pytest.approx(0.6500, abs=5e-5)
    assert entropy(table["Class"][~low]) == pytest.approx(0.5746, abs=5e-5)


def test_anonymity_of_the_identifiers_step_by_step() -> None:
    """Example 9, by `check`: A(VID1), A(VID2) are 34, 34, then 34, 12, then 16, 12."""
    table = load("fung").assign(Education="ANY_Edu", Sex="ANY_Sex", Work_Hrs="[1-99]")
    hours = np.where(load("fung")["Work_Hrs"] < 37, "[1-37)", "[37-99]")
    halves = load("fung")["Education"].map(up("Education", 1))
    steps = (table, table.assign(Work_Hrs=hours), table.assign(Work_Hrs=hours, Education=halves))
    certificates = [shoal.check(step, papers.fung_policy()) for step in steps]
    assert [[f.reached for f in c.findings] for c in certificates] == [[34, 34], [34, 12], [16, 12]]
    assert all(c.holds for c in certificates)
    assert sizes(steps[-1], "Education", "Work_Hrs") == {
        ("Secondary", "[1-37)"): 12,
        ("Secondary", "[37-99]"): 4,
        ("University", "[37-99]"): 18,
    }


def test_example_6() -> None:
    table = load("fung_example6")
    hours = table["Work_Hrs"].lt(40).map({True: "[1-40)", False: "[40-99)"})
    counts = {
        name: pd.crosstab(by, table["Class"])[["Y", "N"]].T.to_dict("list")
        for name, by in {"Education": table["Education"], "Sex": table["Sex"], "Work_Hrs": hours}.items()
    }
    assert counts == {
        "Education": {"8th": [0, 4], "9th": [0, 12], "10th": [20, 4]},
        "Sex": {"M": [20, 6], "F": [0, 14]},
        "Work_Hrs": {"[1-40)": [0, 12], "[40-99)": [20, 8]},
    }
    gains = [gain(table, by) for by in (table["Education"], table["Sex"], hours)]
    assert np.argmax(gains) == 0
    scores = [g / (40 - least) for g, least in zip(gains, (4, 14, 12), strict=True)]
    assert np.argmax(scores) == 1


def test_example_6_released_by_sex_and_hours() -> None:
    table, released = load("fung_example6"), load("fung_example6_released")
    hours = table["Work_Hrs"].lt(40).map({True: "[1-40)", False: "[40-99)"})
    made = table.assign(Education="ANY_Edu", Work_Hrs=hours)
    assert sizes(made, *made.columns) == sizes(released, *released.columns)
    finer = made.assign(Education=table["Education"])
    assert not shoal.check(finer, papers.fung_example6_policy()).holds


# Efficient k-anonymization using clustering techniques.


def test_the_release_is_the_table_with_its_trees() -> None:
    table = load("patients")
    made = table.assign(
        ZIP=table["ZIP"].str[:4] + "*",
        Gender="Person",
        Age=table["Age"].astype(str).map(up("Age", 1, table="patients")),
    )
    pd.testing.assert_frame_equal(made, load("patients_released"), check_dtype=False)
    assert not shoal.check(load("patients_released"), papers.patients_policy(4)).holds


def test_age_33_is_already_3_anonymous() -> None:
    assert sizes(load("patients"), "Age") == {33: 3, 35: 1, 36: 1, 39: 1}


def test_country_is_a_balanced_tree_of_height_3() -> None:
    trees = {name: Taxonomy.from_nested(tree) for name, tree in papers.taxonomies()["sample"].items()}
    assert set(trees["Country"].level[trees["Country"].leaf]) == {3}
    assert set(trees["Occupation"].level[trees["Occupation"].leaf]) == {1}


def test_distances() -> None:
    """Examples 1 to 3; the paper cuts 0.666 to 0.66 and 1.3636 to 1.363."""
    table = load("sample")
    trees = {name: Taxonomy.from_nested(tree) for name, tree in papers.taxonomies()["sample"].items()}

    def age(i: int, j: int) -> float:
        return float(abs(table["Age"][i] - table["Age"][j]) / np.ptp(table["Age"]))

    def category(name: str, one: str, other: str) -> float:
        tree = trees[name]
        lo, hi = sorted(tree.code_of([one, other], column=name).tolist())
        return float(tree.height[tree.cover(lo, hi)] / tree.height[0])

    def distance(i: int, j: int) -> float:
        return age(i, j) + sum(category(name, table[name][i], table[name][j]) for name in trees)

    assert age(0, 1) == pytest.approx(0.485, abs=5e-4)
    assert age(4, 5) == pytest.approx(0.636, abs=5e-4)
    assert category("Country", "India", "USA") == 1
    assert category("Country", "India", "Iran") == pytest.approx(2 / 3)
    assert category("Country", "USA", "Canada") == pytest.approx(1 / 3)
    assert {category("Occupation", "Doctor", other) for other in ("Teacher", "Salesman")} == {1}
    assert distance(0, 1) == pytest.approx(2.485, abs=5e-4)
    assert distance(0, 2) == pytest.approx(1.3636, abs=5e-5)


# A novel anonymization algorithm: random anonymization.


def test_distributions() -> None:
    table = load("diseases")
    assert sizes(table, "Age") == {"[20-30]": 1, "[30-40]": 4, "[40-50]": 1, "[50-60]": 3, "[60-70]": 1}
    assert sizes(table, "Job") == {"Doctor": 1, "Clerk": 4, "Trader": 2, "Engineer": 1, "Banker": 2}
    assert sizes(table, "Country") == {"USA": 6, "Germany": 1, "UK": 2, "India": 1}


def test_probabilistic_anonymity() -> None:
    """Section 6: about 11 by equation (3), with every attribute as likely as the others."""
    table = load("diseases")
    entropies = [entropy(table[name]) * log(2) for name in ("Age", "Job", "Country")]
    assert 3 * exp(sum(entropies) / 3) == pytest.approx(11.3, abs=0.05)


@pytest.mark.parametrize(
    ("given", "then", "confidence"),
    [
        ({"Job": "Clerk"}, ("Disease", "Hypertension"), 0.75),
        ({"Age": "[30-40]", "Job": "Clerk"}, ("Disease", "Hypertension"), 0.67),
        ({"Job": "Clerk", "Country": "USA"}, ("Age", "[30-40]"), 0.50),
        ({"Age": "[30-40]", "Job": "Clerk", "Country": "UK"}, ("Disease", "Diabetes"), 1.0),
    ],
)
def test_associations(given: dict[str, str], then: tuple[str, str], confidence: float) -> None:
    table = load("diseases")
    for name, value in given.items():
        table = table[table[name] == value]
    assert (table[then[0]] == then[1]).mean() == pytest.approx(confidence, abs=5e-3)


def test_the_generalized_table_is_anonymous_but_not_diverse() -> None:
    table = load("diseases_generalized")
    assert shoal.check(table, papers.diseases_policy()).groups == 3
    certificate = shoal.check(table, papers.diseases_policy(diversity=2))
    assert [f.holds for f in certificate.findings] == [True, False]
    assert certificate.findings[1].worst["Job"] == "Clerk"
    last = table[table["Job"] == "Clerk"]["Disease"].value_counts(normalize=True)
    assert last["Hypertension"] == pytest.approx(2 / 3)


def test_the_diverse_table_gives_nobody_away_by_half() -> None:
    table = load("diseases_diverse")
    certificate = shoal.check(table, papers.diseases_policy(diversity=2))
    assert certificate.groups == 2
    assert certificate.findings[1].reached == pytest.approx(2 ** (log2(5) - 0.8), abs=1e-9)  # groups of 2, 2 and 1
    assert table.groupby("Age")["Disease"].value_counts(normalize=True).max() == 0.4


def test_generalized_and_diverse_come_from_the_original() -> None:
    raw = load("diseases").drop(columns="Name")
    old = raw["Age"].map(up("Age", 1, table="diseases")) == "[40-70]"
    assert raw["Country"][old].eq("USA").all()
    made = raw.assign(
        Age=raw["Age"].map(up("Age", 1, table="diseases")),
        Job=raw["Job"].map(up("Job", 1, table="diseases")).mask(old, "*"),
        Country=raw["Country"].where(old, "*"),
    )
    for frame, name in ((made, "diseases_generalized"), (made.assign(Job="*"), "diseases_diverse")):
        printed = load(name)
        assert sizes(frame, *frame.columns) == sizes(printed, *printed.columns)


def test_permutation_inside_two_groups() -> None:
    raw, permuted = load("diseases").drop(columns="Name"), load("diseases_permuted")
    quasi = ["Age", "Job", "Country"]
    joined = permuted.merge(raw, on=quasi, suffixes=("", " before"), validate="one_to_one")
    assert len(joined) == 10
    assert sizes(joined, "Group", "Disease") == sizes(joined, "Group", "Disease before")
    policy = Policy(
        quasi={"Group": "categorical"},
        sensitive=["Disease"],
        require=[KAnonymity(5), LDiversity(2, of="Disease", kind="entropy")],
    )
    assert shoal.check(permuted, policy).holds
    assert not shoal.check(permuted, papers.diseases_policy()).holds


def test_randomized_records_differ_in_at_most_one_attribute() -> None:
    raw, randomized = load("diseases").drop(columns="Name"), load("diseases_randomized")
    changed = raw.ne(randomized)
    assert changed.sum(axis=1).tolist() == [0, 0, 1, 1, 0, 1, 1, 1, 1, 0]
    assert not changed["Disease"].any()
    assert not shoal.check(randomized, papers.diseases_policy()).holds
    assert all(set(randomized[name]) <= set(raw[name]) for name in raw)
