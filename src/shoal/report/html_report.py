"""The HTML report for the data-protection officer: one file without scripts or external resources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shoal.formats.html_text import escape_markup
from shoal.policy import Policy
from shoal.report.summary import EXPLANATION_HEADINGS, RISKS, STATISTICS_KEPT, Summary
from shoal.requirements import PARTITIONS_NOTE, Certificate

STYLE = """
:root { color-scheme: light dark; --line: #8885; --good: #2a7f62; --bad: #b3402a; --bar: #3b7ea1; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .3rem .6rem .3rem 0;
  border-bottom: 1px solid var(--line); vertical-align: top; } td.figure { text-align: right; white-space: nowrap; }
.bar { background: #8883; height: .7rem; border-radius: .35rem; overflow: hidden; min-width: 8rem; }
.bar span { display: block; height: 100%; background: var(--bar); }
.holds { color: var(--good); font-weight: 600; } .fails { color: var(--bad); font-weight: 600; }
code { font-size: .9em; overflow-wrap: anywhere; } footer { margin-top: 2rem; font-size: .9rem; opacity: .8; }
"""

TABLE = "The published values were tested after the table was written."
GROUPS = """The quasi-identifiers are synthetic: they were generated from the statistics of groups that meet the requirements.
These groups were counted, record by record, before the table was written. The table alone does not show these groups, so a
check of the table alone fails."""
BUCKETS = """The quasi-identifiers are published unchanged, apart from the sensitive values. The requirements hold for the
sensitive values of every bucket; a group in the next table is a bucket. The sizes and risks below it are those of records with
equal quasi-identifiers."""
UNION = """The published values were tested after the table was written, together with all tables that were released before by
the same recoding. The requirements hold for the groups of all these tables together. This table alone may contain smaller
groups, so a person who is known to be in this table is less protected. The risks below are those of this table alone."""
OPERATOR = """The values of the quasi-identifiers were changed at random. The requirements hold for the probabilities of the
changes. These probabilities were tested before the table was written; the table alone does not show them."""
PEOPLE = (
    "The rows of the released table were counted together with the person that each row belongs to; the requirements count "
    "different people. Without a pseudonym the table does not show which records belong to the same person, so recipients can "
    "repeat the count of records, but not of people."
)
MODEL = (
    "The model was read back from its files, and the spans of all training records were counted. A span is the set of cells "
    "of the model that a person may fall in, given what is public about the person; a group below is a span. Recipients cannot "
    "repeat the count, because they do not have the training records."
)
LIMITS = {
    "table": "columns that the policy leaves unchanged may identify a person.",
    "model": "a second model of the same people may reveal more, together with this model.",
}
EVIDENCE = {
    "table": TABLE,
    "people": PEOPLE,
    "groups": GROUPS,
    "buckets": BUCKETS,
    "union": UNION,
    "operator": OPERATOR,
    "model": MODEL,
}


def render_report(summary: Summary, policy: Policy, *, owner: bool, sections: str = "") -> str:
    """The HTML page; without ``owner`` it contains nothing that the published files do not show.

    ``sections`` are further sections as HTML.
    """
    certificate, is_model = summary.certificate, summary.certificate.evidence == "model"
    verdict = "Every requirement holds" if certificate.holds else "A requirement does not hold"
    verdict += ", but identifiers are present" if certificate.holds and certificate.identifiers else ""
    colour = "holds" if certificate.publishable else "fails"
    parameters = ", ".join(f"{k} = {v}" for k, v in summary.parameters.items())
    title = "Release report (owner folder: do not publish)" if owner else "Release report (public folder)"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>
<h1>{title}</h1>
<p><span class="{colour}">{verdict}.</span> {EVIDENCE[certificate.evidence]}{_render_partitions(certificate)}</p>
{_render_remarks((*certificate.remarks, *(summary.notes if owner else ())))}<h2>Requirements</h2>
{_render_table(("requirement", "worst group reaches", "result"), summary.requirements())}
<h2>Size and re-identification risk</h2>
{_render_table(RISKS, summary.risks(owner=owner), figures=True)}
<p>The re-identification risk of a record is the probability that an attacker picks the right record of a person. The attacker
knows that the person is in the {"training records" if is_model else "table"} and knows the person's quasi-identifiers.
The risk is 1 / number of {"records" if certificate.people is None else "different people"} of the
group{" from which the record was generated" if summary.treatment == "synthetic" else ""}.</p>
{_render_information(summary) if owner and summary.information_kept else ""}
{sections}<h2>Columns</h2>
{_render_table(("role", "columns"), _list_roles(policy, summary.treatment))}
<h2>All measures</h2>
{_render_table(EXPLANATION_HEADINGS, summary.explanations(owner=owner), figures=True)}
<footer><p>Method: {escape_markup(summary.method)} ({escape_markup(parameters)}). Counting rules: a missing value is a value of
its own; suppressed records are removed completely. Limits: {LIMITS["model" if is_model else "table"]} The sensitive
values of a group may be equal, unless a requirement demands that they differ.</p>
<p>Fingerprint of the {"model" if is_model else "rows"}: <code>{escape_markup(certificate.fingerprint)}</code></p></footer>
</body></html>
"""


def _render_partitions(certificate: Certificate) -> str:
    return "" if certificate.parts == 1 else f" {PARTITIONS_NOTE.format(certificate.parts).capitalize()}."


def _render_remarks(remarks: Sequence[str]) -> str:
    rows = "".join(f"<li>{escape_markup(remark)}</li>" for remark in remarks)
    return f"<ul>{rows}</ul>\n" if rows else ""


def _render_information(summary: Summary) -> str:
    """The information kept of each attribute, relative to the original table and so for the owner only."""
    return f"""<h2>Information kept</h2>
<table><tr><th scope="col">attribute</th><th scope="col">information kept (1 - NCP)</th><td></td></tr>
{_render_bars(summary)}</table>
<p>100 % means that every value is published unchanged, 0 % that every value is <code>*</code>. The figure is the mean over
records of 1 - NCP (normalized certainty penalty). These figures are relative to the original table, so they are in the owner
folder only.</p>{_render_statistics(summary)}"""


def _render_statistics(summary: Summary) -> str:
    """The differences between statistics of a synthetic table and of the original."""
    if summary.treatment != "synthetic":
        return ""
    return f"""
<p>For synthetic records these figures describe the boxes around the groups. The next table compares statistics of the synthetic
quasi-identifiers with the original (0: no difference).</p>
{_render_table(STATISTICS_KEPT, summary.statistics(), figures=True)}"""


def _render_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, figures: bool = False) -> str:
    top = "<tr>" + "".join(f'<th scope="col">{escape_markup(h)}</th>' for h in head) + "</tr>" if any(head) else ""
    body = []
    for row in rows:
        cells = [f"<td>{escape_markup(cell)}</td>" for cell in row]
        if figures:
            cells[-1] = f'<td class="figure">{escape_markup(row[-1])}</td>'
        body.append("<tr>" + "".join(cells) + "</tr>")
    return f"<table>{top}{''.join(body)}</table>"


def _render_bars(summary: Summary) -> str:
    shares = [("all attributes", 1 - summary.measures["ncp"]), *summary.information_kept.items()]
    return "\n".join(
        f'<tr><td>{escape_markup(name)}</td><td class="figure">{share:.1%}</td>'
        f'<td><div class="bar"><span style="width:{max(share, 0):.1%}"></span></div></td></tr>'
        for name, share in shares
    )


def _list_roles(policy: Policy, treatment: str) -> list[tuple[str, str]]:
    if treatment == "public":
        private = [c for c in (*policy.sensitive, policy.target) if c is not None and c not in policy.quasi]
        return [
            ("public: attackers may know them", ", ".join(policy.quasi)),
            ("private", ", ".join(private)),
            ("target: the class that the model predicts", policy.target or ""),
        ]
    rows = [
        (f"quasi-identifiers, {treatment}", ", ".join(policy.quasi)),
        (
            f"sensitive attributes, {'by bucket' if treatment == 'unchanged' else 'unchanged'}",
            ", ".join(policy.sensitive),
        ),
        ("target", policy.target or ""),
        ("other columns, unchanged", ", ".join(policy.keep)),
        ("unit, replaced by a pseudonym", policy.pseudonym_column or ""),
    ]
    return [row for row in rows if row[1]]
