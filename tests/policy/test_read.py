"""The key ``read`` of a policy: how the file with the raw table is written."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from shoal.engines import Conventions
from shoal.errors import PolicyError
from shoal.policy import Policy, policy_schema
from tests.support.json_schema import find_errors

FULL = {
    "delimiter": "|",
    "decimal": ",",
    "thousands": ".",
    "encoding": "latin-1",
    "dates": "%d.%m.%Y",
    "sheet": "Data",
}


def test_read_round_trips() -> None:
    policy = Policy(quasi={"age": "numeric"}, read=FULL)
    assert policy.read == Conventions(**FULL)
    for other in (
        Policy.parse(policy.to_yaml()),
        Policy(**policy.to_dict()),
        Policy(**policy.model_dump(exclude_none=True)),
        Policy(quasi={"age": "numeric"}, read=Conventions(**FULL)),
        policy.model_copy(),
    ):
        assert other == policy and other.read == policy.read
    assert pickle.loads(pickle.dumps(policy.read)) == policy.read  # noqa: S301
    assert "read" not in Policy(quasi={"age": "numeric"}).to_dict()
    assert "read" not in Policy(quasi={"age": "numeric"}, read={}).to_dict()


@pytest.mark.parametrize("given", ["tab", "\\t", "\t"])
def test_a_tab_has_three_spellings(given: str) -> None:
    assert Conventions(delimiter=given).delimiter == "\t"


@pytest.mark.parametrize(
    ("read", "words"),
    [
        ("{delimeter: ;}", "'read.delimeter': 'read' has no key 'delimeter'; choose from 'delimiter'"),
        ("';'", "'read' maps keys to values, for example"),
        ("{delimiter: ab}", "'read.delimiter': 'delimiter' must be one character"),
        ("{delimiter: a}", "no letter, digit or quote, not 'a'"),
        ("{decimal: x}", "'read.decimal': 'decimal' cannot be 'x'; choose from '.', ','"),
        ("{thousands: x}", "'thousands' cannot be 'x'; choose from '.', ',', ' '"),
        ("{thousands: ',', decimal: ','}", "'thousands' and 'decimal' are both ','"),
        ("{encoding: latin-one}", "unknown encoding 'latin-one'; choose from 'utf-8', 'cp1252', 'latin-1'"),
        ("{encoding: base64}", "unknown encoding 'base64'"),
        ("{dates: '%d.%m.'}", "such as '%d.%m.%Y' or '%m/%d/%Y', not '%d.%m.'"),
    ],
)
def test_mistakes_are_named_with_their_line(read: str, words: str) -> None:
    with pytest.raises(PolicyError) as error:
        Policy.parse(f"quasi: {{age: numeric}}\nread: {read}\n", name="policy.yaml")
    assert words in str(error.value)
    assert "policy.yaml, line 2" in str(error.value)


def test_the_schema_knows_read() -> None:
    schema: Any = policy_schema()["properties"]["read"]
    assert set(schema["properties"]) == set(FULL)
    assert all(body["description"] for body in schema["properties"].values())
    whole = {"quasi": {"age": "numeric"}, "require": [{"k-anonymity": 2}]}
    assert not [*find_errors({**whole, "read": FULL}, policy_schema())]
    for wrong in ({"delimeter": ";"}, {"decimal": ";"}, ";"):
        assert [*find_errors({**whole, "read": wrong}, policy_schema())]
