"""The distances of "Efficient k-anonymization using clustering techniques", Definitions 4 to 6, with its own numbers.

The paper's Figure 6, the tree of countries, is not at hand: here is a balanced tree of height 3 in which the countries of
the examples meet where the examples say.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import shoal
from shoal.encoding.codes import Codes, encode_and_count
from shoal.engines import open_data
from shoal.engines.memory import list_record_cells
from shoal.taxonomy import Taxonomy

COUNTRY = {
    "World": {
        "West": {"North America": ["USA", "Canada"], "South America": ["Brazil"], "Europe": ["Greece"]},
        "East": {"South Asia": ["India"], "Middle East": ["Iran"]},
    }
}
RECORDS = [
    (41, "USA", "Armed-Forces"),
    (57, "India", "Tech-support"),
    (40, "Canada", "Teacher"),
    (38, "Iran", "Tech-support"),
    (24, "Brazil", "Doctor"),
    (45, "Greece", "Salesman"),
]


@pytest.fixture(scope="module")
def codes() -> Codes:
    frame = pd.DataFrame(RECORDS, columns=["age", "country", "occupation"])
    policy = shoal.Policy(quasi={"age": "numeric", "country": {"taxonomy": COUNTRY}, "occupation": "categorical"})
    return encode_and_count(open_data(frame), policy)[0]


def of(codes: Codes, record: int) -> int:
    """The combination of a record, numbered from 1 as the paper does."""
    return int(codes.combination[list_record_cells(codes.counts)[record - 1]])


def apart(codes: Codes, column: int, one: int, other: int) -> float:
    pair = codes.quasi[[of(codes, one), of(codes, other)], column]
    return float(codes.attributes[column].distance(pair[:1], pair[1:])[0])


def test_example_1_numbers(codes: Codes) -> None:
    assert apart(codes, 0, 1, 2) == pytest.approx(0.485, abs=5e-4)
    assert apart(codes, 0, 5, 6) == pytest.approx(0.636, abs=5e-4)


def test_example_2_categories(codes: Codes) -> None:
    tree = Taxonomy.from_nested(COUNTRY)
    assert tree.height[0] == 3
    assert tree.distance("India", "USA") == apart(codes, 1, 2, 1) == 1
    assert tree.distance("India", "Iran") == apart(codes, 1, 2, 4) == pytest.approx(2 / 3)  # 0.66 in the paper
    assert tree.distance("USA", "Canada") == apart(codes, 1, 1, 3) == pytest.approx(1 / 3)
    assert tree.distance("Iran", "Iran") == 0
    assert {apart(codes, 2, one, other) for one in (1, 3, 5) for other in (2, 4, 6)} == {1}
    assert apart(codes, 2, 2, 4) == 0


def test_example_3_records(codes: Codes) -> None:
    assert codes.distance(of(codes, 1), of(codes, 2)) == pytest.approx(2.485, abs=5e-4)
    assert codes.distance(of(codes, 1), of(codes, 3)) == pytest.approx(1.3636, abs=5e-5)
    assert codes.distance(of(codes, 3), of(codes, 1)) == codes.distance(of(codes, 1), of(codes, 3))
    assert codes.distance(of(codes, 4), of(codes, 4)) == 0


def test_a_missing_value_is_far_from_all_others() -> None:
    frame = pd.DataFrame({"age": [1.0, 2.0, None], "country": ["USA", "Canada", None]})
    quasi = {"age": "numeric", "country": {"taxonomy": COUNTRY}}
    age, country = encode_and_count(open_data(frame), shoal.Policy(quasi=quasi))[0].attributes
    assert age.distance(np.array([0, 2, 2]), np.array([2, 1, 2])).tolist() == [1, 1, 0]
    last = country.missing
    assert country.distance(np.array([0, last]), np.array([last, last])).tolist() == [1, 0]


def test_values_that_the_tree_misses() -> None:
    with pytest.raises(shoal.DataError, match="values are not in the taxonomy: 'Peru'"):
        Taxonomy.from_nested(COUNTRY).distance("USA", "Peru")
