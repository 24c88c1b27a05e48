"""A synthetic hospital: fictitious patients with realistic dependencies between columns.

Education and marital status depend on age; occupation on education, age and sex; the country of birth on the region
of the ZIP code; cost on the diagnosis. Diagnoses depend on age and sex, and on the rules of `PLANTED`, which data
mining should discover. If several rules apply to a patient, a later rule overrides an earlier one:

>>> for rule in PLANTED:
...     print(rule)
age 0 to 2 -> Bronchiolitis, 30 %
age 6 to 17 -> Appendicitis, 20 %
age 15 to 29, sex Male -> Fracture of the arm, 20 %
age 20 to 39, sex Female -> Childbirth, 30 %
age 45 to 74, sex Female -> Breast cancer, 10 %
age 60 to 89, sex Male -> Prostate cancer, 12 %
age 75 to 100, sex Female -> Hip fracture, 15 %
age 80 to 100 -> Alzheimer disease, 15 %
occupation Miner -> Silicosis, 40 %
occupation Baker -> Asthma, 30 %
occupation Painter or Hairdresser -> Contact dermatitis, 30 %
occupation Farmer -> Lyme disease, 25 %
occupation Driver -> Herniated disc, 30 %
occupation Programmer or Clerk -> Carpal tunnel syndrome, 20 %
country India or Philippines or Vietnam -> Tuberculosis, 15 %
country Greece or Italy -> Thalassemia, 25 %
country Ghana or Nigeria -> Sickle cell disease, 30 %

Impossible combinations are not generated: no man gives birth, no woman has prostate cancer, no patient under 65 has
Alzheimer disease, no child is married, every physician has the degree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shoal.arrays import FloatArray, Int32Array
from shoal.datasets.hospital_figures import (
    AGES,
    BORN,
    COUNTRY,
    EDUCATION,
    EDUCATION_AT,
    FAMILIES,
    FEMALE,
    FIRST_DAY,
    IDLE_AT,
    ILLNESS_AGES,
    ILLNESSES,
    LAST_DAY,
    MARITAL,
    MARITAL_AT,
    MEN,
    MISSING,
    OCCUPATION,
    OLDEST,
    PLANTED,
    REGIONS,
    SCHOOLED,
    SEXES,
    STAGES,
    WOMEN,
    WORK,
    YEAR,
    YOUNG_WORK,
    Tree,
)
from shoal.engines import Column, build_frame
from shoal.errors import DataError
from shoal.policy import Policy
from shoal.requirements import KAnonymity


def hospital(n: int = 50_000, seed: int = 0, *, kind: str | None = None) -> Any:
    """Generate patients of a synthetic hospital.

    Parameters
    ----------
    n
        The number of patients.
    seed
        The same seed and n give the same table; another n gives other patients.
    kind
        The kind of frame, ``"pandas"``, ``"polars"`` or ``"pyarrow"`` (default: the first that is installed).

    Returns
    -------
    A frame with the columns name, birth, zip, sex, education, occupation, marital, country, admission,
    diagnosis and cost. Between 1 % and 3 % of the values of zip, education, occupation and country are missing.

    Examples
    --------
    >>> table = hospital(1_000, seed=7, kind="pyarrow")
    >>> table.num_rows, table.column_names[:4]
    (1000, ['name', 'birth', 'zip', 'sex'])
    """
    if n < 0:
        raise DataError(f"hospital cannot generate {n} patients; n must be at least 0")
    return build_frame(draw_columns(n, np.random.default_rng(seed)), kind)


def hospital_policy(k: int = 10) -> Policy:
    """A typical policy for `hospital`: k-anonymity on seven quasi-identifiers, with the diagnosis as sensitive attribute.

    The admission date has no role, so it is dropped: neighbours and employers know it as well as a birthday, and as an
    eighth quasi-identifier it would increase the information loss of the other seven by more than it is worth.

    Guarantee: k-anonymity on the quasi-identifiers. The cost is released unchanged, so a person who has seen a bill may
    recognize the patient by the cost.
    """
    return Policy(
        identifiers=["name"],
        quasi={
            "birth": {"date": ["day", "month", "year", "decade"]},
            "zip": {"mask": "right"},
            "sex": "categorical",
            "education": {"taxonomy": EDUCATION},
            "occupation": {"taxonomy": OCCUPATION},
            "marital": {"taxonomy": MARITAL},
            "country": {"taxonomy": COUNTRY},
        },
        sensitive=["diagnosis"],
        keep=["cost"],
        require=[KAnonymity(k)],
    )


def draw_columns(n: int, rng: np.random.Generator) -> dict[str, Column]:
    """Draw the columns of `hospital`, in order; texts are codes."""
    age = _draw_ages(n, rng)
    stage = _step(STAGES, age)
    admission = FIRST_DAY + _draw(_compute_day_weights(), np.zeros(n, np.int32), rng).astype(np.int64)
    birth = admission - (np.ceil(age * YEAR).astype(np.int64) + rng.integers(0, 365, n))
    sex = _draw([(share, 1 - share) for share in FEMALE], stage, rng)
    education = _draw(_by(EDUCATION, EDUCATION_AT).T, stage, rng)
    occupation = _draw_occupations(stage, sex, education, rng)
    marital = _draw_marital_status(stage, sex, rng)
    zips, country = _draw_homes(n, rng)
    drawn: dict[str, Column] = {
        "name": _draw_names(sex, rng),
        "birth": Column(birth),
        "zip": zips,
        "sex": Column(sex, SEXES),
        "education": Column(education, leaves(EDUCATION)),
        "occupation": Column(occupation, leaves(OCCUPATION)),
        "marital": Column(marital, leaves(MARITAL)),
        "country": Column(country, leaves(COUNTRY)),
        "admission": Column(admission),
    }
    diagnosis = _draw_diagnoses(age, sex, drawn, rng)
    drawn["diagnosis"] = Column(diagnosis, tuple(ILLNESSES))
    drawn["cost"] = Column(_draw_costs(diagnosis, rng))
    for name, share in MISSING.items():
        drawn[name].values[rng.random(n) < share] = -1
    return drawn


def leaves(tree: Tree) -> tuple[str, ...]:
    """The leaves of a nested tree, first to last.

    >>> leaves({"ANY": {"Warm": ["red", "orange"], "Cold": {"Deep": ["blue"]}}})
    ('red', 'orange', 'blue')
    """
    return tuple(_walk(tree))


def _walk(tree: Tree) -> Iterator[str]:
    if isinstance(tree, list):
        yield from tree
    else:
        for branch in tree.values():
            yield from _walk(branch)


def _draw(weights: ArrayLike, row: Int32Array, rng: np.random.Generator) -> Int32Array:
    """For each entry of `row`, draw a code by the weights in that row of the table.

    The cumulative weights of row i are scaled to the interval from i to i + 1, so that one binary search serves all
    rows. A code of weight zero has an empty interval and is never drawn.
    """
    table = np.atleast_2d(np.asarray(weights, dtype=np.float64))
    line = np.cumsum(table, axis=1)
    line = line / line[:, -1:] + np.arange(len(table))[:, None]
    place = np.minimum(row + rng.random(len(row)), np.nextafter(row + 1.0, 0.0))
    found = np.searchsorted(line.ravel(), place, side="right")
    codes: Int32Array = (found - row.astype(np.int64) * table.shape[1]).astype(np.int32)
    return codes


def _by(tree: Tree, table: Mapping[str, Sequence[float]]) -> FloatArray:
    """The rows of a table in the order of a tree's leaves."""
    return np.array([table[leaf] for leaf in leaves(tree)], dtype=np.float64)


def _step(bounds: Sequence[int], age: Int32Array) -> Int32Array:
    steps = np.searchsorted(bounds, np.arange(OLDEST + 1), side="right") - 1
    return steps.astype(np.int32)[age]


def _draw_ages(n: int, rng: np.random.Generator) -> Int32Array:
    at, weight = zip(*AGES, strict=True)
    return _draw(np.interp(np.arange(OLDEST + 1), at, weight), np.zeros(n, np.int32), rng)


def _compute_day_weights() -> FloatArray:
    """A weight per day of admission: more in winter, fewer at weekends."""
    days = np.arange(FIRST_DAY, LAST_DAY + 1)
    season = 1 + 0.15 * np.cos(2 * np.pi * (days - FIRST_DAY).astype(np.float64) / YEAR)
    return np.where(np.is_busday(days), season, 0.65 * season)


def _draw_names(sex: Int32Array, rng: np.random.Generator) -> Column:
    women, men, families = WOMEN.split(), MEN.split(), FAMILIES.split()
    given = _draw(1 / (np.arange(len(women)) + 8), np.zeros(len(sex), np.int32), rng)
    family = _draw(1 / (np.arange(len(families)) + 12), np.zeros(len(sex), np.int32), rng)
    code = (given + sex * np.int32(len(women))) * np.int32(len(families)) + family
    return Column(code, tuple(f"{first} {last}" for first in women + men for last in families))


def _draw_homes(n: int, rng: np.random.Generator) -> tuple[Column, Int32Array]:
    """Draw ZIP codes, a few of which have many patients, and countries of birth by region."""
    texts = tuple(f"{region.prefix}{i + 1:02d}" for region in REGIONS for i in range(region.zips))
    rank = np.concatenate([1 / (np.arange(region.zips) + 1.5) for region in REGIONS])
    of_zip = np.repeat(np.arange(len(REGIONS), dtype=np.int32), [region.zips for region in REGIONS])
    patients = np.array([region.patients for region in REGIONS])
    share = patients / np.bincount(of_zip, weights=rank)
    zips = _draw(rank * share[of_zip], np.zeros(n, np.int32), rng)
    born = {name: weight for weight, names in BORN for name in names}
    weight = np.tile([born[name] for name in leaves(COUNTRY)], (len(REGIONS), 1))
    weight[:, 1:] *= np.array([region.abroad for region in REGIONS])[:, None]
    return Column(zips, texts), _draw(weight, of_zip[zips], rng)


def _draw_marital_status(stage: Int32Array, sex: Int32Array, rng: np.random.Generator) -> Int32Array:
    """Draw the marital status by stage of life and sex; more women than men are widowed."""
    table = np.repeat(_by(MARITAL, MARITAL_AT).T, 2, axis=0)
    table[:, leaves(MARITAL).index("Widowed")] *= np.tile([1.5, 0.6], len(STAGES))
    return _draw(table, stage * np.int32(2) + sex, rng)


def _draw_occupations(
    stage: Int32Array, sex: Int32Array, education: Int32Array, rng: np.random.Generator
) -> Int32Array:
    """Draw the occupation by stage of life, sex and education."""
    names = leaves(OCCUPATION)
    levels = max(SCHOOLED) + 1
    table = np.zeros((len(STAGES), 2, levels, len(names)))
    for name, (weight, women) in WORK.items():
        table[..., names.index(name)] = np.array([women, 1 - women])[:, None] * np.array(weight)
    for name in YOUNG_WORK:
        table[np.array(STAGES) >= 65, :, :, names.index(name)] = 0
    idle = np.array(list(IDLE_AT.values()), dtype=np.float64)
    working = 100 - idle.sum(axis=0)
    table *= working[:, None, None, None] / table.sum(axis=-1, keepdims=True)
    for name, shares in zip(IDLE_AT, idle, strict=True):
        table[..., names.index(name)] = shares[:, None, None]
    table[..., names.index("Homemaker")] *= np.array([1.7, 0.3])[:, None]
    # Adults without upper secondary education do not study.
    table[np.array(STAGES) >= 18, :, 0, names.index("Student")] = 0
    level = np.array(SCHOOLED, dtype=np.int32)[education]
    row = (stage * np.int32(2) + sex) * np.int32(levels) + level
    return _draw(table.reshape(-1, len(names)), row, rng)


def _draw_diagnoses(
    age: Int32Array, sex: Int32Array, drawn: Mapping[str, Column], rng: np.random.Generator
) -> Int32Array:
    """Draw a diagnosis by age and sex, then apply the planted rules in order."""
    weight = np.array([illness.weight for illness in ILLNESSES.values()]).T
    by_sex = np.array([(illness.women, illness.men) for illness in ILLNESSES.values()]).T
    table = (weight[:, None, :] * by_sex).reshape(-1, len(ILLNESSES))
    diagnosis = _draw(table, _step(ILLNESS_AGES, age) * np.int32(2) + sex, rng)
    places = {name: place for place, name in enumerate(ILLNESSES)}
    for rule in PLANTED:
        fits = (age >= rule.age[0]) & (age <= rule.age[1])
        for name, chosen in rule.when.items():
            column = drawn[name]
            fits &= np.isin(np.array(column.categories), chosen)[column.values]
        at = np.flatnonzero(fits)
        diagnosis[at[rng.random(len(at)) < rule.share]] = places[rule.diagnosis]
    return diagnosis


def _draw_costs(diagnosis: Int32Array, rng: np.random.Generator) -> FloatArray:
    middle = np.log(np.array([illness.cost for illness in ILLNESSES.values()], dtype=np.float64))
    spread = np.array([illness.spread for illness in ILLNESSES.values()], dtype=np.float64)
    return np.exp(middle[diagnosis] + spread[diagnosis] * rng.standard_normal(len(diagnosis))).round(2)
