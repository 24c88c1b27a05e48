"""A made-up hospital: patients who never lived, with the dependencies that real ones have.

Education and marital status follow age, occupation follows education, age and sex, the country of birth
follows the region of the ZIP code, and cost follows the diagnosis. Diagnoses first follow age and sex, then
the rules of `PLANTED`, which whoever mines the table should find again; where two rules fit, the later wins:

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

What cannot be is never drawn: no man gives birth, no woman has prostate cancer, nobody under 65 has Alzheimer
disease, no child is married, no physician lacks the degree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.engines import Column, frame_of
from shoal.errors import DataError
from shoal.policy import Policy
from shoal.requirements import KAnonymity

Tree: TypeAlias = "dict[str, Tree] | list[str]"
Codes: TypeAlias = NDArray[np.int32]

OLDEST = 100
YEAR = 365.2425
FIRST_DAY, LAST_DAY = np.datetime64("2023-01-01", "D"), np.datetime64("2025-12-31", "D")
MISSING = {"zip": 0.01, "education": 0.02, "occupation": 0.03, "country": 0.02}
SEXES = ("Female", "Male")

EDUCATION: Tree = {
    "ANY": {
        "Never attended": ["No schooling"],
        "School": {
            "Compulsory": ["Primary school", "Lower secondary"],
            "Upper secondary": ["High school", "Vocational school"],
        },
        "Higher": {
            "Undergraduate": ["Some college", "Associate degree", "Bachelor degree"],
            "Graduate": ["Master degree", "Professional degree", "Doctorate"],
        },
    }
}
OCCUPATION: Tree = {
    "ANY": {
        "Working": {
            "Professional": {
                "Health": ["Physician", "Nurse", "Pharmacist"],
                "Teaching": ["Teacher", "Professor"],
                "Technology": ["Engineer", "Programmer"],
                "Law and business": ["Lawyer", "Accountant", "Manager"],
            },
            "Office and sales": ["Clerk", "Salesperson"],
            "Manual": {
                "Land": ["Miner", "Farmer"],
                "Building": ["Builder", "Painter", "Welder"],
                "Making and moving": ["Machinist", "Baker", "Driver"],
            },
            "Service": ["Cook", "Hairdresser", "Cleaner", "Police officer", "Soldier"],
        },
        "Not working": {
            "Learning": ["Preschool child", "Pupil", "Student"],
            "At home": ["Homemaker", "Unemployed", "Retired"],
        },
    }
}
MARITAL: Tree = {
    "ANY": {
        "Partnered": ["Married", "Registered partnership"],
        "Alone": {"Was married": ["Separated", "Divorced", "Widowed"], "Single": ["Never married"]},
    }
}
COUNTRY: Tree = {
    "ANY": {
        "Americas": {
            "North America": ["United States", "Canada", "Mexico"],
            "Central America": ["El Salvador", "Guatemala"],
            "Caribbean": ["Cuba", "Dominican Republic", "Haiti", "Jamaica"],
            "South America": ["Brazil", "Colombia", "Ecuador", "Peru"],
        },
        "Europe": {
            "Western Europe": ["France", "Germany", "Ireland", "United Kingdom"],
            "Southern Europe": ["Greece", "Italy", "Portugal"],
            "Eastern Europe": ["Poland", "Romania", "Ukraine"],
        },
        "Asia": {
            "East Asia": ["China", "Japan", "South Korea"],
            "South and South-East Asia": {
                "South Asia": ["Bangladesh", "India", "Pakistan"],
                "South-East Asia": ["Philippines", "Vietnam"],
            },
        },
        "Africa": ["Egypt", "Ethiopia", "Ghana", "Nigeria"],
    }
}

# Ages are drawn by year, between these points: (age, relative number of patients).
AGES = (
    *((0, 4.0), (1, 1.3), (5, 0.7), (12, 0.4), (17, 0.6), (25, 1.0), (32, 1.2), (40, 1.0)),
    *((50, 1.1), (65, 1.6), (75, 1.8), (85, 1.4), (92, 0.5), (OLDEST, 0.03)),
)
# The stages of life: each begins at this age. The tables below hold one weight per stage.
STAGES = (0, 6, 12, 15, 18, 22, 28, 45, 60, 65, 75)
FEMALE = (0.47, 0.47, 0.50, 0.53, 0.62, 0.64, 0.60, 0.48, 0.47, 0.48, 0.58)
EDUCATION_AT = {
    "No schooling": (1, 0, 0, 0, 0.01, 0.01, 0.01, 0.015, 0.02, 0.03, 0.04),
    "Primary school": (0, 1, 0, 0, 0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.12),
    "Lower secondary": (0, 0, 1, 0.7, 0.08, 0.06, 0.06, 0.08, 0.10, 0.12, 0.16),
    "High school": (0, 0, 0, 0.3, 0.45, 0.26, 0.24, 0.28, 0.30, 0.32, 0.32),
    "Vocational school": (0, 0, 0, 0, 0.08, 0.10, 0.10, 0.11, 0.11, 0.10, 0.08),
    "Some college": (0, 0, 0, 0, 0.37, 0.22, 0.14, 0.13, 0.12, 0.11, 0.09),
    "Associate degree": (0, 0, 0, 0, 0, 0.09, 0.09, 0.08, 0.07, 0.05, 0.04),
    "Bachelor degree": (0, 0, 0, 0, 0, 0.21, 0.22, 0.17, 0.14, 0.12, 0.09),
    "Master degree": (0, 0, 0, 0, 0, 0.03, 0.09, 0.08, 0.07, 0.06, 0.04),
    "Professional degree": (0, 0, 0, 0, 0, 0, 0.02, 0.02, 0.015, 0.015, 0.01),
    "Doctorate": (0, 0, 0, 0, 0, 0, 0.015, 0.015, 0.015, 0.01, 0.01),
}
MARITAL_AT = {
    "Married": (0, 0, 0, 0, 0.05, 0.28, 0.58, 0.60, 0.60, 0.57, 0.42),
    "Registered partnership": (0, 0, 0, 0, 0.02, 0.05, 0.05, 0.03, 0.02, 0.01, 0.005),
    "Separated": (0, 0, 0, 0, 0.002, 0.01, 0.03, 0.035, 0.03, 0.02, 0.01),
    "Divorced": (0, 0, 0, 0, 0.003, 0.03, 0.10, 0.17, 0.18, 0.15, 0.09),
    "Widowed": (0, 0, 0, 0, 0.0002, 0.001, 0.005, 0.03, 0.07, 0.15, 0.42),
    "Never married": (1, 1, 1, 1, 0.93, 0.63, 0.235, 0.13, 0.10, 0.09, 0.055),
}
# The share of a stage that does not work, in hundredths; who is left works.
IDLE_AT = {
    "Preschool child": (100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "Pupil": (0, 100, 100, 100, 0, 0, 0, 0, 0, 0, 0),
    "Student": (0, 0, 0, 0, 45, 15, 2, 0, 0, 0, 0),
    "Homemaker": (0, 0, 0, 0, 2, 4, 8, 7, 6, 3, 1),
    "Unemployed": (0, 0, 0, 0, 10, 8, 6, 6, 5, 1, 0),
    "Retired": (0, 0, 0, 0, 0, 0, 0, 3, 25, 80, 96),
}
# Work by education (compulsory or none, upper secondary, some college or associate, bachelor, master,
# professional, doctorate), and the share of women in it.
WORK = {
    "Physician": ((0, 0, 0, 0, 0, 40, 12), 0.45),
    "Nurse": ((0, 0, 14, 10, 5, 0, 0), 0.88),
    "Pharmacist": ((0, 0, 0, 0, 0, 12, 3), 0.60),
    "Teacher": ((0, 0, 1, 14, 18, 0, 4), 0.75),
    "Professor": ((0, 0, 0, 0, 4, 2, 50), 0.45),
    "Engineer": ((0, 0, 3, 12, 14, 0, 14), 0.20),
    "Programmer": ((0, 1, 6, 10, 9, 0, 6), 0.25),
    "Lawyer": ((0, 0, 0, 0, 0, 34, 0), 0.45),
    "Accountant": ((0, 0, 5, 8, 8, 0, 0), 0.55),
    "Manager": ((2, 6, 9, 16, 20, 6, 8), 0.45),
    "Clerk": ((3, 12, 15, 8, 3, 0, 0), 0.75),
    "Salesperson": ((8, 14, 12, 7, 2, 0, 0), 0.50),
    "Miner": ((6, 4, 1, 0, 0, 0, 0), 0.05),
    "Farmer": ((10, 5, 2, 1, 0, 0, 0), 0.25),
    "Builder": ((16, 10, 4, 1, 0, 0, 0), 0.05),
    "Painter": ((6, 4, 1, 0, 0, 0, 0), 0.10),
    "Welder": ((6, 6, 2, 0, 0, 0, 0), 0.05),
    "Machinist": ((9, 8, 3, 0, 0, 0, 0), 0.20),
    "Baker": ((4, 4, 1, 0, 0, 0, 0), 0.40),
    "Driver": ((11, 9, 5, 1, 0, 0, 0), 0.10),
    "Cook": ((10, 7, 3, 0, 0, 0, 0), 0.45),
    "Hairdresser": ((2, 5, 2, 0, 0, 0, 0), 0.85),
    "Cleaner": ((14, 4, 1, 0, 0, 0, 0), 0.70),
    "Police officer": ((0, 3, 4, 3, 0, 0, 0), 0.20),
    "Soldier": ((0, 4, 3, 2, 1, 0, 0), 0.15),
}
# Which of those seven each kind of education belongs to.
SCHOOLED = (0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6)
YOUNG_WORK = ("Miner", "Police officer", "Soldier")
# How many patients were born in each of these countries, one number for all of a line.
BORN = (
    (78.0, ("United States",)),
    (5.0, ("Mexico",)),
    (1.4, ("China", "India", "Philippines")),
    (0.8, ("Cuba", "Dominican Republic", "El Salvador", "Guatemala", "South Korea", "Vietnam")),
    (0.5, ("Canada", "Colombia", "Germany", "Haiti", "Jamaica", "United Kingdom")),
    (0.4, ("Brazil", "Ecuador", "Italy", "Nigeria", "Pakistan", "Peru", "Poland")),
    (0.3, ("Bangladesh", "Ethiopia", "Ghana", "Japan", "Ukraine")),
    (0.2, ("Egypt", "France", "Greece", "Ireland", "Portugal", "Romania")),
)


class Region(NamedTuple):
    """The ZIP codes that share three digits: how many, how many patients, how often born abroad."""

    prefix: str
    zips: int
    patients: float
    abroad: float


REGIONS = (
    Region("006", 8, 0.6, 0.3),
    Region("010", 18, 2.0, 0.6),
    Region("021", 36, 9.0, 1.3),
    Region("060", 20, 3.0, 0.8),
    Region("088", 16, 3.0, 1.5),
    Region("100", 48, 14.0, 1.8),
    Region("152", 26, 4.0, 0.4),
    Region("191", 40, 7.0, 0.8),
    Region("303", 30, 6.0, 0.9),
    Region("331", 44, 8.0, 2.4),
    Region("432", 24, 4.0, 0.6),
    Region("479", 14, 1.2, 0.7),
    Region("551", 20, 3.0, 0.7),
    Region("606", 46, 10.0, 1.3),
    Region("700", 16, 1.5, 0.5),
    Region("770", 44, 9.0, 1.6),
    Region("802", 24, 4.0, 0.8),
    Region("871", 14, 1.5, 0.9),
    Region("900", 48, 13.0, 2.0),
    Region("981", 30, 5.0, 1.1),
)


class Illness(NamedTuple):
    """How often an illness comes from ages 0, 6, 18, 45 and 65 on, to women and to men, and what it costs."""

    weight: tuple[float, float, float, float, float]
    women: float
    men: float
    cost: float
    spread: float


ILLNESS_AGES = (0, 6, 18, 45, 65)
ILLNESSES = {
    "Pneumonia": Illness((10, 5, 4, 6, 12), 1, 1, 9_500, 0.6),
    "Influenza": Illness((9, 8, 4, 3, 5), 1, 1, 4_200, 0.5),
    "Bronchiolitis": Illness((6, 0, 0, 0, 0), 1, 1, 5_200, 0.4),
    "Gastroenteritis": Illness((9, 7, 4, 3, 3), 1, 1, 3_100, 0.5),
    "Asthma": Illness((5, 7, 3, 2, 2), 1, 1, 4_800, 0.5),
    "Appendicitis": Illness((1, 6, 4, 2, 1), 1, 1.2, 14_500, 0.35),
    "Tonsillitis": Illness((5, 9, 2, 0.3, 0), 1, 1, 5_200, 0.35),
    "Fracture of the arm": Illness((4, 9, 4, 3, 3), 0.9, 1.1, 6_800, 0.5),
    "Depression": Illness((0, 4, 8, 5, 2), 1.5, 0.8, 7_900, 0.7),
    "Diabetes": Illness((0.3, 2, 4, 9, 8), 0.9, 1.1, 8_800, 0.7),
    "Childbirth": Illness((0, 0, 12, 0, 0), 1, 0, 11_500, 0.35),
    "Pregnancy complication": Illness((0, 0, 5, 0, 0), 1, 0, 8_300, 0.6),
    "Gallstones": Illness((0, 0.3, 4, 6, 4), 1.4, 0.8, 13_200, 0.4),
    "Herniated disc": Illness((0, 0.1, 4, 5, 3), 1, 1, 18_500, 0.6),
    "Carpal tunnel syndrome": Illness((0, 0, 1, 2, 1), 1.3, 0.8, 3_600, 0.3),
    "Contact dermatitis": Illness((1, 1, 1, 0.8, 0.5), 1, 1, 1_900, 0.5),
    "Heart attack": Illness((0, 0, 1, 9, 11), 0.8, 1.4, 24_500, 0.6),
    "Heart failure": Illness((0.1, 0.1, 0.5, 5, 14), 1, 1.1, 16_400, 0.6),
    "Stroke": Illness((0, 0.1, 0.8, 5, 11), 1, 1.1, 21_700, 0.7),
    "Silicosis": Illness((0, 0, 0.02, 0.1, 0.15), 0.2, 1, 15_800, 0.6),
    "Lung cancer": Illness((0, 0, 0.2, 3, 5), 0.8, 1.2, 32_000, 0.7),
    "Colon cancer": Illness((0, 0, 0.4, 3, 4), 0.9, 1.1, 29_500, 0.6),
    "Breast cancer": Illness((0, 0, 1, 4, 4), 1, 0.01, 26_300, 0.6),
    "Prostate cancer": Illness((0, 0, 0, 3, 6), 0, 1, 22_800, 0.5),
    "Hip fracture": Illness((0.1, 0.1, 0.3, 1.5, 7), 1.4, 0.8, 25_900, 0.4),
    "Alzheimer disease": Illness((0, 0, 0, 0, 5), 1.1, 0.9, 14_100, 0.6),
    "Lyme disease": Illness((0.3, 0.6, 0.6, 0.6, 0.4), 1, 1, 4_400, 0.5),
    "Tuberculosis": Illness((0.1, 0.1, 0.3, 0.4, 0.5), 0.8, 1.2, 17_300, 0.6),
    "Thalassemia": Illness((0.1, 0.1, 0.05, 0.03, 0.02), 1, 1, 12_600, 0.5),
    "Sickle cell disease": Illness((0.1, 0.1, 0.08, 0.03, 0.01), 1, 1, 11_900, 0.6),
}


@dataclass(frozen=True)
class Planted:
    """Of the patients of these ages with these values, this share gets the diagnosis."""

    diagnosis: str
    share: float
    age: tuple[int, int] = (0, OLDEST)
    when: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        ages = [f"age {self.age[0]} to {self.age[1]}"] if self.age != (0, OLDEST) else []
        values = [f"{name} {' or '.join(chosen)}" for name, chosen in self.when.items()]
        return f"{', '.join(ages + values)} -> {self.diagnosis}, {self.share:.0%}".replace("%", " %")


PLANTED = (
    Planted("Bronchiolitis", 0.30, age=(0, 2)),
    Planted("Appendicitis", 0.20, age=(6, 17)),
    Planted("Fracture of the arm", 0.20, age=(15, 29), when={"sex": ("Male",)}),
    Planted("Childbirth", 0.30, age=(20, 39), when={"sex": ("Female",)}),
    Planted("Breast cancer", 0.10, age=(45, 74), when={"sex": ("Female",)}),
    Planted("Prostate cancer", 0.12, age=(60, 89), when={"sex": ("Male",)}),
    Planted("Hip fracture", 0.15, age=(75, OLDEST), when={"sex": ("Female",)}),
    Planted("Alzheimer disease", 0.15, age=(80, OLDEST)),
    Planted("Silicosis", 0.40, when={"occupation": ("Miner",)}),
    Planted("Asthma", 0.30, when={"occupation": ("Baker",)}),
    Planted("Contact dermatitis", 0.30, when={"occupation": ("Painter", "Hairdresser")}),
    Planted("Lyme disease", 0.25, when={"occupation": ("Farmer",)}),
    Planted("Herniated disc", 0.30, when={"occupation": ("Driver",)}),
    Planted("Carpal tunnel syndrome", 0.20, when={"occupation": ("Programmer", "Clerk")}),
    Planted("Tuberculosis", 0.15, when={"country": ("India", "Philippines", "Vietnam")}),
    Planted("Thalassemia", 0.25, when={"country": ("Greece", "Italy")}),
    Planted("Sickle cell disease", 0.30, when={"country": ("Ghana", "Nigeria")}),
)

# The commonest first.
WOMEN = """
Mary Patricia Jennifer Linda Elizabeth Barbara Susan Jessica Karen Sarah Lisa Nancy Sandra Ashley Emily
Kimberly Margaret Donna Michelle Carol Amanda Melissa Deborah Stephanie Rebecca Maria Rosa Mei Aisha Olga
"""
MEN = """
James Michael Robert John David William Richard Joseph Thomas Christopher Charles Daniel Matthew Anthony
Mark Donald Steven Andrew Paul Joshua Kenneth Kevin Brian Timothy George Jose Luis Wei Ahmed Ivan
"""
FAMILIES = """
Smith Johnson Williams Brown Jones Garcia Miller Davis Rodriguez Martinez Hernandez Lopez Gonzalez Wilson
Anderson Thomas Taylor Moore Jackson Martin Lee Perez Thompson White Harris Sanchez Clark Ramirez Lewis
Robinson Walker Young Allen King Wright Scott Torres Nguyen Hill Flores Green Adams Nelson Baker Hall
Rivera Campbell Mitchell Carter Roberts Gomez Phillips Evans Turner Diaz Parker Cruz Edwards Collins Reyes
Stewart Morris Morales Murphy Cook Rogers Gutierrez Ortiz Morgan Cooper Peterson Bailey Reed Kelly Howard
Ramos Kim Cox Ward Richardson Watson Brooks Chavez Wood James Bennett Gray Mendoza Ruiz Hughes Price
Alvarez Castillo Sanders Patel Myers Long Ross Foster Kowalski
"""


def hospital(n: int = 50_000, seed: int = 0, *, kind: str | None = None) -> Any:
    """Draw patients of a made-up hospital.

    Parameters
    ----------
    n
        How many patients.
    seed
        The same seed and number give the same table; another number gives other patients.
    kind
        The kind of frame, ``"pandas"``, ``"polars"`` or ``"pyarrow"``; by default the first installed.

    Returns
    -------
    A frame with the columns name, birth, zip, sex, education, occupation, marital, country, admission,
    diagnosis and cost. A few in a hundred values of zip, education, occupation and country are missing.

    Examples
    --------
    >>> table = hospital(1_000, seed=7, kind="pyarrow")
    >>> table.num_rows, table.column_names[:4]
    (1000, ['name', 'birth', 'zip', 'sex'])
    """
    if n < 0:
        raise DataError(f"hospital cannot draw {n} patients; n must be 0 or more")
    return frame_of(columns(n, np.random.default_rng(seed)), kind)


def hospital_policy(k: int = 10) -> Policy:
    """What a steward might ask for `hospital`: everybody hides among k, the diagnosis is sensitive.

    The admission date has no role, so it is left out: neighbours and employers know it as well as they know a
    birthday, and as one more quasi-identifier it would cost the other seven more than it is worth.

    Guarantee: k-anonymity on the quasi-identifiers. The cost stays exact, so whoever has seen a bill may know
    the patient by it.
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


def columns(n: int, rng: np.random.Generator) -> dict[str, Column]:
    """The columns of `hospital`, in their order, text as codes."""
    age = _ages(n, rng)
    stage = _step(STAGES, age)
    admission = FIRST_DAY + _draw(_days(), np.zeros(n, np.int32), rng).astype(np.int64)
    birth = admission - (np.ceil(age * YEAR).astype(np.int64) + rng.integers(0, 365, n))
    sex = _draw([(share, 1 - share) for share in FEMALE], stage, rng)
    education = _draw(_by(EDUCATION, EDUCATION_AT).T, stage, rng)
    occupation = _occupations(stage, sex, education, rng)
    marital = _maritals(stage, sex, rng)
    zips, country = _homes(n, rng)
    drawn: dict[str, Column] = {
        "name": _names(sex, rng),
        "birth": Column(birth),
        "zip": zips,
        "sex": Column(sex, SEXES),
        "education": Column(education, leaves(EDUCATION)),
        "occupation": Column(occupation, leaves(OCCUPATION)),
        "marital": Column(marital, leaves(MARITAL)),
        "country": Column(country, leaves(COUNTRY)),
        "admission": Column(admission),
    }
    diagnosis = _diagnoses(age, sex, drawn, rng)
    drawn["diagnosis"] = Column(diagnosis, tuple(ILLNESSES))
    drawn["cost"] = Column(_costs(diagnosis, rng))
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


def _draw(weights: ArrayLike, row: Codes, rng: np.random.Generator) -> Codes:
    """For each entry of `row`, one code drawn by the weights in that row of the table.

    All rows lie end to end on one line, the i-th between i and i + 1, so one search serves them all; a weight
    of zero is a point on it, which is never hit.
    """
    table = np.atleast_2d(np.asarray(weights, dtype=np.float64))
    line = np.cumsum(table, axis=1)
    line = line / line[:, -1:] + np.arange(len(table))[:, None]
    place = np.minimum(row + rng.random(len(row)), np.nextafter(row + 1.0, 0.0))
    found = np.searchsorted(line.ravel(), place, side="right")
    codes: Codes = (found - row.astype(np.int64) * table.shape[1]).astype(np.int32)
    return codes


def _by(tree: Tree, table: Mapping[str, Sequence[float]]) -> NDArray[np.float64]:
    """The rows of a table in the order of a tree's leaves."""
    return np.array([table[leaf] for leaf in leaves(tree)], dtype=np.float64)


def _step(bounds: Sequence[int], age: Codes) -> Codes:
    steps = np.searchsorted(bounds, np.arange(OLDEST + 1), side="right") - 1
    return steps.astype(np.int32)[age]


def _ages(n: int, rng: np.random.Generator) -> Codes:
    at, weight = zip(*AGES, strict=True)
    return _draw(np.interp(np.arange(OLDEST + 1), at, weight), np.zeros(n, np.int32), rng)


def _days() -> NDArray[np.float64]:
    """A weight per day of admission: more in winter, fewer at weekends."""
    days = np.arange(FIRST_DAY, LAST_DAY + 1)
    season = 1 + 0.15 * np.cos(2 * np.pi * (days - FIRST_DAY).astype(np.float64) / YEAR)
    return np.where(np.is_busday(days), season, 0.65 * season)


def _names(sex: Codes, rng: np.random.Generator) -> Column:
    women, men, families = WOMEN.split(), MEN.split(), FAMILIES.split()
    given = _draw(1 / (np.arange(len(women)) + 8), np.zeros(len(sex), np.int32), rng)
    family = _draw(1 / (np.arange(len(families)) + 12), np.zeros(len(sex), np.int32), rng)
    code = (given + sex * np.int32(len(women))) * np.int32(len(families)) + family
    return Column(code, tuple(f"{first} {last}" for first in women + men for last in families))


def _homes(n: int, rng: np.random.Generator) -> tuple[Column, Codes]:
    """ZIP codes, few of them with many patients, and the countries of birth that go with their regions."""
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


def _maritals(stage: Codes, sex: Codes, rng: np.random.Generator) -> Codes:
    """Marital status by stage of life; women outlive their husbands."""
    table = np.repeat(_by(MARITAL, MARITAL_AT).T, 2, axis=0)
    table[:, leaves(MARITAL).index("Widowed")] *= np.tile([1.5, 0.6], len(STAGES))
    return _draw(table, stage * np.int32(2) + sex, rng)


def _occupations(stage: Codes, sex: Codes, education: Codes, rng: np.random.Generator) -> Codes:
    """Occupation by stage of life, sex and education."""
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
    # Whoever left school early works instead of studying.
    table[np.array(STAGES) >= 18, :, 0, names.index("Student")] = 0
    level = np.array(SCHOOLED, dtype=np.int32)[education]
    row = (stage * np.int32(2) + sex) * np.int32(levels) + level
    return _draw(table.reshape(-1, len(names)), row, rng)


def _diagnoses(age: Codes, sex: Codes, drawn: Mapping[str, Column], rng: np.random.Generator) -> Codes:
    """A diagnosis by age and sex, then the planted rules, the later ones over the earlier."""
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


def _costs(diagnosis: Codes, rng: np.random.Generator) -> NDArray[np.float64]:
    middle = np.log(np.array([illness.cost for illness in ILLNESSES.values()], dtype=np.float64))
    spread = np.array([illness.spread for illness in ILLNESSES.values()], dtype=np.float64)
    return np.exp(middle[diagnosis] + spread[diagnosis] * rng.standard_normal(len(diagnosis))).round(2)
