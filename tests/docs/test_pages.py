"""The documents run as they stand: their Python, their commands, their policies; the site builds without a warning.

A page is run from top to bottom in an empty folder: a block with a title (or a YAML block that begins with ``# name.yaml``)
is a file, Python blocks share their names, a ``text`` block is what was printed since the last one, and under a command
of a ``console`` block stands what it says. ``python -m tests.docs.test_pages`` writes what is said now into the pages.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import shoal
from shoal import cli
from shoal.measures import MEASURES
from tests.support import postgres
from tests.support.spark import find_obstacle, require_spark

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w+)(?P<rest>[^\n]*)\n(?P<body>.*?)^(?P=indent)```", re.M | re.S)
SHELL = ("ls", "cat", "head")  # these are run as they stand; make, pip and the like are not
DATABASES = "databases.md"  # this page needs a database server
WITHOUT_OUTPUT = ("README.md",)  # their commands run, but the page does not show what they say


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    file: str | None
    body: str

    @classmethod
    def of(cls, found: re.Match[str]) -> Block:
        body = textwrap.dedent(found["body"])
        title = re.search(r'title="([^"]+)"', found["rest"])
        named = re.match(r"# (\S+\.yaml)\n", body) if found["language"] == "yaml" else None
        return cls(found["language"], (title or named or [None, None])[1], body)


def blocks(page: Path) -> list[Block]:
    return [Block.of(found) for found in FENCE.finditer(page.read_text(encoding="utf-8"))]


@dataclass
class Reader:
    """Somebody who does what a page says, in the folder where they stand."""

    page: Path
    names: dict[str, Any] = field(default_factory=dict)
    said: str = ""
    status: int = 0

    def follow(self, block: Block) -> str | None:
        """Do what a block says; what should stand in it, where it shows what was said."""
        if block.file:
            Path(block.file).write_text(block.body, encoding="utf-8")
        elif block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(block.body, str(self.page.name), "exec"), self.names)  # noqa: S102
            self.said += out.getvalue()
        elif block.language == "text":
            said, self.said = self.said, ""
            return said
        elif block.language == "console":
            return "".join(self.session(block.body))
        return None

    def session(self, body: str) -> Iterator[str]:
        for command in re.findall(r"^\$ (.*)$", body, flags=re.M):
            yield f"$ {command}\n"
            said = self.run(command)
            if self.page.name not in WITHOUT_OUTPUT:
                yield said

    def run(self, command: str) -> str:
        words = shlex.split(command, comments=True)
        if command == "echo $?":
            return f"{self.status}\n"
        if words[0] in SHELL:
            return subprocess.run(words, capture_output=True, text=True, check=True).stdout
        if words[0] != "shoal":
            return ""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), mock.patch.object(sys, "argv", words):
            try:
                cli.main()
            except SystemExit as end:
                self.status = int(end.code or 0)
        return out.getvalue()


def plain(text: str) -> str:
    """Without blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


@contextlib.contextmanager
def desk(page: Path, folder: Path) -> Iterator[Reader]:
    """A reader in an empty folder, without a terminal's width or colours."""
    calm = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE")}
    with contextlib.chdir(folder), mock.patch.dict(os.environ, calm, clear=True):
        if page.name == "README.md":  # the table that it calls the reader's own
            own = shoal.datasets.hospital(300, seed=1, kind="pandas")
            own = own.assign(age=2024 - own["birth"].dt.year)
            own[["name", "age", "zip", "sex", "diagnosis"]].to_csv("patients.csv", index=False)
        if page.name == DATABASES:
            _prepare_clinic()
        yield Reader(page)


def having(*languages: str) -> list[Any]:
    found = [p for p in PAGES if any(b.language in languages for b in blocks(p))]
    return [pytest.param(p, id=p.relative_to(ROOT).as_posix(), marks=_marks(p)) for p in found]


def _marks(page: Path) -> list[pytest.MarkDecorator]:
    """Pages that start Spark or need a database run with the tests of engines that need Java or a server."""
    return [pytest.mark.engines] if _starts_spark(page) or page.name == DATABASES else []


def _starts_spark(page: Path) -> bool:
    return any(b.language == "python" and "import SparkSession" in b.body for b in blocks(page))


def _explain_absence(page: Path) -> str | None:
    """Why a page cannot run here; None where it can."""
    obstacle = find_obstacle() if _starts_spark(page) else None
    return postgres.explain_absence() if page.name == DATABASES else obstacle


def _prepare_clinic() -> None:
    """Create the database of the page on databases, and set the environment of its reader."""
    server = postgres.start()
    server.run("DROP DATABASE IF EXISTS clinic WITH (FORCE)", "CREATE DATABASE clinic")
    own = shoal.datasets.hospital(300, seed=1, kind="pandas")
    own = own.assign(age=2024 - own["birth"].dt.year)[["name", "age", "zip", "sex", "diagnosis"]]
    server.upload(pa.Table.from_pandas(own, preserve_index=False), "patients", database="clinic")
    os.environ |= {"PGPORT": str(server.port), **server.environment}


@pytest.mark.parametrize("page", having("python", "console"))
def test_pages_run(page: Path, tmp_path: Path) -> None:
    if absence := _explain_absence(page):
        pytest.skip(absence)
    if _starts_spark(page):
        require_spark()
    with desk(page, tmp_path) as reader:
        for block in blocks(page):
            said = reader.follow(block)
            if said is not None:
                assert plain(block.body) == plain(said)


@pytest.mark.parametrize("page", having("yaml"))
def test_yaml_loads(page: Path, tmp_path: Path) -> None:
    with desk(page, tmp_path):
        for block in blocks(page):
            if block.file:
                Path(block.file).write_text(block.body, encoding="utf-8")
        for block in blocks(page):
            if block.language == "yaml" and re.search(r"^(quasi|require):", block.body, flags=re.M):
                assert shoal.Policy.parse(block.body).require
            elif block.language == "yaml":
                Path("tree.yaml").write_text(block.body, encoding="utf-8")
                assert shoal.Taxonomy.load("tree.yaml").size


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), (page.name, target)


def test_every_measure_is_explained() -> None:
    release = shoal.anonymize(
        shoal.datasets.hospital(100, seed=1, kind="pyarrow"),
        shoal.Policy(quasi={"sex": "categorical"}, target="diagnosis", require=[shoal.KAnonymity(2)]),
    )
    page = (ROOT / "docs" / "measures.md").read_text(encoding="utf-8")
    makers = load_makers()
    tables = "".join(makers[word]() for word in re.findall(r"^<!-- shoal: (\w+) -->$", page, flags=re.M))
    explained = set(re.findall(r"^\| `(\w+)`", tables, flags=re.M))
    assert set(release.measures) <= explained == {measure.name for measure in MEASURES}
    assert all(measure.unit and measure.meaning for measure in MEASURES)


def load_makers() -> dict[str, Any]:
    """The functions that fill the markers of pages."""
    spec = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "making" / "pages.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MAKERS


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed; pip install '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    calm = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, env=calm, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


def test_site_fetches_nothing(site: Path) -> None:
    outside = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
    for page in site.rglob("*.html"):
        assert outside.findall(page.read_text(encoding="utf-8")) == [], page.name


def test_reference_is_whole(site: Path) -> None:
    """Every public name has its entry, every command its help; a new class goes into a page of docs/reference."""
    entries = "".join(p.read_text(encoding="utf-8") for p in (site / "reference").glob("*.html"))
    public = [n for n in shoal.__all__ if isinstance(getattr(shoal, n), type) or callable(getattr(shoal, n))]
    names = [*(f"shoal.{n}" for n in public), *(f"shoal.datasets.{n}" for n in shoal.datasets.__all__)]
    assert [n for n in names if f'id="{n}"' not in entries] == []
    commands = {c.name or c.callback.__name__ for c in cli.app.registered_commands if c.callback}
    assert [c for c in sorted(commands) if f'id="shoal-{c}"' not in entries] == []


def refresh(reader: Reader) -> None:
    """Write into a page what its blocks say now."""

    def said(found: re.Match[str]) -> str:
        block = Block.of(found)
        new = reader.follow(block)
        if new is None or plain(new) == plain(block.body):
            return found[0]
        body = textwrap.indent(plain(new), found["indent"])
        return f"{found['indent']}```{found['language']}{found['rest']}\n{body}\n{found['indent']}```"

    text = reader.page.read_text(encoding="utf-8")
    reader.page.write_text(FENCE.sub(said, text), encoding="utf-8")


if __name__ == "__main__":
    for each in PAGES:
        if _explain_absence(each):
            continue
        with tempfile.TemporaryDirectory() as folder, desk(each, Path(folder)) as somebody:
            refresh(somebody)
