"""The induction of trees against its slow twin."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shoal.encoding.attributes import Attribute
from shoal.mining.grow import Attacker, LearningTable, induce_tree, list_levels
from shoal.requirements import KAnonymity, TableDistribution
from shoal.taxonomy import Taxonomy
from tests.reference import tree_induction as twin


@st.composite
def numbers(draw: st.DrawFn) -> Attribute:
    values = sorted(draw(st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True)))
    position = [float(v) for v in values] + [np.inf] * draw(st.booleans())
    return Attribute("n", "numeric", np.array(position), None, 1.0)


@st.composite
def categories(draw: st.DrawFn) -> Attribute:
    shape = draw(
        st.sampled_from(
            [
                {"ANY": ["a", "b", "c"]},
                {"ANY": {"x": ["a", "b"], "y": ["c"]}},
                {"ANY": {"x": {"p": ["a", "b"], "q": ["c"]}, "y": ["d"]}},
                {"ANY": {"x": {"p": ["a"]}, "y": ["d", "e"]}},
                {"ANY": ["a"]},
            ]
        )
    )
    tree = Taxonomy.from_nested(shape)
    position = np.arange(tree.size, dtype=np.float64)
    if draw(st.booleans()):
        tree, position = tree.with_missing(), np.append(position, np.inf)
    return Attribute("c", "categorical", position, tree, 1.0)


@st.composite
def tables(draw: st.DrawFn) -> tuple[LearningTable, list[bool]]:
    features = draw(st.lists(st.one_of(numbers(), categories()), min_size=1, max_size=3))
    public = [draw(st.booleans()) for _ in features]
    row = st.tuples(*(st.integers(0, f.size - 1) for f in features), st.integers(0, 2))
    rows = sorted(draw(st.dictionaries(row, st.integers(1, 4), min_size=1, max_size=14)).items())
    named = tuple(Attribute(f"f{j}", f.kind, f.position, f.taxonomy, 1.0) for j, f in enumerate(features))
    codes = np.array([r[:-1] for r, _ in rows], np.int32)
    records = np.array([n for _, n in rows], np.int64)
    empty = TableDistribution((), (), np.zeros(0))
    classes = np.array([r[-1] for r, _ in rows], np.int32)
    table = LearningTable(
        named, codes, classes, ("p", "q", "r"), np.zeros((len(rows), 0), np.int32), empty, records, records
    )
    return table, public


def as_twin(table: LearningTable, public: list[bool]) -> tuple[list[twin.Row], list[twin.Feature]]:
    features = []
    for feature, is_public in zip(table.features, public, strict=True):
        levels: tuple[tuple[tuple[int, ...], ...], ...] = ()
        if feature.taxonomy is not None:
            first, last = list_levels(feature.taxonomy)
            blocks = [sorted(set(zip(f.tolist(), e.tolist(), strict=True))) for f, e in zip(first, last, strict=True)]
            levels = tuple(tuple(tuple(range(low, high + 1)) for low, high in level) for level in blocks)
        features.append(twin.Feature(feature.size, levels, tuple(feature.position.tolist()), is_public))
    rows = [
        twin.Row(tuple(codes), label, count)
        for codes, label, count in zip(
            table.codes.tolist(), table.classes.tolist(), table.records.tolist(), strict=True
        )
    ]
    return rows, features


def leaves_of_twin(tree: twin.Tree, rows: list[twin.Row]) -> list[int]:
    return [twin.find_leaf(tree, row.codes) for row in rows]


@given(tables(), st.integers(1, 6), st.booleans(), st.booleans())
def test_same_tree_as_the_slow_twin(
    drawn: tuple[LearningTable, list[bool]], k: int, class_known: bool, spare_single: bool
) -> None:
    table, public = drawn
    rows, features = as_twin(table, public)
    known = frozenset(f.name for f, is_public in zip(table.features, public, strict=True) if is_public)
    expected = twin.grow(rows, features, k, class_known=class_known, spare_single=spare_single)
    attacker = Attacker(known, class_known, (KAnonymity(k),))
    found = induce_tree(table, [attacker], rule="claim3" if spare_single else "all")
    if expected is None:
        assert found is None
        return
    assert found is not None
    assert found.leaf.tolist() == leaves_of_twin(expected, rows)
    assert found.nodes.attribute.tolist() == [-1 if node is None else node[0] for _, node in sorted(expected.items())]
