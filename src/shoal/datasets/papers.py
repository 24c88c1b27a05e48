"""The example tables of five papers, with their taxonomies and policies.

A. Friedman, R. Wolff, A. Schuster, Providing k-anonymity in data mining (VLDB Journal, 2008): `mortgage`, `incomes`,
`borrowers`, `customers`. B. C. M. Fung, K. Wang, P. S. Yu, Top-down specialization (ICDE 2005): `fung`,
`fung_example6`. J.-W. Byun, A. Kamra, E. Bertino, N. Li, Efficient k-anonymization using clustering (CERIAS 2006-10):
`patients`, `sample`. W. Yang, S. Qiao, A novel anonymization algorithm (Expert Systems with Applications, 2010):
`diseases`. The survey by C. C. Aggarwal and P. S. Yu (2008) prints no table in its first two chapters.

Columns and values are those of the papers. ``kind`` is the kind of frame, ``"pandas"``, ``"polars"`` or ``"pyarrow"``;
the default is the first that is installed.

>>> sorted(tables())[:4]
['borrowers', 'customers', 'diseases', 'diseases_diverse']
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from shoal.arrays import Int64Array
from shoal.engines import Column, build_frame
from shoal.policy import Policy
from shoal.requirements import KAnonymity, LDiversity, Requirement

Rows: TypeAlias = Sequence[tuple[str | int, ...]]

# Friedman et al. A number at the end of a row, beyond the header, is the number of records that the row represents.
MORTGAGE_HEADER = ("Name", "Gender", "Married", "Age", "Sports Car", "Loan Risk")
MORTGAGE = (
    ("Anthony", "Male", "Yes", "Young", "Yes", "good"),
    ("Brian", "Male", "Yes", "Young", "No", "good"),
    ("Charles", "Male", "Yes", "Young", "Yes", "good"),
    ("David", "Male", "Yes", "Old", "Yes", "good"),
    ("Edward", "Male", "Yes", "Old", "Yes", "bad"),
    ("Frank", "Male", "No", "Old", "Yes", "bad"),
    ("Alice", "Female", "No", "Young", "No", "good"),
    ("Barbara", "Female", "No", "Old", "Yes", "good"),
    ("Carol", "Female", "No", "Young", "No", "bad"),
    ("Donna", "Female", "Yes", "Young", "No", "bad"),
    ("Emily", "Female", "Yes", "Young", "Yes", "bad"),
    ("Fiona", "Female", "Yes", "Young", "Yes", "bad"),
)
MORTGAGE_RELEASED = (
    ("Male", "*", "Young", "*", "good", 3),
    ("Male", "*", "Old", "*", "good", 1),
    ("Male", "*", "Old", "*", "bad", 2),
    ("Female", "No", "*", "*", "good", 2),
    ("Female", "No", "*", "*", "bad", 1),
    ("Female", "Yes", "*", "*", "bad", 3),
)
INCOMES = (("11001", "High"), ("11001", "Low"), ("12033", "Mid"), ("12045", "High"))
INCOMES_RELEASED = (("110XX", "High"), ("110XX", "Low"), ("120XX", "Mid"), ("120XX", "High"))
INCOMES_PUBLIC = (("11001", "John"), ("11001", "Lisa"), ("12033", "Ben"), ("12045", "Laura"))
BORROWERS = (
    ("Lisa", "Unmarried", "Yes", "good"),
    ("John", "Married", "Yes", "good"),
    ("Ben", "Married", "No", "bad"),
    ("Laura", "Married", "No", "bad"),
    ("Robert", "Unmarried", "Yes", "bad"),
    ("Anna", "Unmarried", "No", "bad"),
)
CUSTOMERS = (
    ("John", "11001", 98_000),
    ("Cathy", "11001", 62_000),
    ("Ben", "13010", 36_000),
    ("Laura", "13010", 115_000),
    ("William", "14384", 44_000),
    ("Lisa", "15013", 100_000),
)

# Fung et al.
FUNG_HEADER = ("Education", "Sex", "Work_Hrs", "Class")
FUNG = (
    ("9th", "M", 30, "N", 3),
    ("10th", "M", 32, "N", 4),
    ("11th", "M", 35, "Y", 2),
    ("11th", "M", 35, "N", 3),
    ("12th", "F", 37, "Y", 3),
    ("12th", "F", 37, "N", 1),
    ("Bachelors", "F", 42, "Y", 4),
    ("Bachelors", "F", 42, "N", 2),
    ("Bachelors", "F", 44, "Y", 4),
    ("Masters", "M", 44, "Y", 4),
    ("Masters", "F", 44, "Y", 3),
    ("Doctorate", "F", 44, "Y", 1),
)
FUNG_EXAMPLE6 = (
    ("10th", "M", 40, "Y", 20),
    ("10th", "M", 30, "N", 4),
    ("9th", "M", 30, "N", 2),
    ("9th", "F", 30, "N", 4),
    ("9th", "F", 40, "N", 6),
    ("8th", "F", 30, "N", 2),
    ("8th", "F", 40, "N", 2),
)
FUNG_EXAMPLE6_RELEASED = (
    ("ANY_Edu", "M", "[40-99)", "Y", 20),
    ("ANY_Edu", "M", "[1-40)", "N", 6),
    ("ANY_Edu", "F", "[40-99)", "N", 8),
    ("ANY_Edu", "F", "[1-40)", "N", 6),
)

# Byun et al.
PATIENTS_HEADER = ("ZIP", "Gender", "Age", "Diagnosis")
PATIENTS = (
    ("47918", "Male", 35, "Cancer"),
    ("47906", "Male", 33, "HIV+"),
    ("47918", "Male", 36, "Flu"),
    ("47916", "Female", 39, "Obesity"),
    ("47907", "Male", 33, "Cancer"),
    ("47906", "Female", 33, "Flu"),
)
PATIENTS_RELEASED = (
    ("4791*", "Person", "[35-39]", "Cancer"),
    ("4790*", "Person", "[30-34]", "HIV+"),
    ("4791*", "Person", "[35-39]", "Flu"),
    ("4791*", "Person", "[35-39]", "Obesity"),
    ("4790*", "Person", "[30-34]", "Cancer"),
    ("4790*", "Person", "[30-34]", "Flu"),
)
SAMPLE = (
    (41, "USA", "Armed-Forces", "≥50K", "Cancer"),
    (57, "India", "Tech-support", "<50K", "Flu"),
    (40, "Canada", "Teacher", "<50K", "Obesity"),
    (38, "Iran", "Tech-support", "<50K", "Flu"),
    (24, "Brazil", "Doctor", "≥50K", "Cancer"),
    (45, "Greece", "Salesman", "<50K", "Fever"),
)

# Yang and Qiao.
DISEASES_HEADER = ("Name", "Age", "Job", "Country", "Disease")
DISEASES = (
    ("Christopher", "[50-60]", "Doctor", "USA", "Hypertension"),
    ("William", "[40-50]", "Clerk", "USA", "Hypertension"),
    ("Jacob", "[30-40]", "Clerk", "USA", "Hypertension"),
    ("Isabella", "[30-40]", "Clerk", "Germany", "Hypertension"),
    ("Michael", "[50-60]", "Trader", "USA", "Diabetes"),
    ("Hannah", "[30-40]", "Clerk", "UK", "Diabetes"),
    ("Olivia", "[50-60]", "Engineer", "USA", "Diabetes"),
    ("Madison", "[20-30]", "Trader", "UK", "Heart Disease"),
    ("Matthew", "[60-70]", "Banker", "USA", "Cancer"),
    ("Andrew", "[30-40]", "Banker", "India", "Cancer"),
)
DISEASES_GENERALIZED = (
    ("[40-70]", "*", "USA", "Hypertension", 2),
    ("[40-70]", "*", "USA", "Diabetes", 2),
    ("[40-70]", "*", "USA", "Cancer", 1),
    ("[20-40]", "[Trader,Banker]", "*", "Cancer", 1),
    ("[20-40]", "[Trader,Banker]", "*", "Heart Disease", 1),
    ("[20-40]", "Clerk", "*", "Hypertension", 2),
    ("[20-40]", "Clerk", "*", "Diabetes", 1),
)
DISEASES_DIVERSE = (
    ("[40-70]", "*", "USA", "Hypertension", 2),
    ("[40-70]", "*", "USA", "Diabetes", 2),
    ("[40-70]", "*", "USA", "Cancer", 1),
    ("[20-40]", "*", "*", "Cancer", 1),
    ("[20-40]", "*", "*", "Heart Disease", 1),
    ("[20-40]", "*", "*", "Hypertension", 2),
    ("[20-40]", "*", "*", "Diabetes", 1),
)
DISEASES_PERMUTED = (
    (1, "[50-60]", "Doctor", "USA", "Heart Disease"),
    (1, "[50-60]", "Trader", "USA", "Hypertension"),
    (1, "[20-30]", "Trader", "UK", "Hypertension"),
    (1, "[30-40]", "Clerk", "Germany", "Cancer"),
    (1, "[60-70]", "Banker", "USA", "Diabetes"),
    (2, "[50-60]", "Engineer", "USA", "Hypertension"),
    (2, "[30-40]", "Banker", "India", "Diabetes"),
    (2, "[30-40]", "Clerk", "UK", "Diabetes"),
    (2, "[40-50]", "Clerk", "USA", "Hypertension"),
    (2, "[30-40]", "Clerk", "USA", "Cancer"),
)
DISEASES_RANDOMIZED = (
    ("[50-60]", "Doctor", "USA", "Hypertension"),
    ("[40-50]", "Clerk", "USA", "Hypertension"),
    ("[20-30]", "Clerk", "USA", "Hypertension"),
    ("[30-40]", "Clerk", "USA", "Hypertension"),
    ("[50-60]", "Trader", "USA", "Diabetes"),
    ("[40-50]", "Clerk", "UK", "Diabetes"),
    ("[50-60]", "Engineer", "Germany", "Diabetes"),
    ("[20-30]", "Clerk", "UK", "Heart Disease"),
    ("[60-70]", "Trader", "USA", "Cancer"),
    ("[30-40]", "Banker", "India", "Cancer"),
)

TREES: dict[str, dict[str, Any]] = {
    "fung": {
        "Education": {
            "ANY_Edu": {
                "Secondary": {"Junior Sec.": ["9th", "10th"], "Senior Sec.": ["11th", "12th"]},
                "University": ["Bachelors", {"Grad School": ["Masters", "Doctorate"]}],
            }
        },
        "Sex": {"ANY_Sex": ["M", "F"]},
    },
    "fung_example6": {"Education": {"ANY_Edu": ["8th", "9th", "10th"]}, "Sex": {"ANY_Sex": ["M", "F"]}},
    "patients": {
        "Gender": {"Person": ["Male", "Female"]},
        "Age": {"*": {"[30-34]": ["30", "31", "32", "33", "34"], "[35-39]": ["35", "36", "37", "38", "39"]}},
    },
    "sample": {
        "Country": {
            "Country": {
                "America": {"North America": ["USA", "Canada"], "South America": ["Brazil"]},
                "Eurasia": {"Europe": ["Greece"], "West Asia": ["Iran"], "South Asia": ["India"]},
            }
        },
        "Occupation": {"Occupation": ["Armed-Forces", "Tech-support", "Teacher", "Doctor", "Salesman"]},
    },
    "diseases": {
        "Age": {"*": {"[20-40]": ["[20-30]", "[30-40]"], "[40-70]": ["[40-50]", "[50-60]", "[60-70]"]}},
        "Job": {"*": ["Doctor", "Engineer", "Clerk", {"[Trader,Banker]": ["Trader", "Banker"]}]},
        "Country": {"*": ["USA", "UK", "Germany", "India"]},
    },
}


def mortgage(*, kind: str | None = None) -> Any:
    """Twelve clients of a mortgage company, one per row: Friedman et al., Table 1, section 1.

    >>> mortgage(kind="pyarrow").to_pylist()[9]["Name"]
    'Donna'
    """
    return _frame(MORTGAGE_HEADER, MORTGAGE, kind)


def mortgage_released(*, kind: str | None = None) -> Any:
    """The information about `mortgage` in a 3-anonymous decision tree, as a table: Friedman et al., Table 2, section 1.

    >>> mortgage_released(kind="pyarrow").to_pylist()[0]
    {'Gender': 'Male', 'Married': '*', 'Age': 'Young', 'Sports Car': '*', 'Loan Risk': 'good'}
    """
    return _frame(MORTGAGE_HEADER[1:], MORTGAGE_RELEASED, kind)


def mortgage_policy(k: int = 2) -> Policy:
    """A policy with the four public attributes of `mortgage`; the loan risk is private, and the class to predict."""
    quasi = dict.fromkeys(MORTGAGE_HEADER[1:-1], "categorical")
    return Policy(
        identifiers=["Name"], quasi=quasi, sensitive=["Loan Risk"], target="Loan Risk", require=[KAnonymity(k)]
    )


def incomes(*, kind: str | None = None) -> Any:
    """Four incomes by ZIP code: Friedman et al., Table 3.A, section 2.

    >>> incomes(kind="pyarrow").column("Income").to_pylist()
    ['High', 'Low', 'Mid', 'High']
    """
    return _frame(("Zipcode", "Income"), INCOMES, kind)


def incomes_released(*, kind: str | None = None) -> Any:
    """The 2-anonymous version of `incomes`: Friedman et al., Table 3.B, section 2.

    >>> incomes_released(kind="pyarrow").column("Zipcode").to_pylist()
    ['110XX', '110XX', '120XX', '120XX']
    """
    return _frame(("Zipcode", "Income"), INCOMES_RELEASED, kind)


def incomes_public(*, kind: str | None = None) -> Any:
    """Public data about the four people in `incomes`: Friedman et al., Table 3.C, section 2.

    >>> incomes_public(kind="pyarrow").column("Name").to_pylist()
    ['John', 'Lisa', 'Ben', 'Laura']
    """
    return _frame(("Zipcode", "Name"), INCOMES_PUBLIC, kind)


def incomes_policy(k: int = 2) -> Policy:
    """A policy that masks the ZIP code of `incomes` from the right; the income is private."""
    return Policy(quasi={"Zipcode": {"mask": "right"}}, sensitive=["Income"], require=[KAnonymity(k)])


def borrowers(*, kind: str | None = None) -> Any:
    """Six clients, the training data of a 3-anonymous decision tree: Friedman et al., Table 4, section 4.1.

    >>> borrowers(kind="pyarrow").to_pylist()[0]
    {'Name': 'Lisa', 'Marital Status': 'Unmarried', 'Sports Car': 'Yes', 'Loan Risk': 'good'}
    """
    return _frame(("Name", "Marital Status", "Sports Car", "Loan Risk"), BORROWERS, kind)


def borrowers_policy(k: int = 3, *, public_car: bool = False) -> Policy:
    """The two cases of section 4.1: the sports car of `borrowers` is private, or public.

    >>> borrowers_policy().sensitive, borrowers_policy(public_car=True).sensitive
    (('Sports Car', 'Loan Risk'), ('Loan Risk',))
    """
    public = ["Marital Status", "Sports Car"] if public_car else ["Marital Status"]
    private = ["Loan Risk"] if public_car else ["Sports Car", "Loan Risk"]
    return Policy(
        identifiers=["Name"],
        quasi=dict.fromkeys(public, "categorical"),
        sensitive=private,
        target="Loan Risk",
        require=[KAnonymity(k)],
    )


def customers(*, kind: str | None = None) -> Any:
    """Six people by ZIP code and income, an example of clustering: Friedman et al., Table 5, section 4.2.

    >>> customers(kind="pyarrow").to_pylist()[5]
    {'Name': 'Lisa', 'Zip Code': '15013', 'Income': 100000}
    """
    return _frame(("Name", "Zip Code", "Income"), CUSTOMERS, kind)


def customers_policy(k: int = 2) -> Policy:
    """A policy with the ZIP code of `customers` as public and the income as private attribute."""
    return Policy(
        identifiers=["Name"], quasi={"Zip Code": {"mask": "right"}}, sensitive=["Income"], require=[KAnonymity(k)]
    )


def fung(*, kind: str | None = None) -> Any:
    """The running example, 34 records with the class Y for an income over 50K: Fung et al., Table 1, section 1.

    >>> fung(kind="pyarrow").column("Class").to_pylist().count("Y")
    21
    """
    return _frame(FUNG_HEADER, FUNG, kind)


def fung_policy(k: int = 4, k_hours: int = 11) -> Policy:
    """Two quasi-identifiers, each with its own threshold, as in Example 7: {Education, Sex} 4, {Sex, Work_Hrs} 11.

    >>> [(rule.k, rule.on) for rule in fung_policy().require]
    [(4, ('Education', 'Sex')), (11, ('Sex', 'Work_Hrs'))]
    """
    return _fung("fung", KAnonymity(k, on=("Education", "Sex")), KAnonymity(k_hours, on=("Sex", "Work_Hrs")))


def fung_example6(*, kind: str | None = None) -> Any:
    """Forty records on which information gain alone chooses badly: Fung et al., Table 2, section 4.

    >>> fung_example6(kind="pyarrow").num_rows
    40
    """
    return _frame(FUNG_HEADER, FUNG_EXAMPLE6, kind)


def fung_example6_released(*, kind: str | None = None) -> Any:
    """The result of specialization by score on `fung_example6`: Fung et al., Table 3, section 4.

    >>> fung_example6_released(kind="pyarrow").to_pylist()[0]
    {'Education': 'ANY_Edu', 'Sex': 'M', 'Work_Hrs': '[40-99)', 'Class': 'Y'}
    """
    return _frame(FUNG_HEADER, FUNG_EXAMPLE6_RELEASED, kind)


def fung_example6_policy(k: int = 4) -> Policy:
    """One quasi-identifier of all three attributes, as in Example 6."""
    return _fung("fung_example6", KAnonymity(k))


def patients(*, kind: str | None = None) -> Any:
    """Six patients of a hospital: Byun et al., Figure 1, section 2.

    >>> patients(kind="pyarrow").to_pylist()[0]
    {'ZIP': '47918', 'Gender': 'Male', 'Age': 35, 'Diagnosis': 'Cancer'}
    """
    return _frame(PATIENTS_HEADER, PATIENTS, kind)


def patients_released(*, kind: str | None = None) -> Any:
    """The 3-anonymous version of `patients`, record for record: Byun et al., Figure 2, section 2.

    >>> patients_released(kind="pyarrow").to_pylist()[0]
    {'ZIP': '4791*', 'Gender': 'Person', 'Age': '[35-39]', 'Diagnosis': 'Cancer'}
    """
    return _frame(PATIENTS_HEADER, PATIENTS_RELEASED, kind)


def patients_policy(k: int = 3) -> Policy:
    """The quasi-identifier of `patients`, generalized as in Figure 2, ages to bands of five years."""
    trees = TREES["patients"]
    quasi = {"ZIP": {"mask": "right"}, "Gender": {"taxonomy": trees["Gender"]}, "Age": {"taxonomy": trees["Age"]}}
    return Policy(quasi=quasi, sensitive=["Diagnosis"], require=[KAnonymity(k)])


def sample(*, kind: str | None = None) -> Any:
    """Six records, an example of distances: Byun et al., Figure 5, section 4.2.

    >>> sample(kind="pyarrow").column("Age").to_pylist()
    [41, 57, 40, 38, 24, 45]
    """
    return _frame(("Age", "Country", "Occupation", "Salary", "Diagnosis"), SAMPLE, kind)


def sample_policy(k: int = 2) -> Policy:
    """The quasi-identifier of Example 3; the paper gives no k for it."""
    trees = TREES["sample"]
    quasi = {"Age": "numeric", **{name: {"taxonomy": tree} for name, tree in trees.items()}}
    return Policy(quasi=quasi, sensitive=["Diagnosis"], target="Salary", require=[KAnonymity(k)])


def diseases(*, kind: str | None = None) -> Any:
    """Ten patients, with their ages in bands: Yang and Qiao, Fig. 1, section 1.

    >>> diseases(kind="pyarrow").to_pylist()[5]
    {'Name': 'Hannah', 'Age': '[30-40]', 'Job': 'Clerk', 'Country': 'UK', 'Disease': 'Diabetes'}
    """
    return _frame(DISEASES_HEADER, DISEASES, kind)


def diseases_generalized(*, kind: str | None = None) -> Any:
    """A 2-anonymous version of `diseases`, group by group: Yang and Qiao, Fig. 2, section 2.1.

    >>> sorted(set(diseases_generalized(kind="pyarrow").column("Job").to_pylist()))
    ['*', 'Clerk', '[Trader,Banker]']
    """
    return _frame(DISEASES_HEADER[1:], DISEASES_GENERALIZED, kind)


def diseases_diverse(*, kind: str | None = None) -> Any:
    """A version of `diseases` with entropy 2-diversity, group by group: Yang and Qiao, Fig. 3, section 2.1.

    >>> sorted(set(diseases_diverse(kind="pyarrow").column("Age").to_pylist()))
    ['[20-40]', '[40-70]']
    """
    return _frame(DISEASES_HEADER[1:], DISEASES_DIVERSE, kind)


def diseases_permuted(*, kind: str | None = None) -> Any:
    """A version of `diseases` with the diseases permuted inside two groups: Yang and Qiao, Fig. 4, section 2.1.

    The paper marks the groups by braces; here the column Group numbers them.

    >>> diseases_permuted(kind="pyarrow").column("Group").to_pylist()
    [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]
    """
    return _frame(("Group", *DISEASES_HEADER[1:]), DISEASES_PERMUTED, kind)


def diseases_randomized(*, kind: str | None = None) -> Any:
    """A random anonymization of `diseases`, record for record: Yang and Qiao, Fig. 5, section 3.

    >>> diseases_randomized(kind="pyarrow").to_pylist()[2]
    {'Age': '[20-30]', 'Job': 'Clerk', 'Country': 'USA', 'Disease': 'Hypertension'}
    """
    return _frame(DISEASES_HEADER[1:], DISEASES_RANDOMIZED, kind)


def diseases_policy(k: int = 2, *, diversity: float | None = None) -> Policy:
    """The quasi-identifier of `diseases`, generalized as in Fig. 2; optionally with entropy l-diversity.

    >>> [rule.name for rule in diseases_policy(diversity=2).require]
    ['k-anonymity', 'l-diversity']
    """
    require: list[Requirement] = [KAnonymity(k)]
    if diversity is not None:
        require.append(LDiversity(diversity, of="Disease", kind="entropy"))
    quasi = {name: {"taxonomy": tree} for name, tree in TREES["diseases"].items()}
    return Policy(identifiers=["Name"], quasi=quasi, sensitive=["Disease"], require=require)


def taxonomies() -> dict[str, dict[str, Any]]:
    """The taxonomies of the papers as nested dicts and lists, by table and attribute.

    Education and Sex are Figure 1 of Fung et al. The taxonomies of Byun et al. (Figures 3 and 6) follow the text of the
    paper, because the drawings were not available: the tree of Country has height 3; USA and Canada meet at height 1, India
    and Iran at 2, India and USA at 3; the labels of its branches are ours. Yang and Qiao draw no trees; their taxonomies are
    inferred from their Fig. 2.

    >>> taxonomies()["patients"]["Gender"]
    {'Person': ['Male', 'Female']}
    """
    return copy.deepcopy(TREES)


def tables() -> dict[str, Callable[..., Any]]:
    """The functions of all tables in this module, by name.

    >>> tables()["patients"](kind="pyarrow").num_rows
    6
    """
    listed: tuple[Callable[..., Any], ...] = (
        *(mortgage, mortgage_released, incomes, incomes_released, incomes_public, borrowers, customers),
        *(fung, fung_example6, fung_example6_released, patients, patients_released, sample),
        *(diseases, diseases_generalized, diseases_diverse, diseases_permuted, diseases_randomized),
    )
    return {function.__name__: function for function in listed}


def _frame(header: Sequence[str], rows: Rows, kind: str | None) -> Any:
    """Create a frame from rows; a number beyond the header is the number of records that a row represents."""
    columns = list(zip(*rows, strict=True))
    counts = np.array(columns[len(header)] if len(columns) > len(header) else (1,) * len(rows), np.int64)
    return build_frame(
        {name: _column(values, counts) for name, values in zip(header, columns[: len(header)], strict=True)}, kind
    )


def _column(values: Sequence[str | int], counts: Int64Array) -> Column:
    if isinstance(values[0], int):
        return Column(np.repeat(np.array(values, np.int64), counts))
    categories = tuple(dict.fromkeys(str(value) for value in values))
    codes = np.array([categories.index(str(value)) for value in values], np.int32)
    return Column(np.repeat(codes, counts), categories)


def _fung(table: str, *require: Requirement) -> Policy:
    trees = TREES[table]
    quasi: dict[str, Any] = {name: {"taxonomy": tree} for name, tree in trees.items()}
    quasi["Work_Hrs"] = {"kind": "numeric", "bounds": [1, 99]}
    return Policy(quasi=quasi, target="Class", require=require)
