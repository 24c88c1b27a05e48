"""The artifact of a model release: a model, written as JSON and skops, and audited with its training records."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from shoal.engines import Engine, digest_file
from shoal.errors import RequirementNotMet
from shoal.formats.html_text import escape_markup
from shoal.mining.cluster_model import ClusterModel
from shoal.mining.readers import fingerprint_model
from shoal.mining.tree_model import TreeModel
from shoal.models.audit import audit_table
from shoal.models.certificate import ModelCertificate
from shoal.models.model_files import load_model, read_json, write_json, write_skops
from shoal.models.tree_picture import draw_tree
from shoal.policy import Policy
from shoal.release.artifact import SaveOptions, WrittenArtifact
from shoal.release.ledger import Ledger
from shoal.requirements import Certificate

JSON, SKOPS = "model.json", "model.skops"


@dataclass(frozen=True)
class ModelArtifact:
    """A model, its published form as an estimator, and the records that it was fitted on. The records are not written."""

    model: TreeModel | ClusterModel
    published: Any
    training: Engine = field(repr=False)

    def write(self, folder: Path, options: SaveOptions) -> WrittenArtifact:
        """Write ``model.json`` and ``model.skops``."""
        write_json(self.model, folder / JSON)
        write_skops(self.published, folder / SKOPS)
        return WrittenArtifact(JSON, {name: digest_file(folder / name) for name in (JSON, SKOPS)})

    def reopen(self, path: Path) -> ModelArtifact:
        """Read the model from ``model.json``, and compare it with the model in ``model.skops``."""
        model = read_json(path)
        other = load_model(path.with_name(SKOPS))
        if fingerprint_model(model) != fingerprint_model(other):
            raise RequirementNotMet(
                f"{JSON} and {SKOPS} hold different models, so nothing was released. Save the model again."
            )
        return replace(self, model=model)

    def fingerprint(self) -> str:
        """The digest of the model: its tests, or its centroids, and its statistics."""
        return fingerprint_model(self.model)

    def audit(self, policy: Policy, before: Certificate, prior: Ledger | None) -> tuple[Certificate, Ledger | None]:
        """Find the spans of the training records in this model, and test every requirement on them."""
        assert isinstance(before, ModelCertificate)  # noqa: S101
        given = before.rule, before.populations, before.confidence
        return audit_table(self.model, self.training, policy, *given), None

    def owner_files(self, certificate: Certificate) -> dict[str, str]:
        """The spans, for the owner only."""
        assert isinstance(certificate, ModelCertificate)  # noqa: S101
        return {"spans.json": json.dumps(certificate.to_private_dict(), indent=1, ensure_ascii=False) + "\n"}

    def sections(self, certificate: Certificate, *, owner: bool) -> str:
        """The model as a picture or a table, and for the owner its spans, as HTML."""
        assert isinstance(certificate, ModelCertificate)  # noqa: S101
        found = _show_clusters(self.model) if isinstance(self.model, ClusterModel) else _show_tree(self.model)
        if not owner:
            return found
        rows = "".join(
            f"<tr><td>{escape_markup(span.text)}</td><td class='figure'>{span.size:,}</td>"
            f"<td>{'a single cell' if span.single else 'holds' if span.holds else 'fails'}</td></tr>"
            for span in certificate.spans
        )
        if isinstance(self.model, ClusterModel):
            figures = ""
        else:
            figures = (
                f"<p>{certificate.certain:,} records have a certain private value. {certificate.confident:,} records are in "
                f"spans in which one private value has a share above {certificate.confidence:.0%}. A span has at least "
                f"{certificate.distinct:,} different classes; its least entropy is that of {certificate.entropy:.3f} equally "
                "frequent classes.</p>"
            )
        head = "<tr><th scope='col'>span</th><th scope='col'>people</th><th scope='col'>result</th></tr>"
        return f"{found}<h2>Spans (for the owner only)</h2>\n{figures}<table>{head}{rows}</table>\n"


def _show_tree(model: TreeModel) -> str:
    text = escape_markup(model.export_text())
    return f"<h2>The tree</h2>\n{draw_tree(model)}<details><summary>as text</summary><pre>{text}</pre></details>\n"


def _show_clusters(model: ClusterModel) -> str:
    head = "".join(f"<th scope='col'>{escape_markup(name)}</th>" for name in ("cluster", "records", *model.columns))
    rows = "".join(
        f"<tr><td>{i}</td><td class='figure'>{records:,}</td>"
        + "".join(f"<td>{escape_markup(model.format_value(name, value))}</td>" for name, value in center.items())
        + "</tr>"
        for i, (center, records) in enumerate(zip(model.centers, model.records, strict=True))
    )
    return f"<h2>The clusters</h2>\n<table><tr>{head}</tr>{rows}</table>\n"
