"""The path of a release as text: the values that were specialized or generalized, and the reasons for the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shoal.formats.numbers import format_count
from shoal.recoding.search_path import AttributeNames, Refusal, SearchPath, Step
from shoal.report.formatting import describe_change, format_figure, format_label, join_labels, name_sets

MOST_VALUES, REASON_WIDTH = 3, 200  # refused values per attribute; characters of a reason
RELEASE_MARK = "---- the release is the table at this point ----"
OWNER_ONLY = "For the data owner only: this text contains values of the original table."
REOPENED = "Specialized again, because the requirements hold without these generalizations:"
PARTICIPLE = {"specialize": "specialized", "generalize": "generalized"}


def explain(path: SearchPath) -> str:
    """Describe the path as text, for the data owner only: labels are original values, also values that the release hides.

    Every step has its number, the attribute, the value and its children (long lists are shortened), its gain, loss and score,
    and the smallest group after the step for every attribute set. A line marks the release. The text then lists the first
    values of each attribute that were not specialized, with the reason, and the reason that the path ended. A missing value is
    written as ``(missing)``; control characters are escaped.
    """
    parts = (_format_head(path), _format_steps(path), _format_refusals(path), _format_end(path))
    return "\n\n".join(text for text in ("\n".join(part) for part in parts) if text)


def summarize(path: SearchPath) -> str:
    """State the number of steps, and which table of the path was released.

    >>> summarize(SearchPath("specialize", (), 0, {("age",): 9}, {"ncp": 1.0}, (), ""))
    'No value was specialized. The release is the table before the first step.'
    """
    steps, verb = len(path), PARTICIPLE[path.direction]
    if not steps:
        return f"No value was {verb}. The release is the table before the first step."
    count = f"{format_count(steps, 'value')} {'was' if steps == 1 else 'were'} {verb}{', one per step' * (steps > 1)}"
    if path.chosen == steps:
        return f"{count}. The release is the table after the last step."
    where = f"after step {path.chosen:,} of {steps:,}" if path.chosen else "before the first step"
    return f"{count}. The release is the table {where}; later steps are not part of it."


def group_refusals(path: SearchPath) -> dict[str, list[Refusal]]:
    """Return the refused values by attribute, in order."""
    refusals: dict[str, list[Refusal]] = {}
    for refusal in path.refusals:
        refusals.setdefault(refusal.attribute, []).append(refusal)
    return refusals


def title_refusals(path: SearchPath) -> str:
    """Return the heading of the list of refused values."""
    return f"Not {PARTICIPLE[path.direction]} further: {format_count(len(path.refusals), 'value')}"


def _format_head(path: SearchPath) -> Iterator[str]:
    yield OWNER_ONLY
    yield summarize(path)
    names = name_sets(path)
    if len(names) > 1:
        yield "Groups are counted for each set of quasi-identifiers:"
        yield from (f"  {name}: {join_labels(attributes, len(attributes))}" for attributes, name in names.items())
    yield f"Before the first step: {_format_smallest(path.smallest, names)}"


def _format_steps(path: SearchPath) -> Iterator[str]:
    names, width = name_sets(path), len(f"{len(path):,}") + 2
    if path.steps and not path.chosen:
        yield f"{'':{width}}  {RELEASE_MARK}"
    for number, step in enumerate(path, 1):
        yield f"{number:{width},}. {format_label(step.attribute)}: {describe_change(step, path.direction)}"
        yield f"{'':{width}}  {_format_gain_and_loss(step, path.direction)}; {_format_smallest(step.smallest, names)}"
        if number == path.chosen:
            yield f"{'':{width}}  {RELEASE_MARK}"


def name_gain_and_loss(measures: Mapping[str, float], direction: str) -> tuple[str, str]:
    """Name the gain and the loss of a step: of information if there is a target, else of NCP.

    >>> name_gain_and_loss({"ncp": 0.5}, "specialize")
    ('NCP reduction', 'anonymity loss')
    """
    has_target = "information" in measures
    if direction == "specialize":
        return ("information gain" if has_target else "NCP reduction"), "anonymity loss"
    return "anonymity gain", ("information loss" if has_target else "NCP increase")


def _format_gain_and_loss(step: Step, direction: str) -> str:
    gain, loss = name_gain_and_loss(step.measures, direction)
    return f"{gain} {format_figure(step.gain)}, {loss} {format_figure(step.loss)}, score {format_figure(step.score)}"


def _format_smallest(sizes: Mapping[AttributeNames, int], names: Mapping[AttributeNames, str]) -> str:
    records = [
        f"{format_count(sizes[key], 'record')}{f' ({name})' * bool(name)}"
        for key, name in names.items()
        if key in sizes
    ]
    return f"smallest group {', '.join(records)}"


def _format_refusals(path: SearchPath) -> Iterator[str]:
    if path.refusals:
        yield title_refusals(path)
    for attribute, refusals in group_refusals(path).items():
        yield f"  {format_label(attribute)}, {format_count(len(refusals), 'value')}"
        for refusal in refusals[:MOST_VALUES]:
            yield f"    {describe_change(refusal, path.direction)}: {format_label(refusal.reason, REASON_WIDTH)}"
        if len(refusals) > MOST_VALUES:
            yield f"    and {len(refusals) - MOST_VALUES:,} more"


def _format_end(path: SearchPath) -> Iterator[str]:
    if path.stop_reason:
        yield f"Why the path ended: {format_label(path.stop_reason, REASON_WIDTH)}"
    if path.reopened:
        yield REOPENED
        yield from describe_reopened(path)


def describe_reopened(path: SearchPath) -> list[str]:
    """Describe the values that were specialized again after a generalization."""
    return [f"  {format_label(step.attribute)}: {describe_change(step, 'specialize')}" for step in path.reopened]
