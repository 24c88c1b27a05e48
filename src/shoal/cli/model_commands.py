"""The command `shoal audit-model`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import shoal
from shoal.cli.console import print_certificate, print_json, print_line
from shoal.cli.options import (
    DatesOption,
    DecimalOption,
    DelimiterOption,
    EncodingOption,
    JsonOption,
    PolicyFile,
    SheetOption,
    TableFile,
    name_conventions,
    override_read,
    refuse_overwriting,
    write_file,
)
from shoal.errors import escape_invisible
from shoal.mining.grow import RULES
from shoal.mining.tree_model import POPULATIONS
from shoal.policy import Policy
from shoal.requirements.requirement import parse_share

PREDICTIONS = (".csv", ".tsv", ".parquet")
MOST_SPANS = 10  # spans that are printed


def audit_model(
    model: Annotated[
        Path,
        typer.Argument(
            help="Model: .skops file, model.json, or the public folder of a model release. Or a table of predictions: a CSV or "
            "Parquet file with one row for every combination of public and private values."
        ),
    ],
    table: TableFile,
    policy: PolicyFile,
    rule: Annotated[
        str,
        typer.Option(
            help=f"Which spans must meet the requirements: {', '.join(RULES)}. claim3 spares spans of a single cell, "
            "which show nothing private.",
            autocompletion=lambda: list(RULES),
        ),
    ] = "claim3",
    populations: Annotated[
        str,
        typer.Option(
            help=f"What the model publishes about its leaves: {', '.join(POPULATIONS)}.",
            autocompletion=lambda: list(POPULATIONS),
        ),
    ] = "bins",
    confidence: Annotated[
        str,
        typer.Option(
            metavar="NUMBER", help="Count the records whose private value has a larger share in their span than this."
        ),
    ] = "0.9",
    trust: Annotated[
        bool,
        typer.Option(
            "--trust",
            help="Load a joblib or pickle file, or unknown types. Such a file can run any code of its author.",
        ),
    ] = False,
    json_: JsonOption = None,
    spans: Annotated[
        Path | None,
        typer.Option("--spans", metavar="FILE", help="Write all spans as JSON to this file. Do not publish this file."),
    ] = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
    dates: DatesOption = None,
    sheet: SheetOption = None,
) -> None:
    """Test whether MODEL may be published: what it shows about people whose quasi-identifiers an attacker knows.

    TABLE has the records that the model was fitted on. Exit status 1 if a requirement does not
    hold, or if the model was fitted on other records.
    """
    for file in (json_, spans):
        refuse_overwriting(file, model, table, policy)
    loaded = override_read(Policy.load(policy), name_conventions(delimiter, decimal, encoding, dates, sheet))
    if model.suffix.lower() in PREDICTIONS:
        certificate = shoal.models.audit_predictions(model, table, loaded, rule=rule)
    else:
        found = shoal.models.load_model(model, trust=trust)
        share = parse_share(confidence, "confidence")
        certificate = shoal.models.audit(found, table, loaded, rule=rule, populations=populations, confidence=share)
    if spans is not None:
        write_file(spans, json.dumps(certificate.to_private_dict(), indent=1, ensure_ascii=False) + "\n")
    if json_ is not None and str(json_) == "-":
        print_json(certificate.to_json())
    else:
        if json_ is not None:
            write_file(json_, certificate.to_json() + "\n")
        print_certificate(certificate)
        _print_spans(certificate)
    raise typer.Exit(0 if certificate.publishable else 1)


def _print_spans(certificate: shoal.models.ModelCertificate) -> None:
    """Print the figures for the owner and the spans that fail."""
    print_line(
        f"for the owner: {certificate.certain:,} records have a certain private value; {certificate.confident:,} are in spans "
        f"in which one private value has a share above {certificate.confidence:.0%}"
    )
    failing = certificate.failing
    for span in failing[:MOST_SPANS]:
        print_line(f"fails: {escape_invisible(str(span))}", "red")
    if len(failing) > MOST_SPANS:
        print_line(f"and {len(failing) - MOST_SPANS:,} more spans that fail", "red")
