"""The methods that anonymize a table, and their registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.lazy import import_on_use
from shoal.pipeline.method import Method
from shoal.registry import Registry

if TYPE_CHECKING:
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

BUILT_IN = {  # by text, so that a run loads one method and not all
    "mondrian": "shoal.tables.mondrian:Mondrian",
    "tds": "shoal.tables.top_down:TopDownSpecialization",
    "bottom-up": "shoal.tables.bottom_up:BottomUpGeneralization",
    "optimal": "shoal.tables.full_domain:FullDomain",
    "samarati": "shoal.tables.samarati:Samarati",
    "datafly": "shoal.tables.datafly:Datafly",
    "incognito": "shoal.tables.incognito:Incognito",
    "k-optimize": "shoal.tables.k_optimize:KOptimize",
    "genetic": "shoal.tables.genetic:Genetic",
    "annealing": "shoal.tables.annealing:Annealing",
    "peel": "shoal.tables.peel:Peel",
    "agglomerative": "shoal.tables.agglomerative:Agglomerative",
    "kmember": "shoal.tables.kmember:KMember",
    "knn": "shoal.tables.knn:KNearest",
    "local-suppression": "shoal.tables.local_suppression:LocalSuppression",
    "condensation": "shoal.tables.condensation:Condensation",
    "mdav": "shoal.tables.mdav:MDAV",
    "tree": "shoal.tables.tree:ClassificationTree",
    "random": "shoal.tables.random:RandomAnonymization",
    "anatomy": "shoal.tables.anatomy:Anatomy",
}
METHODS: Registry[type[Method]] = Registry("shoal.methods", "method", BUILT_IN, base=Method)


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

if not TYPE_CHECKING:  # so that type checkers report unknown names
    __getattr__, __dir__ = import_on_use(
        __name__, {module: [name] for module, _, name in (place.partition(":") for place in BUILT_IN.values())}
    )
