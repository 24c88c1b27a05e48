"""The unit of a policy: the column that says which person a record belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict

from shoal.errors import PolicyError, list_choices

Knowledge = Literal["record", "history"]
FORM = "'unit' names the column of the person, such as 'unit: patient_id' or 'unit: {column: patient_id}'"


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

    def __init__(self, column: Any = None, *, pseudonym: Any = False, knows: Any = None, **unknown: Any) -> None:
        for key in unknown:
            raise PolicyError(f"'unit' has no key {key!r}; {list_choices(str(key), list(type(self).model_fields))}")
        if not isinstance(column, str) or not column:
            raise PolicyError(FORM)
        if str(pseudonym).lower() not in ("true", "false"):
            raise PolicyError(f"'pseudonym' must be true or false, not {pseudonym!r}")
        if knows is not None and knows not in get_args(Knowledge):
            raise PolicyError(f"'knows' cannot be {knows!r}; {list_choices(str(knows), get_args(Knowledge))}")
        linked = str(pseudonym).lower() == "true"
        super().__init__(column=column, pseudonym=linked, knows=knows or ("history" if linked else "record"))

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
    if isinstance(value, Mapping):
        return Unit(**{str(key): entry for key, entry in value.items()})
    return Unit(value)
