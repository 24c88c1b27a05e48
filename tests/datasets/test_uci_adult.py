"""UCI Adult: reading from a folder, the cache and the download."""

from __future__ import annotations

import hashlib
import io
import os
import urllib.error
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from shoal.datasets import adult, adult_taxonomies
from shoal.datasets.uci_adult import COLUMNS, HEADER, NUMBERS, SHA256, TAXONOMIES, Tree, normalize_raw_text
from shoal.errors import DataError, EngineError

DATA = Path(os.environ.get("SHOAL_DATA") or "nowhere") / "adult"
needs_data = pytest.mark.skipif(
    not (DATA / "train.csv").is_file() or not (DATA / "test.csv").is_file(),
    reason="SHOAL_DATA names no folder that holds adult/train.csv and adult/test.csv",
)
ROW = "39,State-gov,77516,Bachelors,13,Never-married,?,Not-in-family,White,Male,2174,0,40,United-States,<=50K"


def raw(part: str) -> bytes:
    """The text of a part as the archive has it."""
    lines = (DATA / f"{part}.csv").read_text().splitlines()[1:]
    dot, head = (".", "|1x3 Cross validator\n") if part == "test" else ("", "")
    return (head + "".join(line.replace(",", ", ") + dot + "\n" for line in lines) + "\n").encode()


def leaves(tree: Tree) -> list[str]:
    if isinstance(tree, list):
        return tree
    return [leaf for branch in tree.values() for leaf in leaves(branch)]


def levels(tree: Tree) -> int:
    return 1 if isinstance(tree, list) else 1 + max(levels(branch) for branch in tree.values())


class Archive:
    """Replaces the network: sends stored answers and records the requests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answers: dict[str, bytes]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        monkeypatch.setattr("urllib.request.urlopen", self.open)

    def open(self, url: str, *, timeout: float) -> io.BytesIO:
        assert url.startswith("https://archive.ics.uci.edu/") and timeout > 0
        name = url.rsplit("/", 1)[1]
        self.asked.append(name)
        if name not in self.answers:
            raise urllib.error.URLError("no route to host")
        return io.BytesIO(self.answers[name])


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv("SHOAL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "shoal" / "adult"


def write(folder: Path, *lines: str) -> Path:
    for part in ("train", "test"):
        (folder / f"{part}.csv").write_text("".join(line + "\n" for line in lines))
    return folder


@needs_data
@pytest.mark.parametrize(
    ("part", "drop", "rows"),
    [("train", False, 32_561), ("test", False, 16_281), ("train", True, 30_162), ("test", True, 15_060)],
)
def test_rows_are_those_of_the_papers(part: str, drop: bool, rows: int) -> None:
    frame = adult(part, drop_missing=drop, kind="pandas")
    assert frame.shape == (rows, 15)
    assert frame.isna().to_numpy().any() != drop


@needs_data
def test_numbers_are_numbers_and_texts_are_texts() -> None:
    frame = adult("all", kind="pandas")
    assert len(frame) == 48_842
    for name in COLUMNS:
        assert (frame[name].dtype.kind == "i") == (name in NUMBERS)
    assert not frame.isin(["?"]).to_numpy().any()
    assert set(frame["income"]) == {"<=50K", ">50K"}
    kept = adult("train", drop_missing=True, kind="pandas")
    assert (kept["income"] == ">50K").mean() == pytest.approx(0.249, abs=5e-4)


@needs_data
@pytest.mark.parametrize("name", TAXONOMIES)
def test_trees_hold_the_values(name: str) -> None:
    values = set(adult("all", kind="pandas")[name].dropna())
    assert values == set(leaves(adult_taxonomies()[name]))


@pytest.mark.parametrize(
    ("name", "count", "depth"),
    [
        *(("education", 16, 5), ("marital-status", 7, 4), ("native-country", 41, 5), ("occupation", 14, 3)),
        *(("race", 5, 3), ("relationship", 6, 3), ("sex", 2, 2), ("workclass", 8, 5)),
    ],
)
def test_trees_have_the_leaves_and_levels_of_the_paper(name: str, count: int, depth: int) -> None:
    tree = adult_taxonomies()[name]
    assert list(tree) == ["ANY"]
    assert (len(leaves(tree)), levels(tree)) == (count, depth)


def test_trees_are_the_callers_own() -> None:
    taken: Any = adult_taxonomies()
    taken["sex"]["ANY"].append("?")
    assert adult_taxonomies()["sex"] == {"ANY": ["Male", "Female"]}


@pytest.mark.parametrize("inside", ["", "adult"])
def test_a_folder_may_be_named(inside: str, tmp_path: Path) -> None:
    (tmp_path / inside).mkdir(exist_ok=True)
    write(tmp_path / inside, HEADER, ROW)
    frame = adult("all", folder=tmp_path, kind="pyarrow")
    assert frame.num_rows == 2
    assert frame.to_pylist()[0]["occupation"] is None
    assert frame.to_pylist()[0]["capital-gain"] == 2174


def test_the_environment_names_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHOAL_DATA", str(write(tmp_path, HEADER, ROW)))
    assert adult(kind="pyarrow").num_rows == 1
    assert adult(drop_missing=True, kind="pyarrow").num_rows == 0


def test_an_empty_folder_is_an_error_and_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    archive = Archive(monkeypatch, {})
    with pytest.raises(DataError, match=r"neither adult/train\.csv nor train\.csv"):
        adult(folder=tmp_path)
    monkeypatch.setenv("SHOAL_DATA", str(tmp_path))
    with pytest.raises(DataError, match="which SHOAL_DATA names"):
        adult()
    assert archive.asked == []


def test_an_unknown_part_is_an_error() -> None:
    with pytest.raises(DataError, match="did you mean 'train'"):
        adult("trian")


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ((), "does not begin with the header"),
        ((ROW,), "does not begin with the header"),
        ((HEADER, ROW, "1,2"), "line 3: the line has 2 values instead of 15"),
        ((HEADER, ROW.replace("77516", "many")), "column 'fnlwgt' .* 'many'"),
    ],
)
def test_a_file_with_another_layout_is_an_error(lines: tuple[str, ...], text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=text):
        adult(folder=write(tmp_path, *lines))


def test_normalize_raw_text() -> None:
    spaced = ROW.replace(",", ", ")
    assert normalize_raw_text(f"{spaced}\n\n") == f"{HEADER}\n{ROW}\n"
    assert normalize_raw_text(f"|1x3 Cross validator\n{spaced}.\n\n") == f"{HEADER}\n{ROW}\n"


@needs_data
def test_a_download_is_verified_and_cached(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    given = adult("all", folder=DATA, kind="pandas")
    archive = Archive(monkeypatch, {"adult.data": raw("train"), "adult.test": raw("test")})
    pd.testing.assert_frame_equal(adult("all", kind="pandas"), given)
    assert archive.asked == ["adult.data", "adult.test"]
    assert sorted(file.name for file in cache.iterdir()) == ["test.csv", "train.csv"]
    assert (cache / "test.csv").read_bytes() == (DATA / "test.csv").read_bytes()
    adult("all")
    assert len(archive.asked) == 2
    (cache / "train.csv").write_text(HEADER)
    assert len(adult("train", kind="pandas")) == 32_561
    assert archive.asked[2:] == ["adult.data"]


@pytest.mark.parametrize("answer", [b"<html>please log in</html>", b"\xff\xfe", ROW.encode()])
def test_a_download_that_is_not_adult_is_not_cached(
    answer: bytes, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    Archive(monkeypatch, {"adult.data": answer})
    with pytest.raises(EngineError, match=r"is not UCI Adult; put train\.csv .* set SHOAL_DATA"):
        adult()
    assert not cache.exists()


def test_a_failed_download_names_the_remedy(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    Archive(monkeypatch, {})
    with pytest.raises(EngineError, match=r"no route to host.*put train\.csv and test\.csv .* set SHOAL_DATA"):
        adult("test")
    assert not cache.exists()


def test_a_cache_that_cannot_be_written_names_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sent = f"{HEADER}\n{ROW}\n".encode()
    monkeypatch.delenv("SHOAL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setitem(SHA256, "train", hashlib.sha256(sent).hexdigest())
    Archive(monkeypatch, {"adult.data": ROW.encode()})
    with pytest.raises(EngineError, match="set SHOAL_DATA"):
        adult()
