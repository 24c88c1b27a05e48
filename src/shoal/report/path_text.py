"""The path of a release in words: which values were opened or closed, and why the rest was left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shoal.recoding.search_path import AttributeNames, Refusal, SearchPath, Step
from shoal.report.formatting import describe_change, format_count, format_figure, format_label, join_labels, name_sets

REFUSED, REASON = 3, 200
HERE = "---- the release stands here ----"
OWNER = "For the owner alone: what follows holds values of the original table."
DONE = {"open": "opened", "close": "closed"}


def explain(path: SearchPath) -> str:
    """The path in plain words, for the owner alone: its labels are raw values, also such as the release hides.

    Every step has its number, the attribute, the value and its children (long lists shortened), what it gained and lost, its
    score, and the smallest group after it for every set of identifiers; a line marks where the release stands. Then come the
    values that were left, the first of each attribute with the reason, and why the path ended. A missing value is shown as
    ``(missing)``; signs that a terminal would obey are written out.
    """
    parts = (_head(path), _steps(path), _left(path), _end(path))
    return "\n\n".join(text for text in ("\n".join(part) for part in parts) if text)


def standing(path: SearchPath) -> str:
    """How long the path is and where on it the release stands.

    >>> standing(SearchPath("open", (), 0, {("age",): 9}, {"ncp": 1.0}, (), ""))
    'No value was opened; the release stands at the start.'
    """
    steps, done = len(path), DONE[path.direction]
    if not steps:
        return f"No value was {done}; the release stands at the start."
    many = (
        f"{format_count(steps, 'value')} {'was' if steps == 1 else 'were'} {done}{', one after another' * (steps > 1)}"
    )
    if path.chosen == steps:
        return f"{many}; the release stands after the last step."
    where = f"after step {path.chosen:,} of {steps:,}" if path.chosen else "at the start"
    return f"{many}; the release stands {where}: what comes later is not in it."


def by_attribute(path: SearchPath) -> dict[str, list[Refusal]]:
    """The values that were left, by attribute, in their order."""
    found: dict[str, list[Refusal]] = {}
    for refusal in path.refused:
        found.setdefault(refusal.attribute, []).append(refusal)
    return found


def left(path: SearchPath) -> str:
    """A heading for the values that were left."""
    return f"Not {DONE[path.direction]} any further: {format_count(len(path.refused), 'value')}"


def _head(path: SearchPath) -> Iterator[str]:
    yield OWNER
    yield standing(path)
    names = name_sets(path)
    if len(names) > 1:
        yield "Groups are counted for each set of identifiers:"
        yield from (f"  {name}: {join_labels(found, len(found))}" for found, name in names.items())
    yield f"Before the first step: {_smallest(path.smallest, names)}"


def _steps(path: SearchPath) -> Iterator[str]:
    names, width = name_sets(path), len(f"{len(path):,}") + 2
    if path.steps and not path.chosen:
        yield f"{'':{width}}  {HERE}"
    for number, step in enumerate(path, 1):
        yield f"{number:{width},}. {format_label(step.attribute)}: {describe_change(step, path.direction)}"
        yield f"{'':{width}}  {_worth(step, path.direction)}; {_smallest(step.smallest, names)}"
        if number == path.chosen:
            yield f"{'':{width}}  {HERE}"


def worth(measures: Mapping[str, float], direction: str) -> tuple[str, str]:
    """What a step gains and loses, in words: information where there is a target, else certainty."""
    told = "information" if "information" in measures else "certainty"
    return (f"{told} gained", "anonymity lost") if direction == "open" else ("anonymity gained", f"{told} lost")


def _worth(step: Step, direction: str) -> str:
    gained, lost = worth(step.measures, direction)
    return f"{gained} {format_figure(step.gain)}, {lost} {format_figure(step.loss)}, score {format_figure(step.score)}"


def _smallest(sizes: Mapping[AttributeNames, int], names: Mapping[AttributeNames, str]) -> str:
    found = [f"{sizes[key]:,}{f' ({name})' * bool(name)}" for key, name in names.items() if key in sizes]
    return f"smallest group {', '.join(found)}"


def _left(path: SearchPath) -> Iterator[str]:
    if path.refused:
        yield left(path)
    for attribute, refused in by_attribute(path).items():
        yield f"  {format_label(attribute)}, {format_count(len(refused), 'value')}"
        for r in refused[:REFUSED]:
            yield f"    {describe_change(r, path.direction)}: {format_label(r.reason, REASON)}"
        if len(refused) > REFUSED:
            yield f"    and {len(refused) - REFUSED:,} more"


def _end(path: SearchPath) -> Iterator[str]:
    if path.ended:
        yield f"Why the path ended: {format_label(path.ended, REASON)}"
