"""Parts of the experiments: pruning, encodings, pages and plots. `make papers` runs the experiments."""

from __future__ import annotations

import doctest
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import shoal
from papers import adult, anonymous_mining, classify, kmember, lab, page, plots, random_anonymization, tds

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs" / "papers").glob("*.md"))


@pytest.mark.parametrize("module", [anonymous_mining, classify, kmember, page], ids=lambda m: m.__name__)
def test_examples(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


@pytest.fixture
def people() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(5)
    age, sex = rng.integers(17, 90, 900), rng.choice(["Male", "Female"], 900)
    rich = (age > 40) & (sex == "Male") ^ (rng.random(900) < 0.15)
    return pd.DataFrame({"age": age, "sex": sex, "fnlwgt": rng.integers(1000, size=900)}), rich


def test_pruning_agrees_with_sklearn(people: tuple[pd.DataFrame, np.ndarray]) -> None:
    table, rich = people
    x = table[["age", "fnlwgt"]].to_numpy(np.float32)
    grown = DecisionTreeClassifier(criterion="entropy", random_state=0).fit(x, rich)
    alphas = np.geomspace(1e-4, 0.3, 15)
    for alpha, predicted in zip(alphas, classify.predict_pruned(grown, x, alphas).T, strict=True):
        again = DecisionTreeClassifier(criterion="entropy", random_state=0, ccp_alpha=alpha).fit(x, rich)
        assert (again.predict(x) == predicted).all()


def test_errors_depend_on_published_labels_only(people: tuple[pd.DataFrame, np.ndarray]) -> None:
    table, rich = people
    suppressed = table.assign(age="*", sex="*")
    cut = table.assign(age=np.where(table["age"] > 40, "[41, 90]", "[17, 41)"))
    for error in (classify.tree_error, classify.bayes_error):
        assert error(cut, rich, 600) < 25 < error(suppressed, rich, 600)


def test_informative_cuts_need_a_reason() -> None:
    rng = np.random.default_rng(1)
    assert classify.find_informative_cuts(rng.random(500), rng.random(500) < 0.5).tolist() == []
    assert classify.find_informative_cuts(np.zeros(9), np.arange(9) < 4).tolist() == []


def test_policies_have_the_sets_and_keep_the_rest() -> None:
    one = adult.policy([adult.RANKED[:5]], 20)
    assert (list(one.quasi), len(one.keep)) == (list(adult.RANKED[:5]), 9)
    several = adult.policy([("age", "sex"), ("sex", "race")], 20)
    assert [r.on for r in several.require] == [("age", "sex"), ("sex", "race")]
    assert list(several.quasi) == ["age", "race", "sex"]


def test_attribute_sets_are_drawn_as_in_the_paper() -> None:
    sets = list(tds.draw_sets(0))
    assert len(sets) == tds.DRAWS
    assert sets == list(tds.draw_sets(0))
    for some in sets:
        assert len({len(names) for names in some}) == 1
        assert 2 <= len(some[0]) <= 9
        assert 1 <= len(set(some)) == len(some) <= 7


def test_the_income_is_class_and_sensitive_in_the_clustering_paper() -> None:
    policy = lab.build_policy(5, kmember.BOUND, order=lab.QUASI[::-1])
    assert (policy.target, policy.sensitive, policy.truly_sensitive) == ("income", ("income",), {"income": (">50K",)})
    assert list(policy.quasi) == list(lab.QUASI[::-1])
    assert [r.name for r in policy.require] == ["k-anonymity", "confidence-bound"]


@pytest.fixture
def some() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    trees = shoal.datasets.adult_taxonomies()
    columns = {name: rng.integers(17, 90, 400) for name in lab.QUASI}
    columns |= {
        n: rng.choice(list(map(str, shoal.Taxonomy.from_nested(trees[n]).leaves)), 400) for n in lab.QUASI if n in trees
    }
    return pd.DataFrame(columns).assign(income=rng.choice(["<=50K", ">50K"], 400))


def test_a_run_is_computed_once_and_timed(some: pd.DataFrame) -> None:
    bench = lab.Lab(some)
    plain = bench.run(kmember.KMEMBER, 5, times=2)
    better = bench.run(kmember.KMEMBER.replace(improve=True), 5)
    assert bench.run(kmember.KMEMBER, 5) is plain
    assert (plain["seconds"] > 0, plain.improve_seconds, better.improve_seconds > 0) == (True, 0, True)
    assert better["il"] < plain["il"] == bench.loss(kmember.KMEMBER, 5)
    assert bench.run(kmember.SETTINGS["bound"], 5)["sd"] == 0


def test_the_quarters_of_clusters_sum_to_the_whole_loss(some: pd.DataFrame) -> None:
    quarters = kmember.split_clusters(some, 5)
    assert sum(q.loss for q in quarters) == pytest.approx(100)
    assert all(90 <= q.elsewhere <= 100 for q in quarters)


@pytest.fixture
def split() -> anonymous_mining.Split:
    rng = np.random.default_rng(11)
    trees = {n: shoal.Taxonomy.from_nested(t) for n, t in shoal.datasets.adult_taxonomies().items()}
    columns = {n: rng.choice(list(map(str, trees[n].leaves)), 600) for n in anonymous_mining.NAMES}
    rich = np.isin(columns["relationship"], ["Husband", "Wife"]) ^ (rng.random(600) < 0.1)
    return anonymous_mining.Split(pd.DataFrame(columns).assign(income=np.where(rich, ">50K", "<=50K")), 400)


def test_anonymous_trees_learn_from_the_training_records_only(split: anonymous_mining.Split) -> None:
    tree = split.grow(shoal.KAnonymity(20))
    counts = pd.crosstab(tree.apply(split.train), split.train["income"].to_numpy())
    assert tree.certificate_.smallest == counts.sum(axis=1).min() >= 20
    assert tree.certificate_.certain == counts[(counts == 0).any(axis=1)].to_numpy().sum()
    assert anonymous_mining.count_minority(tree, split.train) == counts.min(axis=1).sum()
    assert split.measure_error(tree) < 20


def test_id3_reads_raw_and_generalized_labels(split: anonymous_mining.Split) -> None:
    raw, generalized = split.frame[["relationship"]], split.generalize(60)[["relationship"]]
    assert len(generalized) == len(raw)
    for table in (raw, generalized, raw.assign(relationship="*")):
        rich = pd.Series(split.truth[: split.size]).groupby(table["relationship"][: split.size].to_numpy()).mean() > 0.5
        wrong = rich[table["relationship"][split.size :]].to_numpy() != split.truth[split.size :]
        assert anonymous_mining.id3_error(table, split.truth, split.size) == pytest.approx(100 * wrong.mean())


def test_a_limit_of_the_confidence_holds_in_every_span(split: anonymous_mining.Split) -> None:
    least = anonymous_mining.limit_confidence(0.92)
    tree = split.grow(shoal.LDiversity(least, of="income", kind="entropy"))
    counts = pd.crosstab(tree.apply(split.train), split.train["income"].to_numpy())
    assert len(counts) > 1
    assert (counts.max(axis=1) / counts.sum(axis=1)).max() <= 0.92


def test_plots_are_valid_svg() -> None:
    pictures = [
        plots.lines(
            "a < b", ("k", "%"), (1, 2), [plots.Line("x", [1, 2], "#000"), plots.Line("y", [2, 2], "#111")], (0, 3)
        ),
        kmember.draw_lines("t", ("k", "s"), (1, 2), {"class": [0.02, 1], "another": [3, 200]}, log=True),
        plots.scatter("t", ("x", "y"), [plots.Dots("some", [(1, 2)], "#000", hollow=True)], (0, 3)),
    ]
    for picture in pictures:
        assert ElementTree.fromstring(picture).tag.endswith("svg")  # noqa: S314  ours


def test_names_of_lines_keep_apart_and_inside() -> None:
    heights = sorted(plots._apart([plots.LOWEST] * 8 + [60.0]))
    assert heights[-1] == plots.LOWEST
    assert min(np.diff(heights)) >= 16


def test_a_page_is_filled_whole() -> None:
    with pytest.raises(ValueError, match="places for"):
        page.fill("<!-- made: a -->\n<!-- end -->", {"b": ""})


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_pages_are_made(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    parts = {match["name"]: match[0] for match in page.MADE.finditer(text)}
    assert parts
    assert (
        page.fill(text, {name: part.split("-->\n", 1)[1].rsplit("<!--", 1)[0] for name, part in parts.items()}) == text
    )


def test_releases_of_random_anonymization_answer_queries_and_keep_associations() -> None:
    """The experiments on 300 records: every way of reading a release has its errors, and counts add up."""
    rng = np.random.default_rng(3)
    names = [n for n in random_anonymization.QUASI if n != "age"]
    columns = {n: rng.choice(["a", "b", "c"], 300, p=[0.6, 0.3, 0.1]) for n in [*names, random_anonymization.SENSITIVE]}
    releases = random_anonymization.Releases(pd.DataFrame(columns).assign(age=rng.integers(20, 25, 300)))
    workload = shoal.measures.random_workload(releases.table, releases.policy, attributes=[1, 2], queries=5, seed=1)
    found = random_anonymization._summarize(releases, releases.randomize(1, 1), workload)
    assert [s.attributes for s in found["raw"]] == [s.attributes for s in found["unbiased"]] == [1, 2]
    runs = [shoal.measures.associations(releases.table, releases.permute(2, s), support=0.08) for s in (1, 2)]
    kept, lost, _, recovered = map(float, random_anonymization._average(runs))
    assert kept + lost == pytest.approx(runs[0].total.found + runs[0].total.lost)
    assert recovered == pytest.approx(100 * kept / (kept + lost), abs=0.1)
