"""The policy of one quasi-identifier: its kind and how its values may be generalized."""

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
from shoal.formats.labels import RUN_SEPARATORS
from shoal.formats.numbers import format_count, format_number, parse_number
from shoal.taxonomy import (
    PARTS,
    WORDS,
    Balanced,
    Boundaries,
    DateParts,
    Taxonomy,
    TreeBuilder,
    Widths,
    parse_tree_builder,
)

__all__ = ["KINDS", "PARTS", "QuasiIdentifier", "parse_taxonomy"]

KINDS = ("numeric", "categorical", "date")
KINDS_OF = {
    "taxonomy": ("categorical",),
    "mask": ("categorical",),
    "balanced": ("categorical", "numeric"),
    "date": ("date",),
    "bounds": ("numeric",),
    "widths": ("numeric",),
    "boundaries": ("numeric",),
}
WITH_LEVELS = ("taxonomy", "mask", "balanced")  # keys that 'keep', 'skip' and 'by' apply to
UNITS = ("minute", "hour", "day", "week", "month", "quarter", "year", "decade")  # to which dates are rounded

Kind = Literal["numeric", "categorical", "date"]
Part = Literal["day", "week", "month", "quarter", "year", "decade"]


def parse_taxonomy(value: Any) -> Taxonomy:
    """Return a taxonomy from a taxonomy, the path of its file, or nested mappings and lists."""
    if isinstance(value, Taxonomy):
        return value
    if isinstance(value, Path) and not value.exists():  # from a policy file
        folder = str(value.parent.absolute())
        raise PolicyError(
            f"there is no file {value.name!r} in the folder {folder!r}; a path in a policy begins in the folder of the policy"
        )
    if isinstance(value, (str, Path)):
        return Taxonomy.load(value)
    return Taxonomy.from_nested(value)


Tree = Annotated[
    Taxonomy,
    BeforeValidator(parse_taxonomy),
    PlainSerializer(lambda tree: tree.to_nested(), return_type=dict[str, Any]),
    WithJsonSchema(
        {
            "title": "Taxonomy",
            "description": "nested mappings and lists, or the path of a YAML or CSV file",
            "type": ["object", "array", "string"],
        }
    ),
]


def _nest_boundaries(value: Any) -> Any:
    """Accept a single list of boundaries instead of a list of lists."""
    flat = isinstance(value, (list, tuple)) and not any(isinstance(v, (list, tuple)) for v in value)
    return [value] if flat else value


def _simplify(number: float) -> int | float:
    return int(number) if float(number).is_integer() else number


def _simplify_boundaries(levels: tuple[tuple[float, ...], ...]) -> Any:
    simple = [[_simplify(v) for v in ends] for ends in levels]
    return simple[0] if len(simple) == 1 else simple


def _simplify_choice(value: Any) -> Any:
    return _simplify(value) if isinstance(value, float) else value


def _parse_choice(value: Any) -> Any:
    """Accept a word, a number or false, also as texts, as policy files have them."""
    if isinstance(value, str):
        number = parse_number(value)
        return False if value.strip().lower() == "false" else value if number is None else number
    if value is False:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PolicyError(f"{value!r} is neither a word nor a number")
    return float(value)


Number = Annotated[float, PlainSerializer(_simplify)]
Ranges = Annotated[
    Any,
    BeforeValidator(_parse_choice),
    PlainSerializer(_simplify_choice),
    WithJsonSchema(
        {"anyOf": [{"const": False}, {"type": "string", "enum": list(PARTS)}, {"type": "number", "minimum": 0}]}
    ),
]
Step = Annotated[
    Any,
    BeforeValidator(_parse_choice),
    PlainSerializer(_simplify_choice),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "enum": ["none", *UNITS]}, {"type": "number", "exclusiveMinimum": 0}]}
    ),
]
Fanout = Annotated[int, WithJsonSchema({"type": "integer", "minimum": 2})]
_NUMBERS = {"type": "array", "items": {"type": "number"}, "minItems": 1}
Ends = Annotated[
    tuple[tuple[float, ...], ...],
    BeforeValidator(_nest_boundaries),
    PlainSerializer(_simplify_boundaries),
    WithJsonSchema({"anyOf": [_NUMBERS, {"type": "array", "items": _NUMBERS, "minItems": 1}]}),
]


class QuasiIdentifier(BaseModel):
    """A quasi-identifier. Short form: ``numeric``, ``categorical`` or ``date``.

    Parameters
    ----------
    kind : the kind of the values; implied by ``taxonomy``, ``mask``, ``date``, ``bounds``, ``widths`` and ``boundaries``
    taxonomy : the taxonomy of a categorical column: nested, or the path of a file
    mask : mask codes character by character, from the ``right`` or the ``left``
    date : the parts of a date, from fine to coarse
    bounds : the lowest and the highest possible number; information loss is measured as a share of their difference
    widths, origin : generalize numbers to intervals of fixed widths, from fine to coarse, each a multiple of the width before
        it; an interval begins at ``origin`` (default: 0)
    boundaries : generalize numbers to the intervals between these numbers, unbounded at both ends; or a list of lists, from
        fine to coarse, each a subset of the list before it
    balanced : build a tree from the record count of each value, with about this number of children per branch; for
        categorical columns, and for numeric columns with ``kind: numeric`` (see `Taxonomy.balanced`)
    ordered : whether the leaves of the taxonomy are in order, so that ranges such as ``5th – 8th`` have a meaning
    ranges : where published ranges begin and end: a part of a date, a width, or the height of a level above the leaves (for
        boundaries, balanced numbers and taxonomies); ``False`` publishes single nodes only (default: the lowest level that
        is not single values)
    round : how the ends of ranges of numbers and dates are moved outward: to multiples of a number, to a unit of the calendar
        such as ``day``, or ``none`` (default: dates to months, times to hours, decimals with more than three significant
        digits to three digits of the width of the range; whole numbers are not rounded)
    keep, skip, by : the inner levels of a taxonomy, a mask or a balanced tree to use or to skip, counted from the root
        or, with ``by: height``, from the leaves (see `Taxonomy.levels`)

    Give at most one of taxonomy, mask, date, bounds, widths, boundaries and balanced.

    >>> QuasiIdentifier.model_validate({"widths": [5, 10]}).tree_builder.path(23)
    ['[20, 25)', '[20, 30)']
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
    ordered: bool | None = None
    ranges: Ranges = None
    round: Step = None
    keep: tuple[int, ...] | None = None
    skip: tuple[int, ...] | None = None
    by: Literal["level", "height"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _expand_short_form(cls, value: Any) -> Any:
        if isinstance(value, str):
            if value not in KINDS:
                raise PolicyError(f"unknown kind {value!r}; {list_choices(value, KINDS)}")
            return {"kind": value}
        empty = [key for key, given in value.items() if given is None] if isinstance(value, dict) else []
        if empty or value == {}:
            raise PolicyError(
                f"{repr(empty[0]) if empty else 'the column'} has no value; add a value, or write 'categorical'"
            )
        if isinstance(value, dict) and "kind" not in value:
            implied = [kinds[0] for key, kinds in KINDS_OF.items() if key in value]
            return {"kind": implied[-1] if implied else "categorical", **value}
        if value is None:
            raise PolicyError(f"the kind of the column is missing; {list_choices('', KINDS)}")
        return value

    @model_validator(mode="after")
    def _check_keys(self) -> QuasiIdentifier:
        keys = [key for key in KINDS_OF if getattr(self, key) is not None]
        if len(keys) > 1:
            raise PolicyError(f"{' and '.join(map(repr, keys))} exclude each other; keep one of them")
        for key in keys:
            if self.kind not in KINDS_OF[key]:
                kinds = " or ".join(map(repr, KINDS_OF[key]))
                raise PolicyError(
                    f"{key!r} needs a column of the kind {kinds}, not {self.kind!r}; remove {key!r} or 'kind'"
                )
        if self.bounds is not None and not -inf < self.bounds[0] < self.bounds[1] < inf:
            bounds = [_simplify(end) for end in self.bounds]
            raise PolicyError(f"'bounds' must be [lowest, highest], two finite numbers, not {bounds}")
        if self.origin is not None and self.widths is None:
            raise PolicyError("'origin' needs 'widths'; add 'widths' or remove 'origin'")
        self._check_levels(keys)
        self.tree_builder  # noqa: B018  raises an error if widths, boundaries or parts do not nest
        if self.ordered and self.taxonomy is None:
            raise PolicyError("'ordered' needs 'taxonomy'; add a taxonomy or remove 'ordered'")
        self._check_ranges()
        self._check_round()
        return self

    def _check_ranges(self) -> None:
        if self.ranges is not None and self.ranges is not False:
            self._check_range_level()
        if self.range_height is not None and self.taxonomy is not None:
            labels = self.reshape(self.taxonomy).label
            wrong = [label for label in labels[1:] if any(s in str(label) for s in RUN_SEPARATORS)]
            if wrong:
                raise PolicyError(
                    f"the ordered taxonomy contains {wrong[0]!r}, but {RUN_SEPARATORS[0]!r} and {RUN_SEPARATORS[1]!r} separate "
                    "the ends of a range; rename the value, or add 'ranges: false'"
                )

    def _check_range_level(self) -> None:
        """Raise an error where ``ranges`` names no level of the column."""
        builder = self.tree_builder
        if isinstance(builder, DateParts):
            if self.ranges not in builder.parts:
                raise PolicyError(
                    f"'ranges' must be one of the parts of 'date', not {_simplify_choice(self.ranges)!r}; "
                    f"{list_choices(str(self.ranges), builder.parts)}"
                )
        elif isinstance(builder, Widths):
            if self.ranges not in builder.widths:
                widths = ", ".join(map(format_number, builder.widths))
                given = _simplify_choice(self.ranges)
                raise PolicyError(f"'ranges' must be one of the widths, not {given!r}; choose from {widths}")
        elif self._is_ordered:
            highest = None if isinstance(builder, Balanced) else self._height - 1
            is_height = isinstance(self.ranges, float) and self.ranges >= 0 and self.ranges.is_integer()
            if not is_height or (highest is not None and self.ranges > highest):
                last = "" if highest is None else f" to {highest}"
                raise PolicyError(
                    f"'ranges' must be the height of a level above the leaves, a whole number from 0{last}, "
                    f"not {_simplify_choice(self.ranges)!r}"
                )
        else:
            raise PolicyError(
                "'ranges' needs an ordered tree: 'date', 'widths', 'boundaries', 'balanced' numbers, or a 'taxonomy' with "
                "'ordered: true'; add one of them, or remove 'ranges'"
            )

    def _check_round(self) -> None:
        if self.round is None:
            return
        if not self.has_ends:
            raise PolicyError(
                "'round' is for numbers and dates without levels, and for 'balanced' numbers; remove 'round'"
            )
        if self.kind == "date" and self.round not in ("none", *UNITS):
            raise PolicyError(
                f"'round' must be a unit of the calendar, not {_simplify_choice(self.round)!r}; "
                f"{list_choices(str(self.round), ('none', *UNITS))}"
            )
        if (
            self.kind == "numeric"
            and self.round != "none"
            and not (isinstance(self.round, float) and 0 < self.round < inf)
        ):
            raise PolicyError(f"'round' must be a number above 0 or 'none', not {_simplify_choice(self.round)!r}")

    @property
    def has_ends(self) -> bool:
        """Whether ranges of the column end at values of the data, so that ``round`` applies."""
        return self.kind != "categorical" and (self.tree_builder is None or isinstance(self.tree_builder, Balanced))

    @property
    def _is_ordered(self) -> bool:
        """Whether the leaves of the column's tree are in order."""
        builder = self.tree_builder
        if isinstance(builder, Balanced):
            return builder.numeric
        return isinstance(builder, (DateParts, Widths, Boundaries)) or bool(self.ordered)

    @property
    def _height(self) -> int:
        """The height of a tree that does not depend on the data."""
        if self.taxonomy is not None:
            return int(self.reshape(self.taxonomy).height[0])
        return 1 + len(self.boundaries or ())

    @property
    def range_height(self) -> int | None:
        """The height of the level at which published ranges begin and end; None if only single nodes are published."""
        builder = self.tree_builder
        if not self._is_ordered or self.ranges is False:
            return None
        if isinstance(builder, DateParts):
            finest = 1 if builder.parts[0] == "day" and len(builder.parts) > 1 else 0
            return finest if self.ranges is None else builder.parts.index(self.ranges)
        if isinstance(builder, Widths):
            return 0 if self.ranges is None else builder.widths.index(self.ranges)
        if self.ranges is not None:
            return int(self.ranges)
        return 1 if builder is not None else min(1, self._height - 1)

    def _check_levels(self, keys: list[str]) -> None:
        level_keys = [name for name in ("keep", "skip", "by") if getattr(self, name) is not None]
        if level_keys and not set(keys) & set(WITH_LEVELS):
            names = ", ".join(map(repr, WITH_LEVELS))
            raise PolicyError(f"{level_keys[0]!r} needs one of {names}; add one of them, or remove {level_keys[0]!r}")
        if level_keys == ["by"]:
            raise PolicyError("'by' defines how 'keep' or 'skip' count levels; add 'keep' or 'skip', or remove 'by'")
        if level_keys and self.taxonomy is not None:
            self.reshape(self.taxonomy)  # raises an error for levels that the taxonomy does not have
        elif self.keep is not None and self.skip is not None:
            raise PolicyError("'keep' and 'skip' exclude each other; keep one of them")

    def describe_rule(self) -> str:
        """How values are generalized, in a few words: the key of the rule, with its value if it is short."""
        key = next((key for key in KINDS_OF if getattr(self, key) is not None), None)
        if key is None:
            return "ranges" if self.kind != "categorical" else "sets of values"
        if self.taxonomy is not None:
            return f"taxonomy of {format_count(self.taxonomy.size, 'leaf', 'leaves')}"
        value = self.model_dump(include={key}, mode="json")[key]
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        return f"{key}: {text}"

    @cached_property
    def tree_builder(self) -> TreeBuilder | None:
        """The rule that builds the taxonomy of this column, or None."""
        values: dict[str, Any] = {word: getattr(self, word) for word in WORDS}
        return parse_tree_builder({**values, "origin": self.origin or 0.0, "numeric": self.kind == "numeric"})

    def reshape(self, tree: Taxonomy) -> Taxonomy:
        """Remove the levels of a taxonomy that ``keep`` or ``skip`` exclude."""
        if self.keep is None and self.skip is None:
            return tree
        return tree.levels(keep=self.keep, skip=self.skip, by=self.by or "level")

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        whole = handler.resolve_ref_schema(handler(core))
        return {"anyOf": [{"type": "string", "enum": list(KINDS)}, {**whole, "title": "Quasi in full"}]}

    def to_plain(self, *, public: bool = False) -> Any:
        """The value in a policy file, in the short form if possible; ``public`` omits trees that were derived from the data."""
        body = self.model_dump(exclude_none=True, mode="json")
        if self.taxonomy is not None:
            body["taxonomy"] = self.taxonomy.to_nested()  # pydantic replaces the type `Derived` by dict
        if public and self.taxonomy is not None and self.taxonomy.derived:
            body = {"kind": self.kind}
        if len(body) == 1:
            return body["kind"]
        implied = next((KINDS_OF[key][0] for key in KINDS_OF if key in body), "categorical")
        if self.kind == implied and self.kind != "numeric":
            del body["kind"]
        return body
