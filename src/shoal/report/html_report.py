"""The report as one page without scripts or outside parts, for the data-protection officer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shoal.policy import Policy
from shoal.report.formatting import escape_markup
from shoal.report.summary import Summary
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


TESTED = "The table was tested as a stranger sees it, after it was written."
DRAWN = """The quasi-identifiers were drawn anew from the statistics of groups that meet the requirements. These groups were
counted, row by row, before the table was written: the table alone does not show them, and a check of it does not hold."""

UNION = """The table was tested as a stranger sees it, after it was written, together with all that was released before by the
same recoding: these are the groups that the requirements are about. The table alone may hold smaller ones, so somebody who is
known to be in this very table is less hidden; what is at risk is said of this table alone."""
SAID = {"table": TESTED, "groups": DRAWN, "union": UNION}


def render_report(facts: Summary, policy: Policy, *, owner: bool) -> str:
    """The page. Without ``owner`` it holds nothing that the released table does not show."""
    certificate = facts.certificate
    verdict = "Every requirement holds" if certificate.holds else "A requirement does not hold"
    verdict += ", but identifiers are present" if certificate.holds and certificate.identifiers else ""
    colour = "holds" if certificate.publishable else "fails"
    parameters = ", ".join(f"{k} = {v}" for k, v in facts.parameters.items())
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Release report</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>
<h1>Release report</h1>
<p><span class="{colour}">{verdict}.</span> {SAID[certificate.evidence]}{_parts(certificate)}</p>
{_remarks((*certificate.remarks, *(facts.notes if owner else ())))}<h2>Requirements</h2>
{_table(("requirement", "worst group reaches", ""), facts.requirements())}
<h2>What is at risk</h2>
{_table(("", ""), facts.risks(owner=owner), figures=True)}
<p>The risk of being found is the chance to pick the right record of somebody who is known to be in the table and whose
quasi-identifiers are known: one over the size of the group{" that it was drawn from" if facts.is_synthetic else ""}.</p>
{_kept(facts) if owner and facts.information_kept else ""}
<h2>Columns</h2>
{_table(("role", "columns"), _roles(policy, "drawn anew" if facts.is_synthetic else "generalized"))}
<footer><p>Made by {escape_markup(facts.method)} ({escape_markup(parameters)}). Counting: a missing value is a value of its own;
suppressed records are left out whole. What is not promised: that nobody can be found by columns which the policy leaves as
they are, nor that a group's confidential values differ unless a requirement says so.</p>
<p>Fingerprint of the rows: <code>{escape_markup(certificate.fingerprint)}</code></p></footer>
</body></html>
"""


def _parts(certificate: Certificate) -> str:
    return "" if certificate.parts == 1 else f" {PARTITIONS_NOTE.format(certificate.parts).capitalize()}."


def _remarks(remarks: Sequence[str]) -> str:
    rows = "".join(f"<li>{escape_markup(remark)}</li>" for remark in remarks)
    return f"<ul>{rows}</ul>\n" if rows else ""


def _kept(facts: Summary) -> str:
    """How much of each attribute is left; relative to the original, so for the owner alone."""
    return f"""<h2>What was kept</h2>
<table><tr><th>attribute</th><th>certainty kept</th><th></th></tr>
{_bars(facts)}</table>
<p>100 % means that every value is published as it was, 0 % that nothing but <code>*</code> is left (1 - NCP, the mean
over records). These figures are relative to the original table: they stay with the owner.</p>{_statistics(facts)}"""


def _statistics(facts: Summary) -> str:
    """What a drawn table kept of the original's statistics."""
    if not facts.is_synthetic:
        return ""
    return f"""
<p>Of records that were drawn anew this is said of the boxes around their groups. What the table kept of the original's
statistics, as the mean difference (0: the same):</p>
{_table(("statistics of the quasi-identifiers", "difference"), facts.statistics(), figures=True)}"""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, figures: bool = False) -> str:
    top = "<tr>" + "".join(f"<th>{escape_markup(h)}</th>" for h in head) + "</tr>" if any(head) else ""
    body = []
    for row in rows:
        cells = [f"<td>{escape_markup(row[0])}</td>"]
        cells += [
            f'<td class="figure">{escape_markup(c)}</td>' if figures else f"<td>{escape_markup(c)}</td>"
            for c in row[1:]
        ]
        body.append("<tr>" + "".join(cells) + "</tr>")
    return f"<table>{top}{''.join(body)}</table>"


def _bars(facts: Summary) -> str:
    shares = [("all attributes", 1 - facts.measures["ncp"]), *facts.information_kept.items()]
    return "\n".join(
        f'<tr><td>{escape_markup(name)}</td><td class="figure">{share:.1%}</td>'
        f'<td><div class="bar"><span style="width:{max(share, 0):.1%}"></span></div></td></tr>'
        for name, share in shares
    )


def _roles(policy: Policy, treated: str) -> list[tuple[str, str]]:
    rows = [
        (f"quasi-identifiers, {treated}", ", ".join(policy.quasi)),
        ("sensitive, as they are", ", ".join(policy.sensitive)),
        ("target", policy.target or ""),
        ("kept as they are", ", ".join(policy.keep)),
    ]
    return [row for row in rows if row[1]]
