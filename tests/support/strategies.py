"""Hypothesis strategies for several tests: words that file formats misread, taxonomies, policies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

import shoal
from shoal.policy.columns import PARTS

ODD = (
    *(
        "NO",
        "yes",
        "007",
        "12:30",
        "1e3",
        "1.0",
        "null",
        "~",
        "true",
        "2024-01-31",
        "a, b",
        "a; b",
        "x: y",
        "#",
        "-",
        "&a",
    ),
    *(
        "*a",
        "!t",
        "{",
        "[1, 2]",
        "it's",
        'say "so"',
        "ü",
        "名",
        "a b",
        "?",
        "%",
        "@",
        "|",
        ">",
        "=",
        "<<",
        "\\",
        "é\u0301",
    ),
)

words = st.one_of(st.sampled_from(ODD), st.text("abcABC019.-_", min_size=1, max_size=5))


def different(size: int, most: int | None = None) -> st.SearchStrategy[list[str]]:
    """Words that all differ: one that comes again gets a number."""
    return st.lists(words, min_size=size, max_size=most or size).map(
        lambda drawn: [word if word not in drawn[:i] else f"{word} no. {i}" for i, word in enumerate(drawn)]
    )


@dataclass(frozen=True)
class Tree:
    """A nested tree as Python would write it, and the way from the root to every leaf, in depth-first order."""

    nested: dict[str, Any]
    ways: tuple[tuple[str, ...], ...]

    @property
    def nodes(self) -> list[tuple[str, ...]]:
        """Every node as the way to it, in depth-first order."""
        return list(dict.fromkeys(way[: end + 1] for way in self.ways for end in range(len(way))))


@st.composite
def trees(draw: st.DrawFn, *, leaves: int = 14) -> Tree:
    """Unbalanced trees with one-child branches; all labels differ."""
    below = st.recursive(st.none(), lambda part: st.lists(part, min_size=1, max_size=4), max_leaves=leaves)
    shape = draw(st.lists(below, min_size=1, max_size=4))
    count = 1 + _count(shape)
    labels = iter(draw(different(count)))
    root = next(labels)
    nested = {root: _named(shape, labels)}
    return Tree(nested, tuple(_ways(nested, ())))


def _count(shape: list[Any] | None) -> int:
    return sum(1 + _count(part) for part in shape or ())


def _named(shape: list[Any], labels: Iterator[str]) -> Any:
    named = [(next(labels), None if part is None else _named(part, labels)) for part in shape]
    if all(body is None for _, body in named):
        return [name for name, _ in named]
    if all(body is not None for _, body in named):
        return dict(named)
    return [name if body is None else {name: body} for name, body in named]


def _ways(body: Any, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(body, str):
        yield (*above, body)
    elif isinstance(body, dict):
        for name, part in body.items():
            yield from _ways(part, (*above, name))
    else:
        for part in body:
            yield from _ways(part, above)


@st.composite
def quasis(draw: st.DrawFn) -> Any:
    """Values of one quasi-identifier in a policy."""
    way = draw(st.sampled_from(["short", "bounds", "mask", "date", "taxonomy"]))
    if way == "short":
        return draw(st.sampled_from(["numeric", "categorical", "date"]))
    if way == "bounds":
        low = draw(st.integers(-1000, 1000)) / draw(st.sampled_from([1, 4]))
        return {"kind": "numeric", "bounds": [low, low + draw(st.integers(1, 10**9))]}
    if way == "mask":
        return {"mask": draw(st.sampled_from(["left", "right"]))}
    if way == "date":
        coarse = draw(st.sampled_from([("month", "quarter"), ("week",)]))
        allowed = [part for part in PARTS if part not in coarse]
        chosen = draw(st.sets(st.sampled_from(allowed), min_size=1))
        return {"date": [part for part in PARTS if part in chosen]}
    return {"taxonomy": draw(trees(leaves=6)).nested}


@st.composite
def policies(draw: st.DrawFn) -> shoal.Policy:
    """Policies of every shape that holds together."""
    columns = draw(different(3, 8))
    quasi, others = columns[:2], columns[2:]
    roles = [draw(st.sampled_from(["identifiers", "sensitive", "keep"])) for _ in others]
    given: dict[str, Any] = {role: [c for c, r in zip(others, roles, strict=True) if r == role] for role in roles}
    kept = given.get("keep", [])
    released = [c for c in columns if c not in given.get("identifiers", ())]
    target = draw(st.one_of(st.none(), st.sampled_from(released), st.just("another column")))
    sensitive = [*given.get("sensitive", ()), *([target] if target and target not in quasi else [])]
    return shoal.Policy(
        quasi={column: draw(quasis()) for column in quasi},
        target=target,
        missing=draw(st.lists(st.one_of(words, st.just("")), max_size=3, unique=True)),
        normalize=draw(st.lists(st.sampled_from(sensitive), unique=True)) if sensitive else (),
        require=draw(st.lists(requirements(quasi, sensitive), max_size=4)),
        suppress=draw(st.sampled_from([0.0, 0.02, 0.5, 1.0])),
        accept=draw(st.dictionaries(st.sampled_from(kept), words.filter(str.strip))) if kept else {},
        **given,
    )


def requirements(quasi: list[str], sensitive: list[str]) -> st.SearchStrategy[Any]:
    """Requirements on sets of these quasi-identifiers, of these sensitive attributes."""
    on = st.one_of(st.none(), st.lists(st.sampled_from(quasi), min_size=1, unique=True))
    found: list[st.SearchStrategy[Any]] = [st.builds(shoal.KAnonymity, st.integers(1, 100), on=on)]
    if sensitive:
        of = st.sampled_from(sensitive)
        count = st.integers(1, 9)
        found += [
            st.builds(shoal.LDiversity, count, of=of, kind=st.sampled_from(["distinct", "entropy"]), on=on),
            st.builds(shoal.LDiversity, count, of=of, kind=st.just("recursive"), c=st.sampled_from([0.5, 3.0]), on=on),
            st.builds(
                shoal.TCloseness,
                st.floats(0, 1),
                of=of,
                distance=st.sampled_from(["equal", "ordered"]),
                on=on,
            ),
        ]
    return st.one_of(found)
