"""Random anonymization (Yang, Qiao): the operator, its anonymity, and what an adversary infers."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.recoding.selection import SelectionOperator, optimal_probabilities
from tests.reference import selection as reference

AGE = ["50-60", "40-50", "30-40", "30-40", "50-60", "30-40", "50-60", "20-30", "60-70", "30-40"]
JOB = ["Doctor", "Clerk", "Clerk", "Clerk", "Trader", "Clerk", "Engineer", "Trader", "Banker", "Banker"]
COUNTRY = ["USA", "USA", "USA", "Germany", "USA", "UK", "USA", "UK", "USA", "India"]


def encode(*columns: Any) -> np.ndarray:
    return np.stack([np.unique(np.array(c), return_inverse=True)[1] for c in columns], axis=1).astype(np.int32)


def make_operator(rows: np.ndarray, replaced: int = 1, probabilities: Any = None) -> SelectionOperator:
    m = rows.shape[1]
    shares = tuple(np.bincount(rows[:, j]) / len(rows) for j in range(m))
    chosen = np.full(m, 1 / m) if probabilities is None else np.asarray(probabilities, float)
    return SelectionOperator(tuple(f"q{j}" for j in range(m)), shares, chosen, replaced)


def count(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    distinct, size = np.unique(rows, axis=0, return_counts=True)
    return distinct.astype(np.int32), size


def draw(operator: SelectionOperator, rows: np.ndarray, seed: int) -> np.ndarray:
    rng, numbers = np.random.default_rng(seed), dict[int, np.ndarray]()

    def uniform(number: int, at: Any = None) -> Any:
        return numbers.setdefault(number, rng.random(len(rows)))[slice(None) if at is None else at]

    return operator.randomize(rows, uniform)


def test_the_ten_records_of_the_paper() -> None:
    operator = make_operator(encode(AGE, JOB, COUNTRY))
    assert [sorted(s.tolist()) for s in operator.shares] == [
        [0.1, 0.1, 0.1, 0.3, 0.4],
        [0.1, 0.1, 0.2, 0.2, 0.4],
        [0.1, 0.1, 0.2, 0.6],
    ]
    assert operator.probabilistic_anonymity == pytest.approx(11.30, abs=0.005)


def test_optimal_probabilities_have_the_largest_anonymity() -> None:
    """Proposition 7."""
    rows = encode(AGE, JOB, COUNTRY)
    best = optimal_probabilities(make_operator(rows).entropies)
    reached = make_operator(rows, probabilities=best).probabilistic_anonymity
    assert reached == pytest.approx(float(np.exp(make_operator(rows).entropies).sum()))
    for seed in range(20):
        other = np.random.default_rng(seed).dirichlet(np.ones(3))
        assert make_operator(rows, probabilities=other).probabilistic_anonymity <= reached + 1e-9


def test_the_bound_of_proposition_10_does_not_hold() -> None:
    """90 x (b, x), 9 x (b, y), 1 x (a, y); released (a, x). The paper's bound is 1 / 91, about 0.011."""
    rows = np.array([(1, 0)] * 90 + [(1, 1)] * 9 + [(0, 1)], np.int32)
    found = make_operator(rows).infer(*count(rows), np.array([(0, 0)], np.int32))
    assert found.posterior[0] == pytest.approx(0.5)


def test_the_leakage_of_section_6() -> None:
    """Published: 20-30, Clerk, USA. Half of the clerks in the USA are 30-40: the paper says 17 %, above 1 / Pa. It is 50 %.

    The combination differs from every original one, and only the age can have been replaced.
    """
    rows = encode(AGE, JOB, COUNTRY)
    operator = make_operator(rows)
    half = np.mean([a == "30-40" for a, j, c in zip(AGE, JOB, COUNTRY, strict=True) if (j, c) == ("Clerk", "USA")])
    alpha = operator.selected[0] * half
    assert alpha == pytest.approx(0.17, abs=0.005) and alpha > 1 / operator.probabilistic_anonymity
    published = rows[[2]].copy()  # 30-40, Clerk, USA
    published[0, 0] = rows[7, 0]  # 20-30
    assert operator.infer(*count(rows), published).posterior[0] == pytest.approx(0.5)


def test_one_amplification_by_hand() -> None:
    """(b, x) is published. It can come from (b, x) with (0.99 + 0.9) / 2, from (b, y) with 0.9 / 2, and not from (a, y)."""
    rows = np.array([(1, 0)] * 90 + [(1, 1)] * 9 + [(0, 1)], np.int32)
    found = make_operator(rows).infer(*count(rows), np.array([(1, 0), (0, 1)], np.int32)).amplification
    assert found is not None and found.tolist() == pytest.approx([(0.99 + 0.9) / 0.9, (0.01 + 0.1) / 0.01])
    every = make_operator(rows, 2).infer(*count(rows), np.array([(1, 0), (0, 1)], np.int32)).amplification
    assert every is not None and every.tolist() == pytest.approx([1, 1]), "all attributes are replaced"


def test_amplification_is_left_out_if_it_needs_too_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.recoding.selection.MOST_COUNTS", 7)
    rows = encode(AGE, JOB, COUNTRY)
    assert make_operator(rows).infer(*count(rows), rows[:2]).amplification is None
    assert make_operator(rows).infer(*count(rows), rows[:1]).amplification is not None


@pytest.mark.parametrize("length", [1, 2, 3])
def test_bias_and_variance_of_published_supports(length: int) -> None:
    """Equation 10, and equation 11 with its missing factor 1 / n, within five standard errors over 4,000 releases."""
    rng, releases = np.random.default_rng(8), 4000
    first = rng.integers(0, 3, 200)
    rows = np.stack([first, (first + rng.integers(0, 2, 200)) % 3, rng.integers(0, 2, 200)], axis=1).astype(np.int32)
    operator, n, m = make_operator(rows), 200, 3
    q = rows[0, :length]
    matches = rows[:, :length] == q
    s = matches.all(axis=1).mean()
    without = np.array([np.delete(matches, i, axis=1).all(axis=1).mean() for i in range(length)])
    share = np.array([operator.shares[i][q[i]] for i in range(length)])
    published = draw(operator, np.tile(rows, (releases, 1)), 4).reshape(releases, n, m)
    ratio = (published[:, :, :length] == q).all(axis=2).mean(axis=1) / s - 1
    bias = (without * share / s - 1).sum() / m
    stay = 1 - (1 - share).sum() / m
    drawn = share / m
    variance = (s * stay * (1 - stay) + ((without - s) * drawn * (1 - drawn)).sum()) / (n * s**2)
    assert ratio.mean() == pytest.approx(bias, abs=5 * (variance / releases) ** 0.5)
    assert ratio.var() == pytest.approx(variance, rel=5 * (2 / releases) ** 0.5)


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, int, list[Fraction]]:
    m = draw(st.integers(1, 4))
    row = st.tuples(*[st.integers(0, draw(st.integers(0, 2))) for _ in range(m)])
    rows = draw(st.lists(row, min_size=1, max_size=12))
    replaced = draw(st.integers(1, m))
    weights = draw(st.lists(st.integers(0, 3), min_size=m, max_size=m).filter(sum))
    return np.array(rows, np.int32).reshape(-1, m), replaced, [Fraction(w, sum(weights)) for w in weights]


@given(tables())
def test_posteriors_are_those_of_the_definition(given: tuple[np.ndarray, int, list[Fraction]]) -> None:
    rows, replaced, probabilities = given
    operator = make_operator(rows, replaced, probabilities)
    distinct, size = count(rows)
    domain = np.array(list(product(*(range(len(s)) for s in operator.shares))), np.int32)
    found = operator.infer(distinct, size, domain)
    originals = [tuple(r) for r in rows.tolist()]
    for i, published in enumerate(domain.tolist()):
        expected = reference.infer(originals, tuple(published), probabilities, replaced)
        assert found.posterior[i] == pytest.approx(float(max(expected.values())))
        assert found.amplification is not None
        ratio = reference.amplify(originals, tuple(published), probabilities, replaced)
        assert found.amplification[i] == pytest.approx(float(ratio))
        if max(expected.values()):
            assert expected[tuple(distinct[found.guess[i]].tolist())] == pytest.approx(float(max(expected.values())))


@given(tables(), st.integers(0, 99))
def test_exactly_some_attributes_are_drawn(given: tuple[np.ndarray, int, list[Fraction]], seed: int) -> None:
    rows, replaced, probabilities = given
    operator = make_operator(rows, replaced, probabilities)
    published = draw(operator, rows, seed)
    assert published.dtype == rows.dtype and ((published != rows).sum(axis=1) <= replaced).all()
    for j, share in enumerate(operator.shares):
        assert (share[published[:, j]] > 0).all(), "a value that does not occur is never drawn"
    assert operator.infer(*count(rows), published).posterior.min() > 0, "a released combination can arise"


@pytest.mark.parametrize("replaced", [1, 2, 3])
def test_every_transition_is_as_frequent_as_it_should_be(replaced: int) -> None:
    """Each of two combinations is published 60,000 times; the shares lie within five standard errors."""
    rows = np.repeat(np.array([(0, 0, 0), (1, 1, 0), (1, 0, 1)], np.int32), [60_000, 60_000, 60_000], axis=0)
    probabilities = [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)]
    operator = make_operator(rows, replaced, probabilities)
    shares = [{c: Fraction(s).limit_denominator(9) for c, s in enumerate(share.tolist())} for share in operator.shares]
    published = draw(operator, rows, 7)
    for q in ((0, 0, 0), (1, 1, 0), (1, 0, 1)):
        own = published[(rows == q).all(axis=1)]
        for other in product(range(2), repeat=3):
            expected = float(reference.become(q, other, shares, probabilities, replaced))
            error = (expected * (1 - expected) / len(own)) ** 0.5
            assert (own == other).all(axis=1).mean() == pytest.approx(expected, abs=5 * error + 1e-12)
