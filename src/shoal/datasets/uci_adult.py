"""UCI Adult (Census Income), the benchmark of the papers: read from a folder, or downloaded once.

Source: B. Becker and R. Kohavi, UCI Machine Learning Repository, 1996, licence CC BY 4.0. Only `adult` uses the
network, and only if the data are neither in a folder nor in the cache.
"""

from __future__ import annotations

import copy
import csv
import hashlib
import http.client
import os
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from shoal.engines import Column, build_frame
from shoal.errors import DataError, EngineError, list_choices

Tree: TypeAlias = "dict[str, Tree] | list[str]"

VARIABLE = "SHOAL_DATA"
SOURCE = "archive.ics.uci.edu/ml/machine-learning-databases/adult"
RAW = {"train": "adult.data", "test": "adult.test"}
SHA256 = {
    "train": "f2c62076f19504d99a38b22badf445a7f42530ade6b827acf78dd143fbce38bb",
    "test": "f6b1801c5d231515ea5ff04d4444997bacd57e04876e94710cb9b9bd5549c033",
}
PARTS = {"train": ("train",), "test": ("test",), "all": ("train", "test")}
SECONDS = 60
MOST_BYTES = 1 << 24

HEADER = (
    "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,"
    "race,sex,capital-gain,capital-loss,hours-per-week,native-country,income"
)
COLUMNS = tuple(HEADER.split(","))
NUMBERS = frozenset({"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"})
MISSING = "?"

# The numbers of leaves and levels are those of Table 6 in the top-down specialization paper.
TAXONOMIES: dict[str, Tree] = {
    "education": {
        "ANY": {
            "Without-degree": {
                "Primary": {"Early": ["Preschool", "1st-4th"], "Late": ["5th-6th", "7th-8th"]},
                "Secondary": {
                    "Junior-secondary": ["9th", "10th"],
                    "Senior-secondary": ["11th", "12th"],
                    "Completed-secondary": ["HS-grad"],
                },
            },
            "With-college": {
                "Undergraduate": {
                    "College": ["Some-college"],
                    "Associate": ["Assoc-voc", "Assoc-acdm"],
                    "Bachelor": ["Bachelors"],
                },
                "Graduate": {"Professional": ["Prof-school"], "Grad-school": ["Masters", "Doctorate"]},
            },
        }
    },
    "marital-status": {
        "ANY": {
            "Partnered": {
                "Spouse-present": ["Married-civ-spouse", "Married-AF-spouse"],
                "Spouse-absent": ["Married-spouse-absent"],
            },
            "Alone": {"Was-married": ["Separated", "Divorced", "Widowed"], "Single": ["Never-married"]},
        }
    },
    "native-country": {
        "ANY": {
            "Americas": {
                "North-America": {
                    "Anglo-America": ["United-States", "Canada", "Outlying-US(Guam-USVI-etc)"],
                    "Mexico-region": ["Mexico"],
                },
                "Latin-America": {
                    "Central-America": ["Guatemala", "Honduras", "El-Salvador", "Nicaragua"],
                    "Caribbean": [
                        "Cuba",
                        "Jamaica",
                        "Dominican-Republic",
                        "Haiti",
                        "Puerto-Rico",
                        "Trinadad&Tobago",
                    ],
                    "South-America": ["Columbia", "Ecuador", "Peru"],
                },
            },
            "Eurasia": {
                "Europe": {
                    "Western-Europe": [
                        "England",
                        "Scotland",
                        "Ireland",
                        "France",
                        "Germany",
                        "Holand-Netherlands",
                    ],
                    "Southern-Europe": ["Italy", "Portugal", "Greece", "Yugoslavia"],
                    "Eastern-Europe": ["Poland", "Hungary"],
                },
                "Asia": {
                    "East-Asia": ["China", "Hong", "Taiwan", "Japan", "South"],
                    "South-East-Asia": ["Philippines", "Vietnam", "Cambodia", "Laos", "Thailand"],
                    "West-and-South-Asia": ["India", "Iran"],
                },
            },
        }
    },
    "occupation": {
        "ANY": {
            "White-collar": ["Exec-managerial", "Prof-specialty", "Adm-clerical", "Sales", "Tech-support"],
            "Blue-collar": [
                "Craft-repair",
                "Machine-op-inspct",
                "Transport-moving",
                "Handlers-cleaners",
                "Farming-fishing",
            ],
            "Service": ["Other-service", "Protective-serv", "Priv-house-serv", "Armed-Forces"],
        }
    },
    "race": {
        "ANY": {
            "Majority": ["White"],
            "Minority": ["Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"],
        }
    },
    "relationship": {
        "ANY": {
            "In-family": ["Husband", "Wife", "Own-child", "Other-relative"],
            "Outside-family": ["Not-in-family", "Unmarried"],
        }
    },
    "sex": {"ANY": ["Male", "Female"]},
    "workclass": {
        "ANY": {
            "Paid": {
                "Employee": {"Government": ["Federal-gov", "Local-gov", "State-gov"], "Company": ["Private"]},
                "Self-employed": {"Own-business": ["Self-emp-inc", "Self-emp-not-inc"]},
            },
            "Not-paid": {"No-income": {"None": ["Without-pay", "Never-worked"]}},
        }
    },
}


def adult(
    part: str = "train",
    *,
    folder: str | os.PathLike[str] | None = None,
    drop_missing: bool = False,
    kind: str | None = None,
) -> Any:
    """Read UCI Adult: 32,561 training rows and 16,281 test rows.

    Parameters
    ----------
    part
        ``"train"``, ``"test"``, or ``"all"`` for the training rows followed by the test rows.
    folder
        The folder that contains ``train.csv`` and ``test.csv``, or a subfolder ``adult`` with these files (default: the
        environment variable SHOAL_DATA). Without a folder, the files are downloaded from the UCI repository to the
        user's cache (``$XDG_CACHE_HOME/shoal`` or ``~/.cache/shoal``) and verified by their SHA-256 sums.
    drop_missing
        Drop rows with a missing value, as the papers do: 30,162 and 15,060 rows remain.
    kind
        The kind of frame, ``"pandas"``, ``"polars"`` or ``"pyarrow"`` (default: the first that is installed).

    Returns
    -------
    A frame with the fifteen columns of the source; numbers are numbers, and ``?`` is a missing value.

    Raises
    ------
    EngineError
        The files could not be downloaded; the text explains where to put them.
    DataError
        The part is unknown, or a file in the folder is missing or has another layout.
    """
    if part not in PARTS:
        raise DataError(f"Adult has no part {part!r}; {list_choices(part, list(PARTS))}")
    rows = [row for name in PARTS[part] for row in _read_rows(_find_file(name, folder))]
    if drop_missing:
        rows = [row for row in rows if MISSING not in row]
    texts = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
    return build_frame({name: _column(name, text) for name, text in zip(COLUMNS, texts, strict=True)}, kind)


def adult_taxonomies() -> dict[str, Tree]:
    """Taxonomies of the eight categorical attributes of Adult, as nested dicts and lists.

    >>> sorted(adult_taxonomies())[:3]
    ['education', 'marital-status', 'native-country']
    >>> adult_taxonomies()["sex"]
    {'ANY': ['Male', 'Female']}
    """
    return copy.deepcopy(TAXONOMIES)


def normalize_raw_text(raw: str) -> str:
    """Add a header to the text of the archive and remove blanks, comment lines and trailing dots.

    >>> text = normalize_raw_text("|1x3 Cross validator\\n25, Private, <=50K.\\n\\n")
    >>> text.splitlines()[1:]
    ['25,Private,<=50K']
    """
    lines = (line.strip().removesuffix(".") for line in raw.splitlines() if not line.startswith("|"))
    rows = (",".join(cell.strip() for cell in line.split(",")) for line in lines if line)
    return "\n".join((HEADER, *rows)) + "\n"


def _find_file(part: str, folder: str | os.PathLike[str] | None) -> Path:
    """The file of a part: in the folder, if there is one, otherwise in the cache."""
    name = f"{part}.csv"
    named = folder if folder is not None else os.environ.get(VARIABLE)
    if not named:
        return _find_in_cache(part)
    for place in (Path(named) / "adult" / name, Path(named) / name):
        if place.is_file():
            return place
    source = "" if folder is not None else f", which {VARIABLE} names,"
    raise DataError(
        f"the folder {os.fspath(named)!r}{source} contains neither adult/{name} nor {name}; "
        f"put UCI Adult there, or pass no folder to download it"
    )


def _find_in_cache(part: str) -> Path:
    """The file of a part in the user's cache; downloaded if it is missing or incomplete."""
    home = os.environ.get("XDG_CACHE_HOME")
    place = (Path(home) if home else Path.home() / ".cache") / "shoal" / "adult" / f"{part}.csv"
    if place.is_file() and hashlib.sha256(place.read_bytes()).hexdigest() == SHA256[part]:
        return place
    try:
        text = normalize_raw_text(_download(RAW[part])).encode()
        if hashlib.sha256(text).hexdigest() != SHA256[part]:
            raise EngineError(f"the download from https://{SOURCE}/{RAW[part]} is not UCI Adult; {_remedy()}")
        _write(place, text)
    except (OSError, http.client.HTTPException) as problem:
        raise EngineError(f"UCI Adult could not be downloaded ({problem}); {_remedy()}") from problem
    return place


def _download(name: str) -> str:
    with urllib.request.urlopen(f"https://{SOURCE}/{name}", timeout=SECONDS) as answer:
        raw: bytes = answer.read(MOST_BYTES)
    return raw.decode("utf-8", errors="replace")


def _remedy() -> str:
    return (
        f"put train.csv and test.csv (with the header {HEADER}) into a folder adult/ "
        f"and set {VARIABLE} to its parent folder"
    )


def _write(place: Path, text: bytes) -> None:
    """Write a file atomically."""
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=place.parent, prefix=place.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
        Path(draft).replace(place)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _read_rows(place: Path) -> list[list[str]]:
    with place.open(newline="", encoding="utf-8") as file:
        header, *rows = [row for row in csv.reader(file) if row] or [[]]
    if tuple(header) != COLUMNS:
        raise DataError(f"{place} does not begin with the header of UCI Adult; the first line must be {HEADER}")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(COLUMNS):
            raise DataError(f"{place}, line {number}: the line has {len(row)} values instead of {len(COLUMNS)}")
    return rows


def _column(name: str, texts: Sequence[str]) -> Column:
    if name in NUMBERS:
        try:
            return Column(np.array([int(text) for text in texts], dtype=np.int64))
        except ValueError as problem:
            raise DataError(f"column {name!r} of UCI Adult must contain whole numbers only: {problem}") from problem
    categories = tuple(sorted(set(texts) - {MISSING}))
    codes = {text: code for code, text in enumerate(categories)}
    return Column(np.array([codes.get(text, -1) for text in texts], dtype=np.int32), categories)
