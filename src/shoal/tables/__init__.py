"""The methods that anonymize a table, and their registry."""

from __future__ import annotations

from shoal.pipeline.method import Method
from shoal.registry import Registry
from shoal.tables.agglomerative import Agglomerative
from shoal.tables.anatomy import Anatomy
from shoal.tables.annealing import Annealing
from shoal.tables.bottom_up import BottomUpGeneralization
from shoal.tables.condensation import Condensation
from shoal.tables.datafly import Datafly
from shoal.tables.full_domain import FullDomain
from shoal.tables.genetic import Genetic
from shoal.tables.incognito import Incognito
from shoal.tables.k_optimize import KOptimize
from shoal.tables.kmember import KMember
from shoal.tables.knn import KNearest
from shoal.tables.local_suppression import LocalSuppression
from shoal.tables.mdav import MDAV
from shoal.tables.mondrian import Mondrian
from shoal.tables.peel import Peel
from shoal.tables.random import RandomAnonymization
from shoal.tables.samarati import Samarati
from shoal.tables.top_down import TopDownSpecialization
from shoal.tables.tree import ClassificationTree

BUILT_IN = (
    Mondrian,
    TopDownSpecialization,
    BottomUpGeneralization,
    FullDomain,
    Samarati,
    Datafly,
    Incognito,
    KOptimize,
    Genetic,
    Annealing,
    Peel,
    Agglomerative,
    KMember,
    KNearest,
    LocalSuppression,
    Condensation,
    MDAV,
    ClassificationTree,
    RandomAnonymization,
    Anatomy,
)
METHODS: Registry[type[Method]] = Registry(
    "shoal.methods", "method", {method.name: method for method in BUILT_IN}, base=Method
)


__all__ = [
    "MDAV",
    "METHODS",
    "Agglomerative",
    "Anatomy",
    "Annealing",
    "BottomUpGeneralization",
    "ClassificationTree",
    "Condensation",
    "Datafly",
    "FullDomain",
    "Genetic",
    "Incognito",
    "KMember",
    "KNearest",
    "KOptimize",
    "LocalSuppression",
    "Mondrian",
    "Peel",
    "RandomAnonymization",
    "Samarati",
    "TopDownSpecialization",
]
