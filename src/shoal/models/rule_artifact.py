"""The artifact of a release of association rules: written as JSON, and audited with the records that they were mined from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from shoal.engines import Engine, digest_file
from shoal.formats.html_text import escape_markup
from shoal.mining.itemsets import Rules
from shoal.mining.rule_frames import fingerprint_rules, name_rule
from shoal.models.certificate import ModelCertificate
from shoal.models.model_files import RULES_FILE, read_rules_file, write_rules_file
from shoal.models.rule_audit import audit_rules
from shoal.policy import Policy
from shoal.release.artifact import SaveOptions, WrittenArtifact
from shoal.release.ledger import Ledger
from shoal.requirements import Certificate


@dataclass(frozen=True)
class WithheldRule:
    """A rule that was not kept, and why; for the owner only.

    ``people`` is the size of the group that fails; None if the rule was withheld for another reason.
    """

    rule: str
    utility: float
    reason: str
    people: int | None = None

    def __str__(self) -> str:
        return f"{self.rule}: {self.reason}"


@dataclass(frozen=True)
class RuleArtifact:
    """Rules with the records that they were mined from. The records are not written."""

    rules: Rules
    training: Engine = field(repr=False)
    withheld: tuple[WithheldRule, ...] = field(default=(), repr=False)

    def write(self, folder: Path, options: SaveOptions) -> WrittenArtifact:
        """Write ``rules.json``."""
        write_rules_file(self.rules, folder / RULES_FILE)
        return WrittenArtifact(RULES_FILE, digest_file(folder / RULES_FILE))

    def reopen(self, path: Path) -> RuleArtifact:
        """Read the rules from ``rules.json``."""
        return replace(self, rules=read_rules_file(path))

    def fingerprint(self) -> str:
        """The digest of the rules with their counts."""
        return fingerprint_rules(self.rules)

    def audit(self, policy: Policy, before: Certificate, prior: Ledger | None) -> tuple[Certificate, Ledger | None]:
        """Find the spans of the records for these rules, and test every requirement on them."""
        assert isinstance(before, ModelCertificate)  # noqa: S101
        return audit_rules(self.rules, self.training, policy, before.rule, "bins", before.confidence), None

    def owner_files(self, certificate: Certificate) -> dict[str, str]:
        """The spans and the withheld rules, for the owner only."""
        assert isinstance(certificate, ModelCertificate)  # noqa: S101
        contents = {
            "spans.json": certificate.to_private_dict(),
            "withheld.json": [asdict(rule) for rule in self.withheld],
        }
        return {name: json.dumps(content, indent=1, ensure_ascii=False) + "\n" for name, content in contents.items()}

    def sections(self, certificate: Certificate, *, owner: bool) -> str:
        """The rules as a table, and for the owner their spans and the withheld rules, as HTML."""
        assert isinstance(certificate, ModelCertificate)  # noqa: S101
        rules = self.rules
        rows = [
            (name_rule(rules, r), f"{support:.1%}", f"{confidence:.1%}")
            for r, (support, confidence) in enumerate(
                zip(rules.support.tolist(), rules.confidence.tolist(), strict=True)
            )
        ]
        found = _render("The rules", ("rule", "support", "confidence"), rows)
        if not owner:
            return found
        spans = [
            (s.text, f"{s.size:,}", "a single cell" if s.single else "holds" if s.holds else "fails")
            for s in certificate.spans
        ]
        found += _render("Spans (for the owner only)", ("span", "people", "result"), spans)
        return found + _render(
            "Withheld rules (for the owner only)", ("rule", "reason"), [(w.rule, w.reason) for w in self.withheld]
        )


def _render(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    names = "".join(f"<th scope='col'>{name}</th>" for name in head)
    lines = "".join(f"<tr>{''.join(f'<td>{escape_markup(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<h2>{title}</h2>\n<table><tr>{names}</tr>{lines}</table>\n"
