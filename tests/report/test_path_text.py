"""The path of a release for its owner, as text, plot and page, with any labels."""

from __future__ import annotations

import itertools
import stat
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path as File
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import shoal
from shoal.recoding.search_path import Refusal, SearchPath, Step
from shoal.report import PathPlot, explain
from shoal.report.formatting import format_figure, format_label
from tests.support.paths import ONE, TWO, WHY, refusals, walk

SVG = "{http://www.w3.org/2000/svg}"
TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "strong", "div", "table", "tr", "th", "td"}
TAGS |= {"ul", "li", "svg", "rect", "line", "text", "circle", "polyline"}
VOID = {"meta"}


class Reader(HTMLParser):
    """Parses a page strictly: every tag is allowed and closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> str:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    assert not [name for name in reader.attributes if name.startswith("on") or name in ("href", "src", "id")]
    return "\n".join(reader.text)


def draw(path: SearchPath) -> ElementTree.Element:
    return ElementTree.fromstring(PathPlot(path).svg)  # noqa: S314


def dots(picture: ElementTree.Element) -> list[ElementTree.Element]:
    return [c for c in picture.iter(f"{SVG}circle") if c.find(f"{SVG}title") is not None]


def titles(picture: ElementTree.Element) -> list[str]:
    return [c.findtext(f"{SVG}title", "") for c in dots(picture)]


def texts_of(picture: ElementTree.Element) -> list[str]:
    return [t.text or "" for t in picture.iter(f"{SVG}text")]


nasty = st.sampled_from(
    [
        "<script>alert(1)</script>",
        "</title></svg>",
        "]]>",
        "&lt;&amp;&#0;",
        "\" onload='x'",
        "--><!--",
        "\x1b[2J\x00\x07",
        "a\r\nb\u2028c\x85d",
        "\u202egnp.exe",
        "👩‍🔬 ü名",
        "\ud800 \ufffe",
        "x" * 5000,
        " ",
        "",
    ]
)
texts = st.none() | nasty | st.text(st.characters(), max_size=8)
names = nasty | st.text(st.characters(), max_size=8)
floats = st.floats(0, 20)
anything = st.floats(allow_nan=True, allow_infinity=True)


@st.composite
def paths(draw: st.DrawFn) -> SearchPath:
    sets = draw(st.lists(st.lists(names, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3, unique=True))
    bits = draw(st.booleans())

    def smallest() -> dict[tuple[str, ...], int]:
        return {found: draw(st.integers(0, 10**12)) for found in sets}

    def measures() -> dict[str, float]:
        found = {"ncp": draw(st.floats(0, 1)), "suppressed": draw(floats)}
        return found | {"information": draw(floats)} if bits else found

    def step() -> Step:
        children = tuple(draw(st.lists(texts, min_size=1, max_size=8)))
        worth = draw(anything), draw(anything), draw(anything)
        return Step(draw(names), draw(texts), children, *worth, smallest(), measures())

    steps = tuple(step() for _ in range(draw(st.integers(0, 4))))
    refused = st.builds(Refusal, names, texts, st.lists(texts, max_size=8).map(tuple), names)
    return SearchPath(
        draw(st.sampled_from(["specialize", "generalize"])),
        steps,
        draw(st.integers(0, len(steps))),
        smallest(),
        measures(),
        tuple(draw(st.lists(refused, max_size=6))),
        draw(names),
    )


# ---- labels and figures


@given(texts)
def test_a_label_is_one_printable_line(text: str | None) -> None:
    shown = format_label(text)
    assert shown and len(shown.splitlines()) == 1
    assert not [c for c in shown if not (c.isprintable() or c.isspace() or c in "\u200c\u200d")]
    shown.encode("utf-8")
    ElementTree.fromstring(f"<a>{escape(shown)}</a>")  # noqa: S314


def test_labels_that_are_long_are_shortened_and_short_ones_are_not() -> None:
    assert format_label("x" * 60) == "x" * 60
    assert format_label("x" * 61) == "x" * 59 + "…"
    assert format_label("[17, 40)") == "[17, 40)" and format_label("日本\u3000語") == "日本\u3000語"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (12.0, "12"), (26150.0, "26,150"), (2.5e-05, "2.5e-05"), (1e300, "1e+300"), (float("inf"), "inf")],
)
def test_figures(value: float, text: str) -> None:
    assert format_figure(value) == text


# ---- text


@given(paths())
def test_every_step_is_explained(path: SearchPath) -> None:
    lines = explain(path).splitlines()
    for number, step in enumerate(path, 1):
        where = [
            n for n, line in enumerate(lines) if line.lstrip().startswith(f"{number}. {format_label(step.attribute)}: ")
        ]
        assert where
        assert any(f"score {format_figure(step.score)}" in lines[n + 1] for n in where)
        for child in step.children[:5]:
            assert any(format_label(child) in lines[n] for n in where)


@given(paths())
def test_the_text_has_no_control_characters(path: SearchPath) -> None:
    text = explain(path)
    assert not [c for c in text if ord(c) < 32 and c != "\n"] and "\x1b" not in text and "\u202e" not in text
    text.encode("utf-8")


def test_a_step_has_its_values_gain_loss_and_smallest_group() -> None:
    text = explain(walk(3, chosen=2, texts=("Any-job", "Inside", None)))
    assert "For the data owner only" in text.splitlines()[0]
    assert "3 values were specialized, one per step. The release is the table after step 2 of 3; later steps" in text
    assert "Before the first step: smallest group 30,162 records" in text
    assert "  2. job-2: Any-job -> Inside, (missing)\n" in text
    assert "information gain 0.25, anonymity loss 1,234, score 0.0005; smallest group 7,540 records\n" in text
    assert text.index("job-2") < text.index("the release is the table at this point") < text.index("job-3")
    assert text.endswith("Why the path ended: no remaining value can be specialized")


def test_generalized_values_are_written_children_first() -> None:
    text = explain(walk(2, direction="generalize"))
    assert "2 values were generalized" in text and "The release is the table after the last step." in text
    assert "job-1: Inside, Outside -> Any-job" in text
    assert "anonymity gain 0.25, information loss 1,234" in text


def test_every_attribute_set_has_its_smallest_group() -> None:
    text = explain(walk(1, sets=(ONE, TWO)))
    assert "  set 1: age, sex\n  set 2: age, zip\n" in text
    assert "smallest group 15,081 records (set 1), 7,540 records (set 2)" in text


def test_long_lists_of_children_are_shortened() -> None:
    text = explain(walk(1, texts=("*", *(f"child-{n}" for n in range(500)))))
    assert "child-4 and 495 more" in text and "child-5" not in text


def test_hundreds_of_refusals_stay_readable() -> None:
    path = walk(1, refused=(*refusals("age", 400), *refusals("zip", 2), *refusals("age", 1, "another reason")))
    text = explain(path)
    assert "Not specialized further: 403 values" in text
    assert "  age, 401 values\n" in text and f"    age-0 -> left, (missing): {WHY}\n" in text
    assert "    and 398 more\n" in text and "zip-1" in text and len(text.splitlines()) < 25


@pytest.mark.parametrize(
    ("steps", "chosen", "words"),
    [
        (0, 0, "No value was specialized. The release is the table before the first step."),
        (1, 1, "1 value was specialized. The release is the table after the last step."),
        (2, 0, "2 values were specialized, one per step. The release is the table before the first step; later"),
    ],
)
def test_the_released_table_is_stated(steps: int, chosen: int, words: str) -> None:
    text = explain(walk(steps, chosen=chosen))
    assert words in text
    assert text.count("the release is the table at this point") == (1 if steps else 0)


# ---- the plot


@given(paths())
@example(replace(walk(3), measures={"ncp": float("nan"), "suppressed": 0.0}))
def test_the_plot_is_valid_for_any_labels(path: SearchPath) -> None:
    picture = draw(path)
    tags = {element.tag.removeprefix(SVG) for element in picture.iter()}
    assert tags <= {"svg", "style", "rect", "line", "text", "circle", "polyline", "title"}
    _, _, width, height = map(float, picture.attrib["viewBox"].split())
    for dot in dots(picture):
        assert 0 < float(dot.attrib["cx"]) < width and 0 < float(dot.attrib["cy"]) < height
    for text in picture.iter(f"{SVG}text"):
        assert 0 < float(text.attrib["x"]) < width and 0 < float(text.attrib["y"]) < height


def test_every_step_has_a_dot_with_a_tooltip() -> None:
    found = titles(draw(walk(15, chosen=12)))
    assert len(found) == 16 and found[0] == "before the first step"
    assert found[3] == "step 3 of 15, job-3: Any-job → Inside, Outside"
    assert "step 1 of 2, job-1: Inside, Outside → Any-job" in titles(draw(walk(2, direction="generalize")))


def test_the_released_step_is_marked() -> None:
    picture = draw(walk(15, chosen=12))
    (ring,) = [c for c in picture.iter(f"{SVG}circle") if c.find(f"{SVG}title") is None]
    (dot,) = [d for d in dots(picture) if "step 12 of" in d.findtext(f"{SVG}title", "")]
    assert (ring.attrib["cx"], ring.attrib["cy"]) == (dot.attrib["cx"], dot.attrib["cy"])
    assert "release: after step 12, smallest group 7 records" in texts_of(picture)
    assert "release: before the first step, smallest group 30,162 records" in texts_of(draw(walk(3, chosen=0)))


def test_groups_are_drawn_on_a_logarithmic_scale() -> None:
    heights = [float(dot.attrib["cy"]) for dot in dots(draw(walk(6, records=1 << 12)))]
    falls = [after - before for before, after in itertools.pairwise(heights)]
    assert falls == pytest.approx([falls[0]] * 6, abs=0.2) and falls[0] > 0


@pytest.mark.parametrize(
    ("path", "ticks"),
    [
        (walk(15), ["0.0", "0.5", "1.0", "1.5", "2.0", "1", "10", "100", "1,000", "10,000", "100,000"]),
        (walk(2, bits=False), ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %", "7,000", "8,000", "9,000"]),
        (walk(0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0", "30,000", "40,000"]),
        (walk(1, records=5), ["2", "3", "4", "5"]),
        (walk(1, records=2 * 10**9), ["1,000 M", "2,000 M"]),
        (walk(1, records=1), ["1", "2"]),
    ],
)
def test_ticks(path: SearchPath, ticks: list[str]) -> None:
    words = texts_of(draw(path))
    assert [tick for tick in ticks if tick not in words] == [], words
    assert len(words) < 25


def test_the_horizontal_axis_names_its_measure() -> None:
    assert "information about the target in bits, summed over attributes" in texts_of(draw(walk(2)))
    assert "information kept, 1 - NCP" in texts_of(draw(walk(2, bits=False)))


def test_several_sets_have_a_line_each_and_a_legend() -> None:
    picture = draw(walk(4, sets=(ONE, TWO, ("<b>" * 50,))))
    lines = list(picture.iter(f"{SVG}polyline"))
    assert len({line.attrib["stroke"] for line in lines}) == 3
    legend = [text for text in texts_of(picture) if text.startswith("set ")]
    assert legend[:2] == ["set 1: age, sex", "set 2: age, zip"] and legend[2].endswith("…")
    assert not [text for text in texts_of(draw(walk(4))) if text.startswith("set ")]


def test_thousands_of_steps_stay_small_and_keep_their_line() -> None:
    path = walk(5000, chosen=4000, sets=(ONE, TWO))
    path = replace(path, steps=tuple(replace(s, smallest={ONE: 6000 - n, TWO: 5001 - n}) for n, s in enumerate(path)))
    picture = PathPlot(path)
    assert len(picture.svg) < 150_000
    found = draw(path)
    assert 50 < len(dots(found)) < 400
    assert [t for t in titles(found) if t.startswith("step 4,000 of 5,000")]
    assert [t for t in titles(found) if "are next to this dot" in t]
    points = [len(line.attrib["points"].split()) for line in found.iter(f"{SVG}polyline")]
    assert len(points) == 4 and sum(points) > 1000


# ---- the page


@given(paths())
def test_the_page_is_valid_for_any_labels(path: SearchPath) -> None:
    page = PathPlot(path).html
    page.encode("utf-8")
    text = read(page)
    for step in path:
        assert format_label(step.attribute) in text and format_label(step.value) in text


def test_the_page_has_all_steps_and_refused_values() -> None:
    page = PathPlot(walk(700, chosen=5, refused=refusals("zip", 300))).html
    text = read(page)
    assert page.count("<tr>") + page.count('<tr class="here">') == 1 + 701 + 1 + 200 + 1
    assert "5 (release)" in text and page.count('class="here"') == 1
    assert "Not specialized further: 300 values" in text and "and 100 more" in text and WHY in text
    assert "must stay with the data owner" in " ".join(text.split())
    assert "Why the path ended: no remaining value can be specialized" in text


def test_the_page_has_no_external_resources() -> None:
    page = PathPlot(walk(3, refused=refusals("zip", 3))).html
    assert "<script" not in page and "url(" not in page and "@import" not in page
    assert page.replace("http://www.w3.org/2000/svg", "").count("://") == 0
    assert "prefers-color-scheme: dark" in page


# ---- saving and displaying


def test_a_plot_is_saved_by_its_suffix(tmp_path: File) -> None:
    picture = PathPlot(walk(3))
    assert picture.save(tmp_path / "path.svg").read_text(encoding="utf-8") == picture.svg
    assert picture.save(str(tmp_path / "path.HTML")).read_text(encoding="utf-8") == picture.html
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}
    assert picture.save(tmp_path / "path.svg").is_file()  # again, over itself


@pytest.mark.parametrize("name", ["path.png", "path", "svg", ".svg"])
def test_other_suffixes_are_refused(tmp_path: File, name: str) -> None:
    with pytest.raises(shoal.PolicyError, match=r"'\.svg' or '\.html'"):
        PathPlot(walk(3)).save(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["absent/path.svg", "file/path.svg", "folder.svg", "a\0b.svg", "x" * 300 + ".svg"])
def test_an_unwritable_file_is_an_error(tmp_path: File, name: str) -> None:
    (tmp_path / "folder.svg").mkdir()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(shoal.EngineError, match="Cannot write the path to"):
        PathPlot(walk(3)).save(tmp_path / name)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_notebook_displays_the_plot() -> None:
    picture = PathPlot(walk(15, chosen=12))
    assert picture.svg in picture._repr_html_()
    assert repr(picture) == "PathPlot(15 steps, release after step 12)"
