"""Models: their audit by spans, and models that meet the requirements of a policy by construction.

`AnonymousTree` needs scikit-learn (``pip install "shoal[models]"``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.errors import EngineError
from shoal.models.audit import audit
from shoal.models.certificate import ModelCertificate, SpanCell, SpanReport

if TYPE_CHECKING:
    from shoal.models.tree import AnonymousTree

__all__ = ["AnonymousTree", "ModelCertificate", "SpanCell", "SpanReport", "audit"]


def __getattr__(name: str) -> Any:
    if name != "AnonymousTree":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from shoal.models.tree import AnonymousTree
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "sklearn":
            raise
        raise EngineError('AnonymousTree needs scikit-learn. Install it with: pip install "shoal[models]"') from error
    return AnonymousTree
