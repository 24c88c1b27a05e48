"""The certificate of a model: its requirements as tested on the spans of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from shoal.errors import escape_invisible
from shoal.formats.html_text import escape_markup, render_list, render_table, render_view
from shoal.formats.numbers import format_count
from shoal.models.span_reports import SpanList, SpanReport
from shoal.requirements import Certificate

PRIVATE = ("spans", "single_records", "certain", "confident", "confidence", "distinct", "entropy", "tree_smallest")
MOST_WRITTEN = 100  # cells of a span in the file of the owner
MOST_SHOWN = 10  # spans in the text of a certificate
RULE_NOTES = {
    "claim3": "a span of a single cell shows nothing private, so it need not meet the requirements",
    "all": "spans of a single cell must meet the requirements, too",
}
SPARED_CLUSTERS = "spans of a single cluster are not tested, although its centroid shows private values"
POPULATIONS_NOTES = {
    "bins": "the number of records of every class in every leaf is published",
    "frequencies": "the share of every class in every leaf is published; with the number of people of a span, which attackers "
    "know, it tells as much as the number of records",
    "majority": "the most frequent class of every leaf is published, and no numbers",
    "nothing": "no statistics of the leaves are published",
    "clusters": "the centroids and the number of records of every cluster are published",
    "outputs": "the predictions are published, and nothing else about the model",
    "rules": "the support and the confidence of every rule are published, with the number of records",
    "supports": "the support of every itemset is published",
}
SUPPORTS_RULE_NOTES = {
    "claim3": "a group that is described by public items alone shows nothing private, so it need not meet the requirements",
    "all": "groups that are described by public items alone must meet the requirements, too",
}


@dataclass(frozen=True, repr=False)
class ModelCertificate(Certificate):
    """The requirements as tested on the spans of a model (Friedman, Wolff, Schuster: Claim 3).

    ``smallest`` is the k that the model reaches: the size of its smallest span of several cells; all records if every span is a
    single cell, because such spans show nothing private. ``groups`` is the number of spans that must meet the requirements,
    ``single_spans`` and ``single_records`` count the others. ``rule`` and ``populations`` are the parameters of the audit.

    ``certain`` is the number of records whose class, or another private value that the model tests, is the same in the whole
    span, so that everybody knows it. ``confident`` counts the records of spans in which one value has a larger share than
    ``confidence``. ``distinct`` and ``entropy`` are the least diversity of the classes in a span: the number of classes, and
    the l of entropy l-diversity.

    ``tree_smallest`` is the k that each tree of an ensemble reaches alone; ``smallest`` is that of all trees together.

    ``fits``: the model holds the numbers of records of this table in its leaves. If not, it was fitted on other records, and
    it is not ``publishable``.

    For itemsets, ``smallest`` is the size of the smallest group with people that follows from the published supports and is
    described by a private item, ``groups`` is the number of these groups, and ``spans`` are the groups that fail.

    ``spans`` and ``failing`` are for the owner only: they show numbers that the model does not publish. `to_dict` and the
    published files do not contain them.
    """

    rule: str = "claim3"
    populations: str = "bins"
    single_spans: int = 0
    single_records: int = 0
    certain: int = 0
    confident: int = 0
    confidence: float = 0.9
    distinct: int = 0
    entropy: float = 0.0
    tree_smallest: tuple[int, ...] = ()
    fits: bool = True
    spans: Sequence[SpanReport] = field(default=(), repr=False)

    @property
    def failing(self) -> tuple[SpanReport, ...]:
        """The spans that fail a requirement."""
        spans = self.spans
        return spans.failing if isinstance(spans, SpanList) else tuple(span for span in spans if not span.holds)

    @property
    def publishable(self) -> bool:
        """Whether every requirement holds, for the records that the model was fitted on."""
        return super().publishable and self.fits

    @property
    def verdict(self) -> str:
        """The verdict in a few words."""
        return "holds, but not for the records of the model" if self.holds and not self.fits else super().verdict

    @property
    def counts(self) -> str:
        """The number of records, and of spans, as text."""
        people = "" if self.people is None else f" of {format_count(self.people, 'person', 'people')}"
        noun = "group" if self.populations == "supports" else "span"
        return (
            f"{format_count(self.records, 'record')}{people} in {format_count(self.groups + self.single_spans, noun)}"
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """Notes on the rule and the published statistics, then the warnings of every certificate."""
        notes = SUPPORTS_RULE_NOTES if self.populations == "supports" else RULE_NOTES
        spared = self.populations == "clusters" and self.rule == "claim3"
        return (
            SPARED_CLUSTERS if spared else notes[self.rule],
            POPULATIONS_NOTES[self.populations],
            *super().remarks,
        )

    def public(self) -> ModelCertificate:
        """The certificate without the spans and figures that are for the owner only."""
        return replace(
            self, spans=(), single_records=0, certain=0, confident=0, distinct=0, entropy=0.0, tree_smallest=()
        )

    def to_dict(self) -> dict[str, Any]:
        """The public certificate as plain values, for JSON."""
        found = Certificate.to_dict(self.public())
        for finding in found["findings"]:
            del finding["worst"], finding["worst_size"]  # of a span, which the model does not show
        return {name: value for name, value in found.items() if name not in PRIVATE}

    def to_private_dict(self) -> dict[str, Any]:
        """The certificate with all figures and spans, for the owner."""
        spans = [
            {
                "people": span.size,
                "single": span.single,
                "holds": span.holds,
                "text": span.text,
                "cells": [
                    {"leaf": c.leaf, "class": c.label, "population": c.population} for c in span.cells[:MOST_WRITTEN]
                ],
                "more_cells": max(len(span.cells) - MOST_WRITTEN, 0),
            }
            for span in self.spans
        ]
        figures = {name: getattr(self, name) for name in PRIVATE if name != "spans"}
        return {**self.to_dict(), **figures, "spans": spans}

    def __str__(self) -> str:
        lines = [super().__str__()]
        count = self.spans.failing_count if isinstance(self.spans, SpanList) else len(self.failing)
        shown = self.spans[
            : min(count, MOST_SHOWN)
        ]  # the spans that fail come first; each is described when it is asked for
        lines += [f"  fails {escape_invisible(str(span))}" for span in shown]
        if count > MOST_SHOWN:
            lines.append(f"  and {count - MOST_SHOWN} more spans that fail")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            ("records", f"{self.records:,}"),
            ("spans that are tested", f"{self.groups:,}"),
            ("smallest of them (k)", f"{self.smallest:,}"),
            ("spans of a single cell", f"{self.single_spans:,}"),
            ("records with a certain private value", f"{self.certain:,}"),
        ]
        shown = [(span.text, f"{span.size:,}", "holds" if span.holds else "fails") for span in self.spans[:MOST_SHOWN]]
        return render_view(
            f"Certificate of a model: {self.verdict}",
            render_table("size", ("count", "value"), rows),
            self.requirements_html(),
            render_table("spans (for the owner only)", ("span", "people", "result"), shown) if shown else "",
            render_list(self.all_notes),
            f'<p style="margin:0">fingerprint <code>{escape_markup(self.fingerprint)}</code></p>',
        )

    @classmethod
    def of(cls, certificate: Certificate, **own: Any) -> ModelCertificate:
        """A certificate with the figures of a model."""
        return cls(**{f.name: getattr(certificate, f.name) for f in fields(Certificate)}, **own)
