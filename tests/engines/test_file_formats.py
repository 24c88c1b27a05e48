"""Files as people have them: delimiters, encodings, decimals, dates, Excel and statistics packages."""

from __future__ import annotations

import builtins
import gzip
import json
import re
from datetime import date, datetime
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import shoal
from shoal.engines import AS_PUBLISHED, Conventions, Reading, Resources, open_data
from shoal.engines.csv_files import HEADER_BYTES
from shoal.engines.text_formats import choose_date_format, choose_number_format
from shoal.errors import DataError, EngineError

ENGINES = ["memory", "duckdb"]
NUMBER, DATE = Reading("number"), Reading("date")

GERMAN = "Patient;Name;Größe;Geburt;PLZ;Gehalt;Diagnose\r\n" + "".join(
    f"{i // 2};Müller {i // 2};1{5 + i // 2 % 5},{i // 2 % 10};{i // 2 % 28 + 1:02d}.{i % 12 + 1:02d}.19{50 + i // 2 % 40};"
    f"0{1000 + i % 7};{1 + i % 5}.{i % 10}00,50;{'Grippe' if i % 2 else 'Übelkeit'}\r\n"
    for i in range(120)
)
GERMAN_POLICY = {
    "identifiers": ["Name"],
    "quasi": {"Größe": "numeric", "Geburt": "date", "PLZ": "categorical", "Gehalt": "numeric"},
    "sensitive": ["Diagnose"],
    "unit": "Patient",
    "require": [shoal.KAnonymity(3)],
}


def save(folder: Path, content: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def opened(path: Any, engine: str = "memory", **conventions: Any) -> Any:
    return open_data(path, Resources(engine, conventions=Conventions(**conventions)))


def rows_of(path: Path, engine: str = "memory", **conventions: Any) -> list[dict[str, Any]]:
    table = opened(path, engine, **conventions)
    native = table.frame() if engine == "duckdb" else table.data.to_native()
    return list((native.to_arrow_table() if engine == "duckdb" else native).to_pylist())


# Delimiters


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_detected_from_the_header(delimiter: str, engine: str, tmp_path: Path) -> None:
    path = save(tmp_path, delimiter.join("ab") + "\n" + delimiter.join("x1") + "\n")
    assert rows_of(path, engine) == [{"a": "x", "b": "1"}]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_named_delimiter_is_used(engine: str, tmp_path: Path) -> None:
    path = save(tmp_path, "a,x^b\n1,2^3\n")
    assert rows_of(path, engine, delimiter="^") == [{"a,x": "1,2", "b": "3"}]
    assert rows_of(save(tmp_path, "a\tb\n1\t2\n"), engine, delimiter="tab") == [{"a": "1", "b": "2"}]


def test_the_first_row_decides_between_two_delimiters(tmp_path: Path) -> None:
    assert rows_of(save(tmp_path, "a,x;b\n1;2\n")) == [{"a,x": "1", "b": "2"}]
    with pytest.raises(DataError, match=r"as many ',' as ';'.*--delimiter"):
        open_data(save(tmp_path, "a,x;b\n1,5;2\n"))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_header_in_one_column_names_the_likely_delimiter(engine: str, tmp_path: Path) -> None:
    path = save(tmp_path, "age^sex\n31^f\n34^m\n")
    policy = shoal.Policy(quasi={"age": "numeric", "sex": "categorical"}, require=[shoal.KAnonymity(1)])
    for call in (shoal.anonymize, shoal.check):
        with pytest.raises(
            shoal.PolicyError, match=r"the header has only one column.*separated by '\^'.*--delimiter"
        ) as error:
            call(path, policy, engine=engine)
        assert "31" not in str(error.value)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_header_beyond_one_mebibyte_is_named(engine: str, tmp_path: Path) -> None:
    for content in ("a" * (HEADER_BYTES + 1) + ",b\n1,2\n", 'a,"' + "b" * HEADER_BYTES + "\n1,2\n"):
        with pytest.raises(DataError, match=r"the header line has more than 1 MiB.*Shorten the column names"):
            opened(save(tmp_path, content), engine)


# Encodings


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "latin-1"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_the_encoding_is_detected(encoding: str, packed: bool, engine: str, tmp_path: Path) -> None:
    content = 'größe;"na\nme"\r\n1,5;"Mü""ller"\r\n'.encode(encoding)
    path = save(tmp_path, gzip.compress(content) if packed else content, "t.csv.gz" if packed else "t.csv")
    assert rows_of(path, engine) == [{"größe": "1,5", "na\nme": 'Mü"ller'}]
    notes = opened(path, engine).detected.notes
    assert bool(notes) == (encoding in ("cp1252", "latin-1"))
    assert all("read as cp1252" in note and "--encoding" in note for note in notes)


@pytest.mark.parametrize("engine", ENGINES)
def test_letters_far_down_decide_the_encoding(engine: str, tmp_path: Path) -> None:
    content = "a,b\n" + "x,1\n" * 400_000 + "Müller,2\n"
    table = opened(save(tmp_path, content.encode("cp1252")), engine)
    assert (table.schema().rows, "cp1252" in table.detected.notes[0]) == (400_001, True)
    assert "Müller" in table.distinct("a", Reading()).values


@pytest.mark.parametrize("engine", ENGINES)
def test_utf_16_without_a_mark_must_be_named(engine: str, tmp_path: Path) -> None:
    path = save(tmp_path, "age,sex\n31,f\n".encode("utf-16-be"))
    with pytest.raises(DataError, match=r"encoding that cannot be detected.*--encoding"):
        opened(path, engine)
    assert rows_of(path, engine, encoding="utf-16-be") == [{"age": "31", "sex": "f"}]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_named_encoding_is_used_or_refused(engine: str, tmp_path: Path) -> None:
    path = save(tmp_path, "a,b\nПётр,1\n".encode("cp1251"))
    assert rows_of(path, engine, encoding="cp1251") == [{"a": "Пётр", "b": "1"}]
    assert opened(path, engine, encoding="cp1251").detected.notes == ()
    with pytest.raises(DataError, match=r"the text is not utf-8.*--encoding"):
        opened(path, engine, encoding="utf-8")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "content", [b"a,b\nM\xfcller\x00,1\n", b"a,b\n\x81\xfc,1\n", "a,b\nü,1\n".encode() + b"\xfc,2\n"], ids=repr
)
def test_unsafe_bytes_are_refused_by_name(content: bytes, engine: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read 'table.csv'.*encoding.*--encoding") as error:
        opened(save(tmp_path, content), engine)
    assert "ller" not in str(error.value)


# Numbers


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["12,5", "3"], [3, 12.5]),
        (["1.234,5", "12"], [12, 1234.5]),
        (["1.234", "1,5"], [1.5, 1234]),
        (["1,234.5", "1,234,567"], [1234.5, 1234567]),
        (["1 234,5", "1\u00a0234", "1\u202f000"], [1000, 1234, 1234.5]),
        (["1'234.5", "1’234"], [1234, 1234.5]),
        (["0,123", "0,5"], [0.123, 0.5]),
        (["1.234", "1.5"], [1.234, 1.5]),
        (["-1.234,5e2", "+3,0"], [-123450, 3]),
        (["1 234"], [1234]),
    ],
    ids=str,
)
def test_all_values_of_a_column_decide_the_decimal_separator(
    texts: list[str], numbers: list[float], tmp_path: Path
) -> None:
    path = save(tmp_path, "id\tx\n" + "".join(f"{i}\t{text}\n" for i, text in enumerate(texts)))
    for engine in ENGINES:
        assert opened(path, engine).distinct("x", NUMBER).values.tolist() == numbers
    assert open_data(pa.table({"x": texts})).distinct("x", NUMBER).values.tolist() == numbers
    assert open_data(path).distinct("x", Reading()).values.tolist() == sorted(texts)  # as text, unchanged


def test_an_ambiguous_decimal_separator_must_be_named(tmp_path: Path) -> None:
    path = save(tmp_path, "id\tx\n1\t1,234\n2\t7\n")
    for engine in ENGINES:
        with pytest.raises(DataError, match=r"'1,234', which can be read as 1234 or as 1.234.*--decimal"):
            opened(path, engine).distinct("x", NUMBER)
        assert opened(path, engine, decimal=",").distinct("x", NUMBER).values.tolist() == [1.234, 7]
        assert opened(path, engine, decimal=".").distinct("x", NUMBER).values.tolist() == [7, 1234]
        assert opened(path, engine, thousands=",").distinct("x", NUMBER).values.tolist() == [7, 1234]


def test_a_point_is_ambiguous_in_a_file_with_semicolons(tmp_path: Path) -> None:
    path = save(tmp_path, "id;x\n1;1.234\n2;7\n")
    with pytest.raises(DataError, match=r"'1.234', which can be read as 1.234 or as 1234.*--decimal"):
        open_data(path).distinct("x", NUMBER)
    assert opened(path, decimal=",").distinct("x", NUMBER).values.tolist() == [7, 1234]
    clear = save(tmp_path, "id;x\n1;1.234\n2;7.5\n")
    assert open_data(clear).distinct("x", NUMBER).values.tolist() == [1.234, 7.5]


def test_numbers_in_two_forms_are_refused() -> None:
    with pytest.raises(DataError, match=r"holds text: '1,5'.*decimals have a point"):
        choose_number_format(["1,5", "2.5", "3.25"], "x", Conventions())
    with pytest.raises(DataError, match=r"holds text: '2.5'.*decimals have a comma"):
        choose_number_format(["1,5", "2.5"], "x", Conventions(decimal=","))


# Dates


@pytest.mark.parametrize(
    ("texts", "dates"),
    [
        (["31.12.1985", "1.2.1985"], ["1985-02-01", "1985-12-31"]),
        (["2016/01/02", "2016/1/3"], ["2016-01-02", "2016-01-03"]),
        (["12/31/1985", "01/02/1985"], ["1985-01-02", "1985-12-31"]),
        (["31/12/1985", "01/02/1985"], ["1985-02-01", "1985-12-31"]),
        (["01/01/1985", "02/02/1985"], ["1985-01-01", "1985-02-02"]),
        (["31-12-1985"], ["1985-12-31"]),
        (["31.12.1985 14:30", "31.12.1985"], ["1985-12-31", "1985-12-31T14:30:00"]),
        (["12/31/1985 2:30 PM", "12/31/1985 12:00 am"], ["1985-12-31", "1985-12-31T14:30:00"]),
        (["1985-12-31", "1985-12-31T01:00"], ["1985-12-31", "1985-12-31T01:00:00"]),
    ],
    ids=str,
)
def test_all_values_of_a_column_decide_the_date_format(texts: list[str], dates: list[str], tmp_path: Path) -> None:
    path = save(tmp_path, "id\tx\n" + "".join(f"{i}\t{text}\n" for i, text in enumerate(texts)))
    for engine in ENGINES:
        seconds = opened(path, engine).distinct("x", DATE).values.tolist()
        assert list(map(shoal.formats.dates.format_date, seconds)) == dates


def test_an_ambiguous_date_format_must_be_named(tmp_path: Path) -> None:
    path = save(tmp_path, "id,x\n1,01/02/1985\n2,03/04/1985\n")
    for engine in ENGINES:
        with pytest.raises(
            DataError, match=r'day and month cannot be distinguished.*--dates "%d/%m/%Y" or --dates "%m/%d/%Y"'
        ):
            opened(path, engine).distinct("x", DATE)
        days = opened(path, engine, dates="%m/%d/%Y").distinct("x", DATE).values
        assert list(map(shoal.formats.dates.format_date, days)) == ["1985-01-02", "1985-03-04"]


def test_dates_in_other_forms_are_refused() -> None:
    for wrong in (["31.12.85"], ["31.12.1985", "1985-12-30"], ["31.13.1985"], ["20161231"], ["31.12.1985 25:00"]):
        with pytest.raises(DataError, match=r"is a date in the policy but holds.*--dates"):
            choose_date_format(wrong, "x", Conventions())
    assert choose_date_format(["1985-12-31"], "x", Conventions(dates="%d.%m.%Y")) is None  # ISO dates are always read
    assert choose_date_format(["311285"], "x", Conventions(dates="%d%m%y")) is not None


# A random table in a random convention

WORDS = st.text(st.characters(codec="cp1252", exclude_categories=["Cc", "Cs"], exclude_characters="'\xa0"), max_size=5)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(WORDS, st.decimals(-9999, 9999, places=2), st.dates(date(1900, 1, 1), date(2100, 1, 1))),
        min_size=1,
        max_size=8,
    ),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    decimal=st.sampled_from([".", ","]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]),
    pattern=st.sampled_from(["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%Y/%m/%d"]),
    ends=st.sampled_from(["\n", "\r\n"]),
)
def test_a_table_is_read_in_every_named_convention(
    rows: list[Any], delimiter: str, decimal: str, encoding: str, pattern: str, ends: str, tmp_path: Path
) -> None:
    def quote(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    lines = [delimiter.join(("w", "x", "d"))]
    for word, number, day in rows:
        lines.append(
            delimiter.join((quote(word), quote(str(number).replace(".", decimal)), quote(day.strftime(pattern))))
        )
    path = save(tmp_path, (ends.join(lines) + ends).encode(encoding))
    named = {"delimiter": delimiter, "decimal": decimal, "encoding": encoding, "dates": pattern}
    prints = set()
    for engine in ENGINES:
        table = opened(path, engine, **named)
        prints.add(table.fingerprint())
        assert table.distinct("x", NUMBER).values.tolist() == sorted({float(number) for _, number, _ in rows})
        seconds = table.distinct("d", DATE).values.tolist()
        assert [shoal.formats.dates.format_date(s) for s in seconds] == sorted({day.isoformat() for *_, day in rows})
        expected = {w for w, *_ in rows if w}
        assert set(table.distinct("w", AS_PUBLISHED).values) == expected
    assert len(prints) == 1


# Excel


def workbook(folder: Path, *sheets: tuple[str, list[list[Any]]], name: str = "table.xlsx") -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets:
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(folder / name)
    return folder / name


ROWS = [
    ["zip", "age", "score", "born", "seen", "mixed", "flag", None],
    ["01234", 1234.0, 1.5, date(1985, 12, 31), datetime(2020, 1, 2, 3, 4), 1.5, True, None],
    [None, 41, 2, datetime(1986, 1, 1), datetime(2020, 1, 2), "?", False, None],
    [None] * 8,
]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_excel_sheet(engine: str, tmp_path: Path) -> None:
    path = workbook(tmp_path, ("Daten", ROWS))
    table = opened(path, engine)
    texts = {name: table.distinct(name, Reading()).values.tolist() for name in table.schema().names}
    assert texts == {
        "zip": ["01234"],
        "age": ["1234", "41"],
        "score": ["1.5", "2"],
        "born": ["1985-12-31", "1986-01-01"],
        "seen": ["2020-01-02", "2020-01-02T03:04:00"],
        "mixed": ["1.5", "?"],
        "flag": ["False", "True"],
    }
    assert (table.schema().rows, table.format, table.detected.notes) == (2, "csv", ())
    assert opened(path, engine, decimal=",").distinct("score", NUMBER).values.tolist() == [1.5, 2]
    assert opened(path, engine, decimal=",").distinct("mixed", Reading("number", ("?",))).values.tolist() == [1.5]
    assert table.fingerprint() == open_data(path).fingerprint()


@pytest.mark.parametrize("engine", ENGINES)
def test_one_of_several_sheets(engine: str, tmp_path: Path) -> None:
    path = workbook(tmp_path, ("empty", []), ("one", [["a"], [1]]), ("two", [["a"], [2]]))
    table = opened(path, engine)
    assert table.distinct("a", NUMBER).values.tolist() == [1]
    assert "the first sheet 'one' was read, and not 'two'" in table.detected.notes[0]
    assert opened(path, engine, sheet="two").distinct("a", NUMBER).values.tolist() == [2]
    with pytest.raises(DataError, match=r"no sheet 'tow'; choose from 'empty', 'one', 'two' \(did you mean 'two'"):
        opened(path, engine, sheet="tow")
    with pytest.raises(DataError, match=r"the sheet 'empty' of 'table\.xlsx' is empty"):
        opened(path, engine, sheet="empty")


def test_sheets_that_are_no_table(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="column 2 of the sheet 's' has values and no name"):
        open_data(workbook(tmp_path, ("s", [["a", None], [1, 2]])))
    with pytest.raises(DataError, match="'a'"):
        open_data(workbook(tmp_path, ("s", [["a", "a"], [1, 2]])))
    with pytest.raises(DataError, match="is empty"):
        open_data(workbook(tmp_path, ("s", [])))


# SPSS, Stata, SAS

SURVEY = pd.DataFrame(
    {
        "sex": [1.0, 2.0, 2.0, 9.0],
        "age": [31.0, 40.0, 99.0, 20.0],
        "born": [date(1985, 12, 31), date(1990, 1, 1), None, date(2000, 1, 1)],
        "town": ["Lund", "Malmö", "", "Lund"],
    }
)
LABELS = {"sex": {1: "Male", 2: "Female", 9: "Refused"}, "age": {99: "Unknown"}}


def survey(folder: Path, suffix: str) -> Path:
    path = folder / f"survey{suffix}"
    if suffix == ".sav":
        pyreadstat.write_sav(SURVEY, path, variable_value_labels=LABELS, missing_ranges={"sex": [9], "age": [99]})
    elif suffix == ".dta":
        pyreadstat.write_dta(SURVEY, path, variable_value_labels=LABELS)
    else:
        pyreadstat.write_xport(SURVEY, path)
    return path


@pytest.mark.parametrize("engine", ENGINES)
def test_value_labels_are_the_values_of_categorical_columns(engine: str, tmp_path: Path) -> None:
    resources = Resources(engine, numeric=("age", "born"))
    spss = open_data(survey(tmp_path, ".sav"), resources)
    assert spss.distinct("sex", Reading()).values.tolist() == ["Female", "Male"]
    assert spss.distinct("sex", Reading()).missing == 1  # declared as missing in the file
    assert spss.distinct("age", NUMBER).values.tolist() == [20, 31, 40]
    assert spss.distinct("born", Reading()).values.tolist() == ["1985-12-31", "1990-01-01", "2000-01-01"]
    assert spss.distinct("town", Reading()).values.tolist() == ["Lund", "Malmö"]
    stata = open_data(survey(tmp_path, ".dta"), resources)
    assert stata.distinct("sex", Reading()).values.tolist() == ["Female", "Male", "Refused"]
    assert stata.distinct("age", NUMBER).values.tolist() == [20, 31, 40, 99]
    assert open_data(survey(tmp_path, ".dta"), Resources(engine)).distinct("age", Reading()).values.tolist() == [
        "20",
        "31",
        "40",
        "Unknown",
    ]
    sas = open_data(survey(tmp_path, ".xpt"), resources)
    assert sas.distinct("sex", Reading()).values.tolist() == ["1", "2", "9"]


def test_a_survey_is_released_with_its_labels(tmp_path: Path) -> None:
    policy = shoal.Policy(quasi={"age": "numeric"}, keep=["sex"], require=[shoal.KAnonymity(2)])
    found = [shoal.anonymize(survey(tmp_path, ".sav"), policy, engine=engine, seed=1) for engine in ENGINES]
    assert found[0].certificate.fingerprint == found[1].certificate.fingerprint
    found[0].save(tmp_path / "out")
    assert "Female" in (tmp_path / "out" / "table.csv").read_text()


@pytest.mark.parametrize(
    ("name", "package", "extra"), [("t.xlsx", "openpyxl", "shoal[excel]"), ("t.sav", "pyreadstat", "shoal[statistics]")]
)
def test_a_missing_package_is_named(
    name: str, package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = builtins.__import__

    def refuse(wanted: str, *more: Any) -> Any:
        if wanted == package:
            raise ImportError(wanted)
        return load(wanted, *more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(EngineError, match=re.escape(f"pip install '{extra}'")):
        open_data(save(tmp_path, b"x", name))


@pytest.mark.parametrize("name", ["t.sav", "t.dta", "t.sas7bdat", "t.xpt", "t.xlsx"])
@pytest.mark.parametrize("content", [b"", b"Alice,1\n" * 100])
def test_damaged_files_are_refused_by_name(name: str, content: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"cannot read '{name}'") as error:
        open_data(save(tmp_path, content, name))
    assert "Alice" not in str(error.value)


# A German export, from the file to the release


@pytest.mark.parametrize("like_input", [False, True])
@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-8-sig", "utf-16"])
def test_a_german_export_needs_no_option(encoding: str, like_input: bool, tmp_path: Path) -> None:
    path = save(tmp_path, GERMAN.encode(encoding))
    policy, prints = shoal.Policy(**GERMAN_POLICY), set()
    for engine in ENGINES:
        release = shoal.anonymize(path, policy, engine=engine, seed=7, method="mondrian")
        folder = release.save(tmp_path / engine, like_input=like_input)
        for reader in ENGINES:
            table = shoal.check(folder / "table.csv", folder / "policy.yaml", engine=reader, records=True)
            assert table.holds
            prints.add(table.fingerprint)
        assert json.loads((folder / "certificate.json").read_text())["fingerprint"] in prints
        own = shoal.measure(path, folder / "table.csv", policy, engine=engine)
        assert own["ncp"] == pytest.approx(release.measures["ncp"])
    assert len(prints) == 1
    first = (tmp_path / "memory" / "table.csv").read_text(encoding if like_input else "utf-8").splitlines()[0]
    assert first.replace('"', "") == (";" if like_input else ",").join(["Größe", "Geburt", "PLZ", "Gehalt", "Diagnose"])
    (tmp_path / "policy.yaml").write_text(policy.to_yaml())


@pytest.mark.parametrize("engine", ENGINES)
def test_single_numbers_and_dates_are_written_like_the_input(engine: str, tmp_path: Path) -> None:
    lines = "".join(
        f"{weight};{day};x\r\n" for weight, day in (("12,5", "31.12.1985"), ("-3,5", "01.02.1990")) for _ in "ab"
    )
    path = save(tmp_path, ("weight;born;ill\r\n" + lines).encode())
    policy = shoal.Policy(
        quasi={"weight": "numeric", "born": {"kind": "date", "round": "none"}},
        keep=["ill"],
        require=[shoal.KAnonymity(2)],
    )
    release = shoal.anonymize(path, policy, engine=engine, seed=1)
    folder = release.save(tmp_path / "out", like_input=True)
    content = (folder / "table.csv").read_text().replace('"', "").splitlines()
    assert sorted(set(content)) == ["-3,5;01.02.1990;x", "12,5;31.12.1985;x", "weight;born;ill"]
    assert shoal.Policy.load(folder / "policy.yaml").read == Conventions(";", ",", None, "utf-8", "%d.%m.%Y")
    assert shoal.check(folder / "table.csv", folder / "policy.yaml").holds
    assert shoal.measure(path, folder / "table.csv", policy)["ncp"] == release.measures["ncp"] == 0
    later = save(tmp_path, ("weight;born;ill\r\n" + "12,5;31.12.1985;y\r\n" * 2).encode(), "later.csv")
    more = shoal.anonymize(later, recoding=tmp_path / "out.owner" / "recoding.json", engine=engine)
    assert (more.certificate.groups, more.certificate.smallest) == (2, 2)  # the groups of the ledger are recognized


@pytest.mark.parametrize("engine", ENGINES)
def test_pairs_of_columns_are_written_like_the_input(engine: str, tmp_path: Path) -> None:
    path = save(tmp_path, "weight;ill\n12,5;x\n13,75;x\n14;y\n15,25;z\n")
    policy = shoal.Policy(quasi={"weight": "numeric"}, keep=["ill"], require=[shoal.KAnonymity(2)])
    release = shoal.anonymize(path, policy, engine=engine, seed=1, write="lo-hi")
    folder = release.save(tmp_path / "out", like_input=True)
    assert "12,5;13,75;x" in (folder / "table.csv").read_text().replace('"', "")
    assert shoal.measure(path, folder / "table.csv", policy)["ncp"] == pytest.approx(release.measures["ncp"])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_character_that_the_encoding_lacks_is_named(engine: str, tmp_path: Path) -> None:
    path = save(tmp_path, "age;ill\n31;ü\n32;ü\n20;ü\n21;ü\n".encode("latin-1"))
    policy = shoal.Policy(
        quasi={"age": {"taxonomy": {"*": {"≥30": ["31", "32"], "<30": ["20", "21"]}}}},
        keep=["ill"],
        require=[shoal.KAnonymity(2)],
        read={"encoding": "latin-1"},
    )
    release = shoal.anonymize(path, policy, engine=engine, seed=1, method="tds")
    with pytest.raises(DataError, match=r"lacks the character '≥'.*--like-input"):
        release.save(tmp_path / "out", like_input=True)
    assert not (tmp_path / "out").exists()
    assert release.save(tmp_path / "out").exists()


@pytest.mark.parametrize("engine", ["duckdb"])
def test_a_folder_of_exports(engine: str, tmp_path: Path) -> None:
    (tmp_path / "months").mkdir()
    head, *rows = GERMAN.splitlines(keepends=True)
    save(tmp_path / "months", (head + "".join(rows[:60])).encode("cp1252"), "one.csv")
    save(
        tmp_path / "months", (head.replace(";", "|") + "".join(rows[60:]).replace(";", "|")).encode("utf-16"), "two.csv"
    )
    policy = shoal.Policy(**GERMAN_POLICY)
    whole = shoal.anonymize(save(tmp_path, GERMAN), policy, seed=7)
    parts = shoal.anonymize(tmp_path / "months", policy, seed=7)
    assert parts.certificate.fingerprint == whole.certificate.fingerprint
    assert "'one.csv' is not UTF-8" in parts.notes[0]
    (tmp_path / "months" / "two.csv").write_bytes((head + "".join(rows[60:])).encode("cp1252"))
    parts = shoal.anonymize(tmp_path / "months", policy, seed=7)
    assert parts.certificate.fingerprint == whole.certificate.fingerprint
    assert parts.notes[1] == "The same holds for 1 more of the files."


def test_read_of_a_policy_is_used_for_files_and_for_texts_in_frames(tmp_path: Path) -> None:
    content = "weight|born\n" + "1,234|01/02/1985\n" * 2 + "2,345|03/04/1985\n" * 2
    policy = shoal.Policy(
        quasi={"weight": "numeric", "born": {"kind": "date", "round": "none"}},
        read={"delimiter": "|", "decimal": ",", "dates": "%m/%d/%Y"},
        require=[shoal.KAnonymity(2)],
    )
    frame = pd.DataFrame([line.split("|") for line in content.splitlines()[1:]], columns=["weight", "born"])
    for data in (save(tmp_path, content), frame):
        for engine in ENGINES:
            release = shoal.anonymize(data, policy, seed=1, engine=engine)
            release.save(tmp_path / f"{engine}-{type(data).__name__}")
            table = (tmp_path / f"{engine}-{type(data).__name__}" / "table.csv").read_text()
            assert "1.23" in table and "1985-01-02" in table
            public = shoal.Policy.load(tmp_path / f"{engine}-{type(data).__name__}" / "policy.yaml")
            assert public.read is None  # the published table has commas
            assert (
                shoal.Policy.load(tmp_path / f"{engine}-{type(data).__name__}.owner" / "policy.yaml").read
                == policy.read
            )
            assert shoal.check(tmp_path / f"{engine}-{type(data).__name__}" / "table.csv", policy).holds


def test_the_secret_is_used_again_where_only_read_differs(tmp_path: Path) -> None:
    path = save(tmp_path, "age;ill\n" + "31;x\n32;y\n" * 4)
    plain = shoal.Policy(quasi={"age": "numeric"}, keep=["ill"], require=[shoal.KAnonymity(2)])
    first = shoal.anonymize(path, plain)
    first.save(tmp_path / "out")
    second = shoal.anonymize(path, plain.model_copy(update={"read": Conventions(delimiter=";")}))
    second.save(tmp_path / "out", overwrite=True)
    assert second.seed == first.seed


@pytest.mark.parametrize("engine", ENGINES)
def test_sensitive_numbers_with_a_decimal_comma_are_ordered_as_numbers(engine: str, tmp_path: Path) -> None:
    pay = [
        f"{thousands}{rest},{cents}"
        for thousands in ("", "1.", "12.")
        for rest in ("100", "950")
        for cents in ("5", "25")
    ]
    content = "age;pay\n" + "".join(f"{30 + i // 2};{text}\n" for i, text in enumerate(pay))
    german = save(tmp_path, content, "german.csv")
    plain = save(tmp_path, content.replace(".", "").replace(",", ".").replace(";", ","), "plain.csv")
    policy = shoal.Policy(
        quasi={"age": "numeric"},
        sensitive=["pay"],
        require=[shoal.KAnonymity(2), shoal.TCloseness(0.4, of="pay", distance="ordered")],
    )
    found = [shoal.anonymize(path, policy, seed=1, engine=engine) for path in (german, plain)]
    reached = [[finding.reached for finding in release.certificate.findings] for release in found]
    assert reached[0] == reached[1]
    folder = found[0].save(tmp_path / "out", like_input=True)
    again = shoal.check(folder / "table.csv", folder / "policy.yaml")
    assert [finding.reached for finding in again.findings] == reached[0]
