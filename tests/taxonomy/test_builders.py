"""Tree builders: intervals nest and contain their numbers exactly; invalid parameters are errors; JSON round trip."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import PolicyError
from shoal.taxonomy import Balanced, Boundaries, DateParts, Mask, Taxonomy, TreeBuilder, Widths, parse_tree_builder

numbers = st.one_of(st.integers(-1000, 1000), st.integers(-(10**6), 10**6).map(lambda n: n / 100))
BUILDERS = [
    Mask("left"),
    DateParts(("day", "year")),
    Widths((0.5, 10), 0.25),
    Boundaries(((18, 30), (18,))),
    Balanced(3),
    Balanced(2, numeric=True),
]


def ends(label: str) -> tuple[float, float]:
    low, high = label[1:-1].split(", ")
    return float(low), float(high)


@st.composite
def widths(draw: st.DrawFn) -> Widths:
    first = draw(st.one_of(st.integers(1, 50), st.integers(1, 50).map(lambda n: n / 10)))
    found = [first]
    for times in draw(st.lists(st.integers(2, 5), max_size=3)):
        found.append(round(found[-1] * times, 6))
    return Widths(tuple(found), draw(st.sampled_from([0.0, 1.0, -7.0, 0.3, 2.25])))


@st.composite
def boundaries(draw: st.DrawFn) -> Boundaries:
    found = [sorted(draw(st.sets(numbers, min_size=1, max_size=8)))]
    while len(found[-1]) > 1 and draw(st.booleans()):
        size = len(found[-1]) - 1
        found.append(sorted(draw(st.sets(st.sampled_from(found[-1]), min_size=1, max_size=size))))
    return Boundaries(tuple(map(tuple, found)))


@given(builder=st.one_of(widths(), boundaries()), value=numbers)
def test_intervals_hold_the_number_and_nest(builder: TreeBuilder, value: float) -> None:
    leaf, *above = builder.path(value)
    if isinstance(builder, Widths):
        above = [leaf, *above]
        assert builder.key(leaf) == ends(leaf)[0]
    else:
        assert float(leaf) == value == builder.key(leaf)
    assert above
    for label in above:
        low, high = ends(label)
        assert low <= value < high
        assert label.startswith("(" if low == -inf else "[")
    for fine, coarse in pairwise(map(ends, above)):
        assert coarse[0] <= fine[0] < fine[1] <= coarse[1]


@given(builder=widths(), value=numbers)
def test_intervals_have_the_width_and_origin(builder: Widths, value: float) -> None:
    for width, label in zip(builder.widths, builder.path(value), strict=True):
        low, high = ends(label)
        assert high - low == pytest.approx(width, abs=1e-9)
        steps = (low - builder.origin) / width
        assert steps == pytest.approx(round(steps), abs=1e-6)


@given(builder=st.one_of(widths(), boundaries()), values=st.lists(numbers, min_size=1, max_size=20))
def test_a_tree_of_intervals_has_every_number_once_in_order(builder: TreeBuilder, values: list[float]) -> None:
    paths = [builder.path(v) for v in values]
    tree = builder.tree(paths, [1] * len(paths), column="x")
    assert [builder.key(str(leaf)) for leaf in tree.leaves] == sorted({builder.key(path[0]) for path in paths})
    if isinstance(builder, Boundaries):
        assert [float(str(leaf)) for leaf in tree.leaves] == sorted(set(values))
    assert tree.derived
    for path in paths:
        node, found = int(tree.leaf[tree.code[path[0]]]), []
        while node:
            found.append(tree.label[node])
            node = int(tree.parent[node])
        assert found == list(dict.fromkeys(path))  # an interval that no list divides further is repeated


@pytest.mark.parametrize(
    ("builder", "value", "path"),
    [
        (Widths((5, 10, 20)), 23, ["[20, 25)", "[20, 30)", "[20, 40)"]),
        (Widths((5, 10)), -1, ["[-5, 0)", "[-10, 0)"]),
        (Widths((5, 10), 3), 23, ["[23, 28)", "[23, 33)"]),
        (Widths((0.1, 0.3)), 0.3, ["[0.3, 0.4)", "[0.3, 0.6)"]),
        (Widths((0.1,)), 0.7, ["[0.7, 0.8)"]),
        (Widths((0.25,), 0.1), 0.35, ["[0.35, 0.6)"]),
        (Boundaries(((18, 30, 45, 65),)), 17.9, ["17.9", "(-inf, 18)"]),
        (Boundaries(((18, 30, 45, 65),)), 18, ["18", "[18, 30)"]),
        (Boundaries(((18, 30, 45, 65), (18, 65), (18,))), 65, ["65", "[65, inf)", "[65, inf)", "[18, inf)"]),
    ],
    ids=str,
)
def test_paths_of_numbers(builder: TreeBuilder, value: float, path: list[str]) -> None:
    assert builder.path(value) == path


def test_long_texts_are_not_masked() -> None:
    assert Mask("right").path("x" * 100)[-1] == "x" + "*" * 99
    assert Mask("right").path("x" * 101) == ["x" * 101]
    assert Mask("left").path("") == [""]


@pytest.mark.parametrize(
    ("kind", "given_values", "text"),
    [
        (Widths, ((5, 12),), "12 is no multiple of 5"),
        (Widths, ((10, 5),), "5 is no multiple of 10"),
        (Widths, ((5, 5),), "no multiple"),
        (Widths, ((),), "positive numbers from fine to coarse"),
        (Widths, ((0, 5),), "positive numbers"),
        (Widths, ((float("inf"),),), "positive numbers"),
        (Widths, ((float("nan"),),), "positive numbers"),
        (Widths, ((5,), float("nan")), "'origin'"),
        (Boundaries, ((),), r"ascending order, not \[\]"),
        (Boundaries, (((),),), "ascending order"),
        (Boundaries, (((30, 18),),), r"ascending order, not \[30, 18\]"),
        (Boundaries, (((18, 18),),), "ascending order"),
        (Boundaries, (((18, float("inf")),),), "ascending order"),
        (Boundaries, (((18, 30), (20,)),), r"\[20\] is not a proper subset of \[18, 30\]"),
        (Boundaries, (((18, 30), (18, 30)),), "not a proper subset"),
        (Mask, ("middle",), "'right', 'left'"),
        (DateParts, (("hour",),), "choose from day, week"),
        (Balanced, (1,), "at least 2, not 1"),
        (Balanced, (True,), "at least 2"),
    ],
    ids=str,
)
def test_parameters_that_do_not_nest_are_refused(
    kind: type[TreeBuilder], given_values: tuple[Any, ...], text: str
) -> None:
    with pytest.raises(PolicyError, match=text):
        kind(*given_values)


@pytest.mark.parametrize("builder", BUILDERS, ids=str)
def test_plain_values_read_back(builder: TreeBuilder) -> None:
    assert parse_tree_builder(builder.to_dict()) == builder
    assert (
        parse_tree_builder({**dict.fromkeys(("mask", "date", "widths", "boundaries", "balanced")), **builder.to_dict()})
        == builder
    )


@pytest.mark.parametrize("builder", BUILDERS, ids=str)
def test_no_values_make_a_root(builder: TreeBuilder) -> None:
    assert builder.tree([], [], column="x") == Taxonomy.flat([])
