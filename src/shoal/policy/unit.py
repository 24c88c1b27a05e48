"""The unit of a policy: the column that says which person a record belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict

from shoal.errors import PolicyError, list_choices

Knowledge = Literal["record", "history"]


class Unit(BaseModel):
    """The person of every record. Requirements count different people instead of records.

    Parameters
    ----------
    column : the column that identifies the person; dropped, unless ``pseudonym`` is set
    pseudonym : publish a pseudonym instead of the column: a keyed hash, whose key stays in the owner folder. The records of a
        person can then be linked
    knows : what an attacker knows about a person: ``record``, the quasi-identifiers of one of their records, or ``history``,
        those of all their records (default: ``history`` with a pseudonym, else ``record``)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: str
    pseudonym: bool = False
    knows: Knowledge = "record"

    def to_plain(self) -> str | dict[str, Any]:
        """The value in a policy file."""
        implied = "history" if self.pseudonym else "record"
        more: dict[str, Any] = {"pseudonym": True} if self.pseudonym else {}
        more |= {"knows": self.knows} if self.knows != implied else {}
        return {"column": self.column, **more} if more else self.column


def parse_unit(value: Any) -> Any:
    """Return a unit from the name of its column or from a mapping."""
    if value is None or isinstance(value, Unit):
        return value
    if isinstance(value, str):
        return Unit(column=value)
    if not isinstance(value, Mapping) or not isinstance(value.get("column"), str):
        raise PolicyError(
            "'unit' names the column of the person, such as 'unit: patient_id' or 'unit: {column: patient_id}'"
        )
    for key in value:
        if key not in Unit.model_fields:
            raise PolicyError(f"'unit' has no key {key!r}; {list_choices(str(key), list(Unit.model_fields))}")
    pseudonym, knows = _parse_flag(value.get("pseudonym", False)), value.get("knows")
    if knows is not None and knows not in get_args(Knowledge):
        raise PolicyError(f"'knows' cannot be {knows!r}; {list_choices(str(knows), get_args(Knowledge))}")
    return Unit(column=value["column"], pseudonym=pseudonym, knows=knows or ("history" if pseudonym else "record"))


def _parse_flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() not in ("true", "false"):
        raise PolicyError(f"'pseudonym' must be true or false, not {value!r}")
    return str(value).lower() == "true"
