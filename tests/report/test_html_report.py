"""Names and values with markup or control characters are text on every page of a release."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

import shoal
from shoal.errors import escape_invisible

HOSTILE = [
    "<script>alert(1)</script>",
    '"onload="alert(1)',
    "'><img src=x onerror=alert(1)>",
    "]]>",
    "<!--",
    "</title><svg/onload=alert(1)>",
    "&lt;b&gt;",
    "a\0b",
    "\x1b[31m",
    "a\u202eb\x85",
]


class Page(HTMLParser):
    """The elements of a page with the names of their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: set[tuple[str, tuple[str, ...]]] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add((tag, tuple(name for name, _ in attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def save(name: str, folder: Path) -> shoal.Release:
    """Save a release whose columns, values and labels all contain a name."""
    frame = pd.DataFrame(
        {
            f"{name} q": [f"{name} {i % 2}" for i in range(8)],
            f"{name} n": range(8),
            f"{name} s": [name] * 8,
            f"{name} t": [name, "x"] * 4,
            f"{name} k": [name] * 8,
        }
    )
    policy = shoal.Policy(
        quasi={f"{name} q": {"taxonomy": {f"any {name}": [f"{name} 0", f"{name} 1"]}}, f"{name} n": "numeric"},
        sensitive=[f"{name} s"],
        target=f"{name} t",
        keep=[f"{name} k"],
        require=[shoal.KAnonymity(2), shoal.KAnonymity(2, on=[f"{name} q"])],
    )
    release = shoal.anonymize(frame, policy, method="tds")
    release.save(folder, format="parquet")
    return release


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text_on_every_page(tmp_path: Path, name: str) -> None:
    save("plain", tmp_path / "plain")
    release = save(name, tmp_path / "hostile")
    for file in ("hostile/report.html", "hostile.owner/report.html", "hostile.owner/path.html"):
        text = (tmp_path / file).read_text(encoding="utf-8")
        assert escape_invisible(text, keep="\n") == text
        page, plain = Page(text), Page((tmp_path / file.replace("hostile", "plain")).read_text(encoding="utf-8"))
        assert page.elements <= plain.elements
        assert escape_invisible(f"{name} q") in page.text
    picture = release.plot_path().svg
    assert escape_invisible(picture, keep="\n") == picture
    assert escape_invisible(f"{name} q") in "".join(ElementTree.fromstring(picture).itertext())  # noqa: S314


@pytest.mark.parametrize("name", HOSTILE)
def test_certificates_and_errors_in_a_notebook_hold_no_control_characters(name: str) -> None:
    frame = pd.DataFrame({name: ["a", "b"], "id": [name, name], f"{name} id": ["x", "y"]})
    policy = shoal.Policy(
        identifiers=[f"{name} id"], quasi={name: "categorical"}, require=[shoal.KAnonymity(2, on=[name])]
    )
    certificate = shoal.check(frame, policy)
    shown = str(certificate)
    assert escape_invisible(shown, keep="\n") == shown and escape_invisible(f"{name} id") in shown
    assert escape_invisible(certificate.findings[0].text) == certificate.findings[0].text
    with pytest.raises(shoal.PolicyError) as caught:
        shoal.check(frame[["id"]], policy)
    for error in (caught.value, shoal.DataError(name)):
        assert escape_invisible(str(error), keep="\n") == str(error)
