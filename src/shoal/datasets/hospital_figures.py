"""The parameters of the synthetic hospital: values, taxonomies, frequencies, and the planted rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

Tree: TypeAlias = "dict[str, Tree] | list[str]"

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

# Points (age, relative number of patients); the weights of ages between them are interpolated.
AGES = (
    *((0, 4.0), (1, 1.3), (5, 0.7), (12, 0.4), (17, 0.6), (25, 1.0), (32, 1.2), (40, 1.0)),
    *((50, 1.1), (65, 1.6), (75, 1.8), (85, 1.4), (92, 0.5), (OLDEST, 0.03)),
)
# The first age of each stage of life. The tables below have one weight per stage.
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
# The percentage of each stage that does not work; the others work.
IDLE_AT = {
    "Preschool child": (100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "Pupil": (0, 100, 100, 100, 0, 0, 0, 0, 0, 0, 0),
    "Student": (0, 0, 0, 0, 45, 15, 2, 0, 0, 0, 0),
    "Homemaker": (0, 0, 0, 0, 2, 4, 8, 7, 6, 3, 1),
    "Unemployed": (0, 0, 0, 0, 10, 8, 6, 6, 5, 1, 0),
    "Retired": (0, 0, 0, 0, 0, 0, 0, 3, 25, 80, 96),
}
# For each occupation: weights by level of education (compulsory or none, upper secondary, some college or associate,
# bachelor, master, professional, doctorate), and the share of women.
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
# The level (0 to 6) of each leaf of EDUCATION.
SCHOOLED = (0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6)
YOUNG_WORK = ("Miner", "Police officer", "Soldier")
# The relative number of patients born in each country of a line.
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
    """ZIP codes with the same first three digits: their number, relative numbers of patients and of births abroad."""

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
    """Weights of an illness from the ages 0, 6, 18, 45 and 65 on, factors for women and men, and its cost."""

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
    """A rule: this share of the patients with these ages and values gets the diagnosis."""

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

# The most frequent names first.
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
