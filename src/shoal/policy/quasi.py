"""What a policy says of one quasi-identifier: its kind and how its values may be generalized."""

from __future__ import annotations

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

from shoal.errors import PolicyError, choices
from shoal.taxonomy import Taxonomy

KINDS = ("numeric", "categorical", "date")
PARTS = ("day", "week", "month", "quarter", "year", "decade")

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


class Quasi(BaseModel):
    """A quasi-identifier. In short: ``numeric``, ``categorical`` or ``date``."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    kind: Kind = "categorical"
    taxonomy: Tree | None = None
    mask: Literal["right", "left"] | None = None
    date: tuple[Part, ...] | None = None
    bounds: tuple[float, float] | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if isinstance(value, str):
            if value not in KINDS:
                raise PolicyError(f"unknown kind {value!r}; {choices(value, KINDS)}")
            return {"kind": value}
        if isinstance(value, dict) and "kind" not in value:
            implied = "date" if "date" in value else "numeric" if "bounds" in value else "categorical"
            return {"kind": implied, **value}
        if value is None:
            raise PolicyError(f"say of what kind the column is; {choices('', KINDS)}")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Quasi:
        ways = [w for w in ("taxonomy", "mask", "date", "bounds") if getattr(self, w) is not None]
        if len(ways) > 1:
            raise PolicyError(f"{' and '.join(map(repr, ways))} exclude each other; keep one")
        fitting = {"taxonomy": "categorical", "mask": "categorical", "date": "date", "bounds": "numeric"}
        for way in ways:
            if self.kind != fitting[way]:
                raise PolicyError(f"{way!r} goes with kind {fitting[way]!r}, not {self.kind!r}")
        if self.bounds is not None and not -inf < self.bounds[0] < self.bounds[1] < inf:
            raise PolicyError(f"bounds must be [lowest, highest], not {list(self.bounds)}")
        if self.date is not None:
            places = [PARTS.index(p) for p in self.date]
            if not places or places != sorted(set(places)):
                raise PolicyError(f"'date' lists parts from fine to coarse, out of {', '.join(PARTS)}")
            if "week" in self.date and {"month", "quarter"} & set(self.date):
                raise PolicyError("weeks do not nest in months or quarters; leave one of them out of 'date'")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        whole = handler.resolve_ref_schema(handler(core))
        return {"anyOf": [{"type": "string", "enum": list(KINDS)}, {**whole, "title": "Quasi in full"}]}

    def written(self, *, public: bool = False) -> Any:
        """As a policy file says it, in the short form where there is one; trees made from data stay at home."""
        body = self.model_dump(exclude_none=True, mode="json")
        if public and self.taxonomy is not None and self.taxonomy.made:
            del body["taxonomy"]
        if len(body) == 1:
            return body["kind"]
        if "bounds" not in body:
            del body["kind"]
        return body
