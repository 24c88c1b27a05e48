"""Spellings of one value: `normalize` counts them as one everywhere, and without it a certificate warns."""

from __future__ import annotations

import contextlib
import json
import random
import unicodedata
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.engines import Reading, column_values
from shoal.formats.normalize import Normalizer

SPELLINGS: dict[str | None, list[str | None]] = {
    "hiv": ["HIV", "hiv", "HIV ", "\tHiv", "ＨＩＶ", "\u00a0hiv", "hiv\u200b"],
    "grippe é": ["Grippe É", "grippe e\u0301", "GRIPPE É "],
    "strasse": ["Straße", "STRASSE"],
    "1": ["1", "1.0", "01", "1e0", " 1", "+1", "１", "1."],
    "10": ["10", "1E1", "010", "10.00"],
    "2": ["2", "2.0"],
    None: [None, "", " ", "?", " ?", "n/a", "N/A "],
}
MISSING = ["", "?", "N/A"]
NUMBERS: tuple[str | None, ...] = ("1", "2", "10", None)


def notes_of(certificate: shoal.Certificate) -> tuple[str, ...]:
    """The notes about spellings; there are others on the minimality attack and on the assumed order of values."""
    return tuple(note for note in certificate.notes if "spellings" in note)


ENGINES = ["memory", "duckdb"]
engines = pytest.mark.parametrize("engine", ENGINES)

rows = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(list(SPELLINGS))), min_size=1, max_size=14)
of: dict[str, Any] = {"of": "ill"}
REQUIREMENTS = [
    shoal.LDiversity(2, **of),
    shoal.LDiversity(1.7, kind="entropy", **of),
    shoal.LDiversity(2, kind="recursive", c=2, **of),
    shoal.TCloseness(0.3, **of),
    shoal.TCloseness(0.3, distance="ordered", **of),
    shoal.TCloseness(
        0.3,
        distance="hierarchical",
        taxonomy={"ANY": {"virus": ["HIV", "hiv", "GRIPPE É"], "rest": ["STRASSE", "01", "2.0", "1e1"]}},
        **of,
    ),
    shoal.ConfidenceBound(0.5, values=["Hiv ", "01"], **of),
    shoal.ConfidenceBound(0.5, values=["n/A"], **of),
    shoal.AlphaKAnonymity(0.5, 2, **of),
    shoal.BetaLikeness(1, **of),
    shoal.DeltaDisclosure(1, **of),
]


def policy_of(*require: Any, normalize: Any = ("ill",), **more: Any) -> shoal.Policy:
    return shoal.Policy(
        **{"quasi": {"age": "numeric"}, "sensitive": ["ill"], "missing": MISSING, "require": require, **more},
        normalize=normalize,
    )


def table(listed: list[tuple[int, str | None]], *, seed: int | None = None) -> pd.DataFrame:
    """The records as they are, or with a spelling of every value that is drawn by chance."""
    chance = random.Random(seed)
    spelled = [v if seed is None else chance.choice(SPELLINGS[v]) for _, v in listed]
    return pd.DataFrame({"age": [age for age, _ in listed], "ill": pd.Series(spelled, dtype=object)})


def by_hand(value: Any) -> str | None:
    """The one text of a value, by the words of the documentation alone."""
    if not isinstance(value, str):
        return None
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", value).casefold()).strip(" \t\u200b")
    with contextlib.suppress(ValueError):
        text = repr(float(text))
    return None if text in ("", "?", "n/a") else text


# ---- the one text of a value


@pytest.mark.parametrize("value", list(SPELLINGS), ids=str)
def test_every_spelling_has_the_same_text(value: str | None) -> None:
    normal = Normalizer(tuple(MISSING))
    assert {normal(spelling or "") for spelling in SPELLINGS[value]} == {value or ""}


@given(st.text())
def test_the_text_of_a_text_is_itself(text: str) -> None:
    normal = Normalizer(("", "?"))
    assert normal(normal(text)) == normal(text)
    assert normal(f" {normal(text)}\n") == normal(text)


@given(st.integers(-(10**40), 10**40), st.integers(-60, 60), st.integers(0, 3))
def test_numbers_are_distinguished_by_their_value(digits: int, exponent: int, zeros: int) -> None:
    normal = Normalizer()
    number = Decimal(f"{digits}e{exponent}")
    other = Decimal(f"{digits}{'0' * zeros}e{exponent - zeros}")
    assert normal(str(number)) == normal(f" {number:f} ") == normal(f"{other:f}") == normal(str(other))
    assert normal(f"{digits + 1}e{exponent}") != normal(str(number))


def test_large_numbers_differ() -> None:
    normal = Normalizer()
    assert normal("12345678901234567890") != normal("12345678901234567891")
    assert normal("1e9999") == "1e+9999" and normal("1e99999") == "1e99999"
    assert normal("1_000") == "1_000" and normal("nan") == "nan"


def test_long_texts_take_no_longer_than_they_must() -> None:
    normal = Normalizer()
    for text in ("x" + " " * 200_000 + "x", "1" * 200_000 + "x", "\u200b " * 100 + "x"):
        assert normal(text) == text.strip("\u200b ")


# ---- verdicts


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
@given(listed=rows, seed=st.integers(0, 10**6))
def test_spellings_do_not_change_the_verdict(requirement: Any, listed: list[tuple[int, str | None]], seed: int) -> None:
    policy = policy_of(requirement)
    plain = shoal.check(table(listed), policy)
    spelled = table(listed, seed=seed)
    found = shoal.check(spelled, policy)
    assert found.findings == plain.findings and notes_of(found) == ()
    hand = spelled.assign(ill=spelled["ill"].map(by_hand).astype(object))
    named = getattr(requirement, "values", None) or getattr(requirement, "distance", "equal") != "equal"
    if found.holds and not named:  # by hand, values have other texts than the policy and another order
        assert shoal.check(hand, policy_of(requirement, normalize=())).holds


@given(listed=rows, seed=st.integers(0, 10**6))
def test_distinct_values_are_those_of_plain_pandas(listed: list[tuple[int, str | None]], seed: int) -> None:
    frame = table(listed, seed=seed)
    values = frame["ill"].map(by_hand).astype(object).fillna("(missing)")
    reached = values.groupby(frame["age"]).nunique().min()
    for engine in ENGINES:
        found = shoal.check(frame, policy_of(shoal.LDiversity(2, **of)), engine=engine)
        assert found.findings[0].reached == reached


@given(listed=rows, seed=st.integers(0, 10**6))
def test_the_engines_agree(listed: list[tuple[int, str | None]], seed: int) -> None:
    policy = policy_of(*REQUIREMENTS)
    one, other = (shoal.check(table(listed, seed=seed), policy, engine=engine) for engine in ENGINES)
    assert one == other


@pytest.mark.parametrize("others", [[], ["Ünal", "ünal ", "straße"]], ids=["ascii", "unicode"])
def test_many_texts_are_normalized_as_few_are(others: list[str]) -> None:
    spellings = [
        "?",
        "",
        " ? ",
        "00017",
        "17",
        "17.0",
        "P1",
        " p1",
        "p1 x",
        "Q-9",
        "q-9",
        "0",
        "-0",
        "1e3",
        "1000",
        None,
    ]
    texts = [*spellings, *others, *(f"P{number:05}" for number in range(2 * column_values.MANY_TEXTS))]
    reading = Reading("text", ("", "?"), normalized=True)
    values, index, _ = column_values.unify_values(pa.array(texts), "x", reading)
    normal = Normalizer(("", "?"))
    assert [None if i < 0 else values[i] for i in index] == [normal(text or "") or None for text in texts]
    assert values.tolist() == sorted(set(values))


@pytest.mark.parametrize(
    "method", ["mondrian", "tds", "bottom-up", "agglomerative", "kmember", "knn", "mdav", "condensation"]
)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_release_counts_normalized_values_and_publishes_them_as_they_are(method: str, engine: str) -> None:
    chance = random.Random(7)
    listed = [(chance.randrange(8), chance.choice(["hiv", "1", "2", None])) for _ in range(60)]
    frame = table(listed, seed=3)
    age = {"kind": "numeric", "widths": [2, 4]} if method == "bottom-up" else "numeric"
    policy = policy_of(shoal.KAnonymity(3), shoal.LDiversity(3, **of), quasi={"age": age}, suppress=0.5, target="ill")
    release = shoal.anonymize(frame, policy, method=method, engine=engine)
    assert release.certificate.publishable and notes_of(release.certificate) == ()
    got = release.frame if engine == "memory" else release.frame.df()
    left = got["ill"].fillna("").value_counts() - frame["ill"].fillna("").value_counts()
    assert set(got["ill"].fillna("")) <= set(frame["ill"].fillna("")) and (left.dropna() <= 0).all()
    if method != "condensation":  # its groups are not published
        values = got["ill"].map(by_hand).astype(object).fillna("(missing)")
        assert values.groupby(got["age"]).nunique().min() >= 3


def test_numbers_of_the_ordered_distance_stand_in_their_order() -> None:
    frame = pd.DataFrame({"age": [1, 1, 2, 2], "ill": ["1.0", "02", "10", "1e1"]})
    ordered = shoal.TCloseness(0.5, distance="ordered", **of)
    plain = frame.assign(ill=[1, 2, 10, 10])
    found, expected = (shoal.check(f, policy_of(ordered)).findings for f in (frame, plain))
    assert found == expected
    assert found[0].reached == pytest.approx(0.375)


# ---- values that a policy names


def test_protected_values_are_met_in_every_spelling() -> None:
    frame = pd.DataFrame({"age": [1] * 4, "ill": ["hiv ", "ＨＩＶ", "Hiv", "flu"]})
    for requirement in (
        shoal.ConfidenceBound(0.5, values=["HIV"], **of),
        shoal.AlphaKAnonymity(0.5, 2, values="HIV", **of),
    ):
        assert shoal.check(frame, policy_of(requirement, normalize=())).holds
        found = shoal.check(frame, policy_of(requirement))
        assert not found.holds and found.findings[0].reached == 0.75
        assert found.findings[0].parameters["values"] == ["HIV"]  # as in the policy
        changed = policy_of(shoal.KAnonymity(1)).model_copy(update={"require": (requirement,)})
        assert not shoal.check(frame, changed).holds


def test_a_protected_value_in_another_spelling_is_a_warning() -> None:
    frame = pd.DataFrame({"age": [1] * 4, "ill": ["hiv", "hiv", "hiv", "flu"]})
    (note,) = notes_of(shoal.check(frame, policy_of(shoal.ConfidenceBound(0.5, values=["HIV"], **of), normalize=())))
    assert "('hiv', 'HIV')" in note
    both = shoal.ConfidenceBound(1, values=["HIV", "hiv"], **of)
    assert notes_of(shoal.check(frame, policy_of(both, normalize=()))) == ()


def test_a_word_for_missing_protects_missing_values() -> None:
    frame = pd.DataFrame({"age": [1] * 4, "ill": ["?", None, "N/A", "flu"]})
    assert shoal.check(frame, policy_of(shoal.ConfidenceBound(0.5, values=["n/a"], **of))).findings[0].reached == 0.75


@engines
def test_truly_sensitive_values_are_met_in_every_spelling(engine: str) -> None:
    frame = pd.DataFrame({"age": [1, 1, 2, 2], "ill": ["hiv ", "HIV", "flu", "cold"]})
    policy = policy_of(shoal.KAnonymity(2), truly_sensitive={"ill": ["Hiv"]})
    assert shoal.measure(frame, frame, policy, engine=engine)["sd"] == 2
    given = {"method": "kmember", "diversity": "sensitive", "diversity_penalty": 9, "engine": engine}
    releases = [shoal.anonymize(frame, policy, seed=seed, **given) for seed in range(6)]
    assert min(r.measures["sd"] for r in releases) == 0  # where the first record is one of the two


def test_a_value_in_two_branches_is_an_error() -> None:
    tree = {"ANY": {"virus": ["HIV"], "rest": ["hiv", "flu"]}}
    requirement = shoal.TCloseness(1, distance="hierarchical", taxonomy=tree, **of)
    frame = pd.DataFrame({"age": [1, 1], "ill": ["HIV", "flu"]})
    with pytest.raises(shoal.PolicyError, match="'HIV' and 'hiv' in different branches"):
        shoal.check(frame, policy_of(requirement))
    assert shoal.check(frame, policy_of(requirement, normalize=())).holds


# ---- the policy


@pytest.mark.parametrize("column", ["age", "ward", "name", "Ill", "absent"])
def test_only_columns_that_a_requirement_can_name_are_normalized(column: str) -> None:
    with pytest.raises(shoal.PolicyError, match=f"column '{column}' cannot be normalized: .*choose from 'ill', 'risk'"):
        policy_of(shoal.KAnonymity(2), normalize=[column], keep="ward", identifiers="name", target="risk")


def test_a_target_is_normalized_unless_it_is_quasi() -> None:
    frame = pd.DataFrame({"age": [1, 1], "risk": ["High", "high "]})
    policy = policy_of(shoal.LDiversity(2, of="risk"), normalize="risk", sensitive=(), target="risk")
    assert not shoal.check(frame, policy).holds
    assert shoal.measure(frame, frame, policy)["cm"] == 0
    with pytest.raises(shoal.PolicyError, match="'age' cannot be normalized"):
        policy_of(shoal.KAnonymity(2), normalize="age", target="age")


def test_normalize_is_a_key_of_the_file() -> None:
    text = "quasi: {age: numeric}\nsensitive: [ill]\nnormalize: [ill]\nrequire: [l-diversity: {l: 2, of: ill}]\n"
    policy = shoal.Policy.parse(text)
    assert policy.normalize == ("ill",)
    assert "normalize: [ill]\n" in policy.to_yaml(public=True)
    assert shoal.Policy.parse(policy.to_yaml()) == policy
    with pytest.raises(shoal.PolicyError, match="line 3"):
        shoal.Policy.parse(text.replace("normalize: [ill]", "normalize: [age]"))


# ---- the warning


@engines
@pytest.mark.parametrize(
    ("values", "pairs"),
    [
        (["HIV", "HIV ", "hiv", "flu"], ["('HIV', 'HIV ')", "('HIV', 'hiv')"]),
        (["\u00e9", "e\u0301", "flu", "x"], ["('e\u0301', '\u00e9')"]),
        (["1", "1.0", "01", "2"], ["'1.0'", "'01'"]),
        (["?", "N/A", None, "flu"], ["('?', 'N/A')", "('?', '')"]),
    ],
    ids=str,
)
def test_spellings_are_a_warning_that_names_the_pairs(values: list[str | None], pairs: list[str], engine: str) -> None:
    frame = pd.DataFrame({"age": [1] * 4, "ill": values})
    certificate = shoal.check(frame, policy_of(shoal.LDiversity(2, **of), normalize=()), engine=engine)
    (note,) = notes_of(certificate)
    assert "'ill'" in note and "'normalize: [ill]'" in note
    for pair in pairs:
        assert pair in note
    assert note in str(certificate) and note in certificate.to_dict()["notes"]
    assert note in json.loads(certificate.to_json())["notes"]
    assert certificate.publishable  # a warning, no verdict
    assert notes_of(shoal.check(frame, policy_of(shoal.LDiversity(1, **of)), engine=engine)) == ()
    assert shoal.check(frame, policy_of(shoal.KAnonymity(2), normalize=()), engine=engine).notes == ()


def test_at_most_five_pairs_are_named() -> None:
    frame = pd.DataFrame({"age": 1, "ill": [f"{case(v)}" for v in "abcdefg" for case in (str.upper, str.lower)]})
    (note,) = notes_of(shoal.check(frame, policy_of(shoal.LDiversity(2, **of), normalize=())))
    assert note.count("('") == 5 and "and 2 more" in note


def test_values_of_suppressed_records_are_not_in_the_warning(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [1, 1, 1, 9], "ill": ["flu", "Flu", "hiv", "HIV"]})
    policy = policy_of(
        shoal.KAnonymity(3),
        normalize=(),
        quasi={"age": "categorical"},
        suppress=0.3,
        require=[shoal.LDiversity(3, **of)],
    )
    release = shoal.anonymize(frame, policy, method="tds")
    assert list(release.frame["ill"]) == ["flu", "Flu", "hiv"]
    (note,) = notes_of(release.certificate)
    assert "('Flu', 'flu')" in note and "HIV" not in note and "hiv" not in note
    folder = release.save(tmp_path / "release")
    assert note in json.loads((folder / "certificate.json").read_text())["notes"]
    assert "normalize: [ill]" in (folder / "report.html").read_text()


# ---- later releases


def months(tmp_path: Path, first: shoal.Policy, later: shoal.Policy | None, new: list[str]) -> shoal.Release:
    frame = pd.DataFrame({"age": [1, 1, 2, 2], "ill": ["HIV", "flu", "HIV", "flu"]})
    shoal.anonymize(frame, first).save(tmp_path / "october")
    more = pd.DataFrame({"age": [1] * len(new), "ill": new})
    return shoal.anonymize(more, later, recoding=tmp_path / "october.owner" / "recoding.json")


BOUND = shoal.ConfidenceBound(0.5, **of)


def test_later_records_are_counted_in_every_spelling_with_those_before(tmp_path: Path) -> None:
    normalized = policy_of(shoal.KAnonymity(2), BOUND)
    with pytest.raises(shoal.RequirementNotMet):
        months(tmp_path / "a", normalized, None, ["hiv", "HIV "])
    release = months(tmp_path / "b", normalized, None, ["hiv", "FLU"])
    assert release.certificate.holds and notes_of(release.certificate) == ()
    folder = release.save(tmp_path / "b" / "november")
    again = pd.DataFrame({"age": [1] * 3, "ill": [" hiv", "Flu", "flu"]})
    with pytest.raises(shoal.RequirementNotMet):
        shoal.anonymize(again, recoding=f"{folder}.owner/recoding.json")


def test_a_later_policy_normalizes_records_released_before(tmp_path: Path) -> None:
    plain, normalized = policy_of(shoal.KAnonymity(2), BOUND, normalize=()), policy_of(shoal.KAnonymity(2), BOUND)
    with pytest.raises(shoal.RequirementNotMet):
        months(tmp_path / "a", plain, normalized, ["hiv", "Hiv"])
    release = months(tmp_path / "b", plain, normalized, ["hiv", "Flu"])
    assert release.certificate.suppressed == 0 and len(release.frame) == 2


def test_a_later_policy_cannot_take_normalization_back(tmp_path: Path) -> None:
    normalized = policy_of(shoal.KAnonymity(2), BOUND)
    plain = policy_of(shoal.KAnonymity(2), BOUND, normalize=())
    with pytest.raises(shoal.PolicyError, match=r"'ill' were normalized .* Add 'normalize: \[ill\]'"):
        months(tmp_path, normalized, plain, ["hiv", "flu"])


def test_a_later_spelling_is_a_warning_that_quotes_no_earlier_value(tmp_path: Path) -> None:
    plain = policy_of(shoal.KAnonymity(2), BOUND, normalize=())
    (note,) = notes_of(months(tmp_path, plain, None, ["hiv", "flu"]).certificate)
    assert "values of this table and of earlier releases" in note and "HIV" not in note
