"""The method tree: the equivalent table of the paper, and the classification metric on UCI Adult."""

from __future__ import annotations

import pandas as pd
import pytest

import shoal
from shoal.datasets import papers
from tests.support.steps import needs_data


def as_rows(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    return sorted(frame.itertuples(index=False, name=None))


def test_table_1_gives_table_2() -> None:
    """Friedman, Wolff and Schuster, section 3."""
    release = shoal.anonymize(papers.mortgage(kind="pandas"), papers.mortgage_policy(3), method="tree")
    assert as_rows(release.frame) == as_rows(papers.mortgage_released(kind="pandas"))
    assert release.certificate.smallest == 3


def test_tight_ends_keep_more() -> None:
    table, policy = papers.mortgage(kind="pandas"), papers.mortgage_policy(3)
    tests, tight = (shoal.anonymize(table, policy, method="tree", ends=ends) for ends in ("cut", "tight"))
    assert tight.measures["ncp"] < tests.measures["ncp"]
    assert tight.certificate.groups == tests.certificate.groups == 4


def test_later_records_descend_the_tree() -> None:
    table, policy = papers.mortgage(kind="pandas"), papers.mortgage_policy(3)
    release = shoal.anonymize(table, policy, method="tree")
    assert as_rows(release.recoding.apply(table)) == as_rows(release.frame)


def test_without_a_target_the_first_sensitive_column_is_predicted() -> None:
    table = papers.mortgage(kind="pandas")
    policy = papers.mortgage_policy(3).model_copy(update={"target": None})
    assert as_rows(shoal.anonymize(table, policy, method="tree").frame) == as_rows(
        papers.mortgage_released(kind="pandas")
    )
    nothing = shoal.Policy(quasi={"Gender": "categorical"}, require=[shoal.KAnonymity(3)])
    with pytest.raises(shoal.PolicyError, match="tree needs a target"):
        shoal.anonymize(table[["Gender"]], nothing, method="tree")


@needs_data
@pytest.mark.parametrize(("k", "most"), [(10, 5140), (25, 5230), (50, 5295), (100, 5340)])
def test_classification_metric_of_adult(k: int, most: int) -> None:
    """Table 6 of the paper reports 5198, 5273, 5379 and 5439 with other taxonomies."""
    taxonomies = {n: t for n, t in shoal.datasets.adult_taxonomies().items() if n != "relationship"}
    policy = shoal.Policy(
        quasi={name: {"taxonomy": tree} for name, tree in taxonomies.items()},
        target="income",
        require=[shoal.KAnonymity(k)],
    )
    rows = shoal.datasets.adult("train", drop_missing=True, kind="pandas")
    release = shoal.anonymize(rows, policy, method="tree")
    groups = release.frame.groupby(list(taxonomies), observed=True)["income"].value_counts().unstack(fill_value=0)
    assert groups.sum(axis=1).min() >= k
    assert int((groups.sum(axis=1) - groups.max(axis=1)).sum()) <= most
