"""What a policy says of one quasi-identifier: its kind and how its values may be generalized."""

from __future__ import annotations

from functools import cached_property
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)

from shoal.errors import PolicyError, list_choices
from shoal.taxonomy import PARTS, WORDS, Taxonomy, TreeBuilder, parse_tree_builder

__all__ = ["KINDS", "PARTS", "QuasiIdentifier"]

KINDS = ("numeric", "categorical", "date")
FITTING = {
    "taxonomy": ("categorical",),
    "mask": ("categorical",),
    "balanced": ("categorical", "numeric"),
    "date": ("date",),
    "bounds": ("numeric",),
    "widths": ("numeric",),
    "boundaries": ("numeric",),
}
LEVELLED = ("taxonomy", "mask", "balanced")  # what may be said of their levels; the others list theirs

Kind = Literal["numeric", "categorical", "date"]
Part = Literal["day", "week", "month", "quarter", "year", "decade"]


def _tree(value: Any) -> Taxonomy:
    if isinstance(value, Taxonomy):
        return value
    if isinstance(value, (str, Path)):
        return Taxonomy.load(value)
    return Taxonomy.from_nested(value)


Tree = Annotated[
    Taxonomy,
    BeforeValidator(_tree),
    PlainSerializer(lambda tree: tree.to_nested(), return_type=dict[str, Any]),
    WithJsonSchema(
        {
            "title": "Taxonomy",
            "description": "nested mappings and lists, or the path of a YAML or CSV file",
            "type": ["object", "array", "string"],
        }
    ),
]


def _lists(value: Any) -> Any:
    """One list of boundaries stands for a list of lists."""
    flat = isinstance(value, (list, tuple)) and not any(isinstance(v, (list, tuple)) for v in value)
    return [value] if flat else value


def _plain(number: float) -> int | float:
    return int(number) if float(number).is_integer() else number


def _plain_lists(levels: tuple[tuple[float, ...], ...]) -> Any:
    plain = [[_plain(v) for v in ends] for ends in levels]
    return plain[0] if len(plain) == 1 else plain


Number = Annotated[float, PlainSerializer(_plain)]
Fanout = Annotated[int, WithJsonSchema({"type": "integer", "minimum": 2})]
_NUMBERS = {"type": "array", "items": {"type": "number"}, "minItems": 1}
Ends = Annotated[
    tuple[tuple[float, ...], ...],
    BeforeValidator(_lists),
    PlainSerializer(_plain_lists),
    WithJsonSchema({"anyOf": [_NUMBERS, {"type": "array", "items": _NUMBERS, "minItems": 1}]}),
]


class QuasiIdentifier(BaseModel):
    """A quasi-identifier. In short: ``numeric``, ``categorical`` or ``date``.

    Parameters
    ----------
    kind : what its values are; implied where one of the others tells it
    taxonomy : a tree of categories: nested, or the path of a file
    mask : codes of which more and more is masked, from the ``right`` or the ``left``
    date : the parts of a date, from fine to coarse
    bounds : the lowest and the highest number there can be, which give the span that losses are shares of
    widths, origin : numbers under intervals of fixed widths, from fine to coarse, each a multiple of the one before, that
        begin at ``origin`` (0 unless said)
    boundaries : numbers under intervals between these, open at both ends; or a list of lists, from fine to coarse, each
        part of the one before
    balanced : a tree made from how often each value occurs, with about so many branches per branch; for categories, and for
        numbers where ``kind`` says so (see `Taxonomy.balanced`)
    keep, skip, by : the inner levels of a taxonomy, a mask or a balanced tree to use or to leave out, counted from the root
        or, with ``by: height``, from the leaves (see `Taxonomy.levels`)

    At most one of taxonomy, mask, date, bounds, widths, boundaries and balanced.

    >>> QuasiIdentifier.model_validate({"widths": [5, 10]}).maker.path(23)
    ['23', '[20, 25)', '[20, 30)']
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    kind: Kind = "categorical"
    taxonomy: Tree | None = None
    mask: Literal["right", "left"] | None = None
    date: tuple[Part, ...] | None = None
    bounds: tuple[Number, Number] | None = None
    widths: tuple[Number, ...] | None = None
    origin: Number | None = None
    boundaries: Ends | None = None
    balanced: Fanout | None = None
    keep: tuple[int, ...] | None = None
    skip: tuple[int, ...] | None = None
    by: Literal["level", "height"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if isinstance(value, str):
            if value not in KINDS:
                raise PolicyError(f"unknown kind {value!r}; {list_choices(value, KINDS)}")
            return {"kind": value}
        empty = [key for key, given in value.items() if given is None] if isinstance(value, dict) else []
        if empty or value == {}:
            raise PolicyError(f"{(empty or ['the column'])[0]!r} has no value; give one, or write 'categorical'")
        if isinstance(value, dict) and "kind" not in value:
            implied = [kinds[0] for way, kinds in FITTING.items() if way in value]
            return {"kind": implied[-1] if implied else "categorical", **value}
        if value is None:
            raise PolicyError(f"say of what kind the column is; {list_choices('', KINDS)}")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> QuasiIdentifier:
        ways = [way for way in FITTING if getattr(self, way) is not None]
        if len(ways) > 1:
            raise PolicyError(f"{' and '.join(map(repr, ways))} exclude each other; keep one")
        for way in ways:
            if self.kind not in FITTING[way]:
                fitting = " or ".join(map(repr, FITTING[way]))
                raise PolicyError(f"{way!r} goes with kind {fitting}, not {self.kind!r}")
        if self.bounds is not None and not -inf < self.bounds[0] < self.bounds[1] < inf:
            raise PolicyError(f"bounds must be [lowest, highest], not {list(self.bounds)}")
        if self.origin is not None and self.widths is None:
            raise PolicyError("'origin' goes with 'widths'")
        self._levels_consistent(ways)
        self.tree_builder  # noqa: B018  it refuses what does not nest
        return self

    def _levels_consistent(self, ways: list[str]) -> None:
        named = [name for name in ("keep", "skip", "by") if getattr(self, name) is not None]
        if named and not set(ways) & set(LEVELLED):
            raise PolicyError(f"{named[0]!r} goes with {', '.join(map(repr, LEVELLED))}; others list their own levels")
        if named == ["by"]:
            raise PolicyError("'by' says how the levels of 'keep' or 'skip' are counted; give one of them")
        if named and self.taxonomy is not None:
            self.reshape(self.taxonomy)  # refuses levels that the tree does not have
        elif self.keep is not None and self.skip is not None:
            raise PolicyError("'keep' and 'skip' exclude each other; keep one")

    @cached_property
    def tree_builder(self) -> TreeBuilder | None:
        """The rule that makes the tree of this column, where there is one."""
        found: dict[str, Any] = {word: getattr(self, word) for word in WORDS}
        return parse_tree_builder({**found, "origin": self.origin or 0.0, "numeric": self.kind == "numeric"})

    def reshape(self, tree: Taxonomy) -> Taxonomy:
        """The tree with the levels that are to be used."""
        if self.keep is None and self.skip is None:
            return tree
        return tree.levels(keep=self.keep, skip=self.skip, by=self.by or "level")

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        whole = handler.resolve_ref_schema(handler(core))
        return {"anyOf": [{"type": "string", "enum": list(KINDS)}, {**whole, "title": "Quasi in full"}]}

    def written(self, *, public: bool = False) -> Any:
        """As a policy file says it, in the short form where there is one; trees made from data stay at home."""
        body = self.model_dump(exclude_none=True, mode="json")
        if public and self.taxonomy is not None and self.taxonomy.made:
            body = {"kind": self.kind}
        if len(body) == 1:
            return body["kind"]
        if self.kind != "numeric":
            del body["kind"]
        return body
