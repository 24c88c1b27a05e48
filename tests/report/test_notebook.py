"""The HTML forms for notebooks: escaped, well formed, accessible, of limited size, without external resources."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pandas as pd
import pytest

import shoal

ATTACK = "<script>alert('x')</script>"
EMPTY = {"br", "hr", "img", "meta", "link", "input"}


class Reader(HTMLParser):
    """Checks that elements are closed in order, and collects elements, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in EMPTY
        self.open.append(tag)
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def read(value: Any) -> Reader:
    """Parse the HTML form of an object and check the rules for all forms."""
    html = value._repr_html_()
    found = Reader(html)
    names = {tag for tag, _ in found.elements}
    allowed = {"div", "p", "strong", "code", "ul", "li"} | {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert names <= allowed, names - allowed
    for tag, attributes in found.elements:
        assert set(attributes) <= {"style", "scope", "colspan"}, (tag, attributes)
        assert not re.search(r"url|position|(^|;)(color|background)", attributes.get("style") or "")
        assert tag != "th" or attributes.get("scope") in ("row", "col")
    assert "http" not in html and "<style" not in html and len(html) < 100_000
    return found


@pytest.fixture(scope="module")
def release() -> shoal.Release:
    frame = pd.DataFrame(
        {
            "name": list("abcdefghijkl"),
            ATTACK: [f"{ATTACK}{i % 2}" for i in range(12)],
            "age": range(20, 32),
            "ill": [ATTACK, "flu"] * 6,
        }
    )
    policy = shoal.Policy(
        identifiers=["name"],
        quasi={ATTACK: {"taxonomy": {ATTACK: [f"{ATTACK}0", f"{ATTACK}1"]}}, "age": "numeric"},
        sensitive=["ill"],
        require=[shoal.KAnonymity(3), shoal.ConfidenceBound(0.9, of="ill", values=[ATTACK])],
        suppress=0.5,
    )
    return shoal.anonymize(frame, policy, seed=1)


def test_every_form_is_escaped_and_well_formed(release: shoal.Release) -> None:
    tree = release.policy.quasi[ATTACK].taxonomy
    for value in (release, release.certificate, release.measures, release.policy, tree):
        found = read(value)
        assert ATTACK in found.text or value is release.certificate


def test_a_release_shows_its_status_figures_and_notes(release: shoal.Release) -> None:
    text = read(release).text
    summary = release.summary()
    for row in (*summary.risks(), *summary.information(), *((t, r) for t, r, _ in summary.requirements())):
        assert all(cell in text for cell in row), row
    for words in (*release.certificate.notes, *release.notes, "Release: holds: 12 records", "name", "do not publish"):
        assert words in text
    assert not re.search(r"\bflu\b", text.replace("values = ['flu']", ""))


def test_a_certificate_that_does_not_hold() -> None:
    table = pd.DataFrame({"age": range(5)})
    certificate = shoal.check(table, shoal.Policy(quasi={"age": "numeric"}, require=shoal.KAnonymity(2)))
    text = read(certificate).text
    assert "Certificate: does not hold" in text and certificate.fingerprint in text
    assert repr(certificate) == "Certificate(does not hold: 5 records in 5 groups, k-anonymity (k = 2))"


def test_representations_are_short(release: shoal.Release) -> None:
    kept = 1 - release.measures["ncp"]
    assert repr(release).startswith("Release(holds: 12 records in ")
    assert repr(release).endswith(f"information kept {kept:.1%})") and "k-anonymity (k = 3)" in repr(release)
    assert repr(release.policy).startswith(
        f"Policy(identifiers: name; quasi: {ATTACK}, age; sensitive: ill; require: k-"
    )
    assert repr(release.measures).startswith("Measures(records 12, ") and "\n" not in repr(release.measures)
    assert repr(shoal.Taxonomy.flat(["a"])) == "Taxonomy(1 leaf, height 1)"
    wide = shoal.Policy(quasi={f"c{i}": "numeric" for i in range(500)}, require=shoal.KAnonymity(2))
    assert repr(wide) == "Policy(quasi: c0, c1, c2, c3, c4, c5 and 494 more; require: k-anonymity (k = 2))" == str(wide)
    assert "\x1b" not in repr(shoal.Policy(quasi={"\x1b": "numeric"}))


def test_sizes_are_limited() -> None:
    frame = pd.DataFrame({f"c{i}": [1, 2] * 4 for i in range(120)})
    policy = shoal.Policy(quasi=dict.fromkeys(frame, "numeric"), require=shoal.KAnonymity(2))
    assert "… and 70 more" in read(policy).text
    assert "… and 71 more" in read(shoal.anonymize(frame, policy)).text
    tree = shoal.Taxonomy.from_nested({"ANY": {f"b{i}": [f"{i}-{j}" for j in range(300)] for i in range(5)}})
    text = read(tree).text
    assert "1,500 leaves, height 2" in text and "b4" in text and "… and 1,456 more nodes" in text
    assert read(shoal.Taxonomy.flat(["x" * 5000])).text.count("x") < 300


@pytest.mark.parametrize("method", ["condensation", "tds"])
def test_releases_of_other_methods(method: str) -> None:
    policy = shoal.datasets.hospital_policy(k=3)
    release = shoal.anonymize(shoal.datasets.hospital(200, seed=1), policy, method=method)
    assert f"method {method}" in read(release).text
