"""Spans of centroids against exact arithmetic over tiny domains."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import shoal
from shoal.spans import CentroidCells, CentroidColumn, FreeColumn, Knowledge
from shoal.spans import centroids as spans_module
from tests.reference import centroids as twin

RECORDS = 4


@dataclass(frozen=True)
class Number:
    """A column of numbers in quarters: coordinates of the centroids, values of the records, and the weight of a difference."""

    name: str
    center: tuple[float, ...]
    values: tuple[float, ...]
    scale: float

    def measure(self, value: float, i: int, *, absolute: bool) -> Fraction:
        gap = (Fraction(value) - Fraction(self.center[i])) * Fraction(self.scale)
        return abs(gap) if absolute else gap**2

    def free(self) -> twin.Free:
        low, high = Fraction(min(self.values)), Fraction(max(self.values))
        return twin.Free(tuple(map(Fraction, self.center)), low, high, Fraction(self.scale))


@dataclass(frozen=True)
class Category:
    """A column of categories: the distance of every category to every centroid, and the category of every record."""

    name: str
    terms: tuple[tuple[float, ...], ...]
    codes: tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """Columns of both kinds, the names of the public ones, and the number of centroids."""

    numbers: tuple[Number, ...]
    categories: tuple[Category, ...]
    public: frozenset[str]
    count: int
    absolute: bool

    def find_slow(self) -> list[frozenset[int]]:
        """The span of every record."""
        free = [n.free() for n in self.numbers if n.name not in self.public]
        return [twin.find_reachable(self._list_constants(r), free, absolute=self.absolute) for r in range(RECORDS)]

    def _list_constants(self, record: int) -> list[twin.Vector]:
        known = [
            sum(
                (n.measure(n.values[record], i, absolute=self.absolute) for n in self.numbers if n.name in self.public),
                Fraction(0),
            )
            for i in range(self.count)
        ]
        choices = [[c.codes[record]] if c.name in self.public else sorted(set(c.codes)) for c in self.categories]
        return [
            tuple(
                known[i]
                + sum((Fraction(c.terms[v][i]) for c, v in zip(self.categories, chosen, strict=True)), Fraction(0))
                for i in range(self.count)
            )
            for chosen in itertools.product(*choices)
        ]

    def build(self) -> tuple[CentroidCells, list[Any]]:
        """The code under test: cells, and the codes of the records."""
        columns, codes = [], []
        for n in self.numbers:
            values = sorted(set(n.values))
            terms = [[float(n.measure(v, i, absolute=self.absolute)) for i in range(self.count)] for v in values]
            bounds = FreeColumn(np.array(n.center), values[0], values[-1], n.scale)
            columns.append(CentroidColumn(n.name, np.array(terms), bounds))
            codes.append(np.array([values.index(v) for v in n.values], np.int32))
        for c in self.categories:
            columns.append(CentroidColumn(c.name, np.array(c.terms)))
            codes.append(np.array(c.codes, np.int32))
        names = tuple(str(i) for i in range(self.count))
        return CentroidCells(tuple(columns), names, self.absolute), codes


quarters = st.integers(-12, 12).map(lambda n: n / 4)
few = st.sampled_from([-1.0, 0.0, 0.5, 1.0])  # equal coordinates and ties are frequent


@st.composite
def cases(draw: st.DrawFn, private: int, *, absolute: bool = False) -> Case:
    """Some private numbers, at most one public number, one public and at most two private columns of categories."""
    count = draw(st.integers(1, 5 if private < 3 else 4))
    coordinates = draw(st.sampled_from([quarters, few]))
    tuples = lambda elements, size: tuple(draw(st.lists(elements, min_size=size, max_size=size)))  # noqa: E731
    public = draw(st.integers(0, 1))
    numbers = []
    for m in range(private + public):
        width = draw(st.sampled_from([1, RECORDS]))  # one value: bounds of width 0
        values = tuples(coordinates, width) * (RECORDS // width)
        numbers.append(Number(f"n{m}", tuples(coordinates, count), values, draw(st.sampled_from([0.5, 1.0, 2.0]))))
    categories = []
    for m in range(draw(st.integers(0, 3))):
        terms = tuple(tuples(st.sampled_from([0.0, 0.25, 1.0]), count) for _ in range(3))
        categories.append(Category(f"c{m}", terms, tuples(st.integers(0, 2), RECORDS)))
    if not numbers and not categories:
        categories.append(Category("c0", ((0.0,) * count,), (0,) * RECORDS))
    return Case(
        tuple(numbers),
        tuple(categories),
        frozenset(["c0", *(f"n{m}" for m in range(private, private + public))]),
        count,
        absolute,
    )


def assert_equal(case: Case) -> None:
    cells, codes = case.build()
    found = cells.find_spans(codes, Knowledge(case.public, False))
    slow = case.find_slow()
    assert [frozenset(found.cells[s]) for s in found.span.tolist()] == slow
    assert len(set(found.cells)) == len(found.cells) == len(set(slow)), "equal sets of cells are one span"
    nearest = cells.find_nearest(codes)
    for r in range(RECORDS):
        assert nearest[r] in slow[r], "the own cluster is possible"


def make_case(numbers: list[Number], public: list[str], *, absolute: bool = False) -> Case:
    return Case(tuple(numbers), (), frozenset(public), len(numbers[0].center), absolute)


SPREAD = (-2.0, 2.0, 0.0, 1.0)


@given(case=cases(0))
def test_no_private_number(case: Case) -> None:
    assert_equal(case)


@settings(max_examples=150)
@example(case=make_case([Number("n0", (1.0, -1.0, 0.0), SPREAD, 1.0)], []))
@example(case=make_case([Number("n0", (0.0, 0.0, 0.0), SPREAD, 1.0)], []))  # one centroid three times
@example(case=make_case([Number("n0", (9.0, 0.0, 9.0), SPREAD, 1.0)], []))  # a centroid twice, out of reach
@example(case=make_case([Number("n0", (4.0, 0.0), SPREAD, 1.0)], []))  # a tie at the upper bound alone
@example(case=make_case([Number("n0", (0.0, 4.0), SPREAD, 1.0)], []))
@example(case=make_case([Number("n0", (0.0, 4.0), (2.0,) * 4, 1.0)], []))  # bounds of width 0, on a tie
@given(case=cases(1))
def test_one_private_number(case: Case) -> None:
    assert_equal(case)


@settings(max_examples=150)
@example(case=make_case([Number("n0", (1.0, -1.0, 0.0), SPREAD, 1.0)], [], absolute=True))
@example(
    case=make_case(  # between 0 and 2, both centroids have the same distance
        [Number("n0", (0.0, 2.0), SPREAD, 1.0), Number("n1", (0.0, 2.0), (1.0,) * 4, 1.0)], ["n1"], absolute=True
    )
)
@given(case=cases(1, absolute=True))
def test_one_private_number_with_absolute_differences(case: Case) -> None:
    assert_equal(case)


@given(case=cases(0, absolute=True))
def test_absolute_differences_of_public_numbers(case: Case) -> None:
    assert_equal(case)


@settings(max_examples=60)
@example(  # four centroids meet at one point: the lowest index has it
    case=make_case(
        [
            Number("n0", (1.0, -1.0, 1.0, -1.0, 0.0), SPREAD, 1.0),
            Number("n1", (1.0, 1.0, -1.0, -1.0, 0.0), SPREAD, 1.0),
        ],
        [],
    )
)
@example(case=make_case([Number("n0", (0.0, 4.0), SPREAD, 1.0), Number("n1", (0.0, 4.0), SPREAD, 1.0)], []))  # a corner
@example(case=make_case([Number("n0", (4.0, 0.0), SPREAD, 1.0), Number("n1", (4.0, 0.0), SPREAD, 1.0)], []))
@given(case=cases(2))
def test_two_private_numbers(case: Case) -> None:
    assert_equal(case)


@settings(max_examples=40)
@given(case=cases(3))
def test_three_private_numbers(case: Case) -> None:
    assert_equal(case)


@settings(max_examples=40)
@given(data=st.data())
def test_a_nearest_centroid_at_a_random_point_is_possible(data: st.DataObject) -> None:
    """Many centroids and five private numbers: too many for the twin."""
    rng = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    count, width, unit = data.draw(st.integers(2, 40)), 5, data.draw(st.sampled_from([1e-6, 1.0, 1e6]))
    center = rng.normal(size=(width, count)) * unit
    values = np.sort(rng.normal(size=(width, 30)), axis=1) * unit
    columns = [
        CentroidColumn(
            str(m),
            (values[m][:, None] - center[m][None, :]) ** 2,
            FreeColumn(center[m], values[m][0], values[m][-1]),
        )
        for m in range(width)
    ]
    cells = CentroidCells(tuple(columns), tuple(str(i) for i in range(count)))
    codes = [np.arange(30, dtype=np.int32)] * width
    found = cells.find_spans(codes, Knowledge(frozenset(["0"]), False))
    points = rng.uniform(values[:, 0], values[:, -1], (400, width))
    for record in range(30):
        points[:, 0] = values[0][record]
        nearest = ((points[:, :, None] - center[None]) ** 2).sum(axis=1).argmin(axis=1)
        assert set(nearest.tolist()) <= set(found.cells[found.span[record]])


def test_more_public_columns_never_make_more_clusters_possible() -> None:
    rng = np.random.default_rng(4)
    numbers = [
        Number(f"n{m}", tuple(rng.integers(-8, 8, 5) / 4), tuple(rng.integers(-8, 8, 4) / 4), 1.0) for m in range(3)
    ]
    previous: list[set[int]] = [set(range(5))] * RECORDS
    for known in range(4):
        cells, codes = make_case(numbers, []).build()
        found = cells.find_spans(codes, Knowledge(frozenset(f"n{m}" for m in range(known)), False))
        spans = [set(found.cells[s]) for s in found.span.tolist()]
        assert all(now <= before for now, before in zip(spans, previous, strict=True))
        previous = spans
    assert all(len(span) == 1 for span in previous)


def test_too_many_combinations_of_categories_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans_module, "MOST_WORK", 10)
    terms = ((0.0, 1.0), (1.0, 0.0), (0.5, 0.25))
    case = Case((), (Category("c0", terms, (0, 1, 2, 0)), Category("c1", terms, (0, 1, 2, 1))), frozenset(), 2, False)
    cells, codes = case.build()
    with pytest.raises(
        shoal.DataError, match=r"9 combinations of categories, too many .* Fit the model with fewer private"
    ):
        cells.find_spans(codes, Knowledge(frozenset(), False))
