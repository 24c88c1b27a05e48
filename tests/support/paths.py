"""Handmade search paths for the tests of texts, plots and pages."""

from __future__ import annotations

from typing import Literal

from shoal.recoding.search_path import AttributeNames, Refusal, SearchPath, Step

ONE: AttributeNames = ("age", "sex")
TWO: AttributeNames = ("age", "zip")
WHY = "the smallest group would have 3 records, fewer than 10"


def walk(
    steps: int,
    *,
    chosen: int | None = None,
    direction: Literal["specialize", "generalize"] = "specialize",
    sets: tuple[AttributeNames, ...] = (ONE,),
    bits: bool = True,
    refused: tuple[Refusal, ...] = (),
    records: int = 30_162,
    texts: tuple[str | None, ...] = ("Any-job", "Inside", "Outside"),
) -> SearchPath:
    """Return a path whose steps specialize the first text to the others, halve the groups and gain equal information."""

    def table(done: float) -> dict[str, float]:
        figures = {"ncp": 1 - done, "suppressed": 0.0}
        return figures | {"information": 2 * done} if bits else figures

    def smallest(done: int) -> dict[AttributeNames, int]:
        return {names: max(records >> done * (n + 1), 1) for n, names in enumerate(sets)}

    places = list(range(steps + 1)) if direction == "specialize" else list(range(steps, -1, -1))
    path = tuple(
        Step(f"job-{n}", texts[0], texts[1:], 0.25, 1234.0, 0.0005, smallest(place), table(place / max(steps, 1)))
        for n, place in enumerate(places[1:], 1)
    )
    at = steps if chosen is None else chosen
    start = smallest(places[0]), table(places[0] / max(steps, 1))
    return SearchPath(direction, path, at, *start, refused, "no remaining value can be specialized")


def refusals(attribute: str, number: int, reason: str = WHY) -> tuple[Refusal, ...]:
    return tuple(Refusal(attribute, f"{attribute}-{n}", ("left", None), reason) for n in range(number))
