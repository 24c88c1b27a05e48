"""The policy: the roles of the columns, their taxonomies, and what must hold.

The same words in Python and in a YAML file. A policy is checked in itself when it is made, and against the table
when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, replace
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from shoal.engines import AS_PUBLISHED, Reading, Schema
from shoal.errors import DataError, PolicyError, escape_invisible, list_choices
from shoal.formats.column_pairs import published_names
from shoal.formats.normalize import Normalizer
from shoal.formats.yaml_text import Place, read_file, read_yaml, refuse_deep
from shoal.policy.columns import KINDS, QuasiIdentifier
from shoal.requirements import REQUIREMENTS, Conjunction, Requirement, collect_parameters, list_parameters
from shoal.taxonomy import Derived, Taxonomy

READ_AS = {"numeric": "number", "date": "date", "categorical": "text"}


def _requirement(value: Any) -> Any:
    if isinstance(value, Requirement):
        return value
    if not isinstance(value, Mapping) or len(value) != 1:
        word = value if isinstance(value, str) else ""
        raise PolicyError(f"a requirement is written as 'k-anonymity: 10'; {list_choices(word, list(REQUIREMENTS))}")
    ((name, given),) = value.items()
    if name not in REQUIREMENTS:
        raise PolicyError(f"unknown requirement {name!r}; {list_choices(str(name), list(REQUIREMENTS))}")
    kind = REQUIREMENTS[name]
    known = {field.name: field.default for field in list_parameters(kind)}
    if not isinstance(given, Mapping):
        given = {next(iter(known)): given}
    for key in given:
        if key not in known:
            raise PolicyError(f"{name} has no parameter {key!r}; {list_choices(str(key), list(known))}")
    missing = [k for k, default in known.items() if k not in given and default is MISSING]
    if missing:
        raise PolicyError(f"{name} needs {' and '.join(map(repr, missing))}")
    return kind(**given)


def _flattened(value: Any) -> Any:
    """Requirements joined by ``&`` stand for each of them."""
    if isinstance(value, Requirement):
        return (value,)
    if isinstance(value, (list, tuple)):
        return [one for entry in value for one in (entry if isinstance(entry, Conjunction) else (entry,))]
    return value


def _written(requirement: Requirement, *, public: bool = False) -> dict[str, Any]:
    given = collect_parameters(requirement, public=public)
    return {requirement.name: next(iter(given.values())) if len(given) == 1 else given}


def _names(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[
    tuple[str, ...],
    BeforeValidator(_names),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Rule = Annotated[
    Requirement,
    BeforeValidator(_requirement),
    PlainSerializer(_written, return_type=dict[str, Any]),
    WithJsonSchema(
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "properties": {name: {"type": ["object", "number"]} for name in REQUIREMENTS},
            "additionalProperties": False,
        }
    ),
]


class Policy(BaseModel):
    """What each column is, how it may be generalized, and what must hold for every group.

    Parameters
    ----------
    identifiers : columns that name a person; dropped
    quasi : columns by which a person could be found elsewhere, with their kind: ``numeric``, ``categorical``, ``date``, or
        a mapping with ``taxonomy``, ``mask``, ``date``, ``widths``, ``boundaries``, ``balanced`` or ``bounds``
    sensitive : confidential columns; released as they are
    target : the class to be predicted; released as it is unless it is also quasi
    keep : other columns that are released as they are
    key : a column that tells the records apart; dropped. Records that are alike but go to different groups are divided by a
        keyed hash of it, so that every engine sends the same record to the same group
    truly_sensitive : of a sensitive column, the values that do harm when they are known (for the sensitive diversity)
    missing : texts that stand for a missing value
    normalize : sensitive columns, or the target, whose spellings of a value count as one for requirements and measures: texts
        that agree after trimming, Unicode NFKC and case folding, texts of one number, and the texts of ``missing``. The
        released values stay as they are
    require : the requirements
    suppress : at most this share of the records may be left out

    A column without a role is dropped. A policy file that Shoal writes may also have ``derived``: the columns whose trees
    were made from the data, so that these never go to the public.

    Examples
    --------
    >>> from shoal.requirements import KAnonymity
    >>> policy = Policy(quasi={"age": "numeric", "sex": "categorical"}, sensitive="disease", require=[KAnonymity(5)])
    >>> print(policy.to_yaml(), end="")
    quasi:
      age: numeric
      sex: categorical
    sensitive: [disease]
    require:
    - k-anonymity: 5
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    identifiers: Names = ()
    quasi: dict[str, QuasiIdentifier] = Field(default_factory=dict)
    sensitive: Names = ()
    target: str | None = None
    keep: Names = ()
    key: str | None = None
    truly_sensitive: dict[str, Names] = Field(default_factory=dict)
    missing: Names = ("",)
    normalize: Names = ()
    require: Annotated[tuple[Rule, ...], BeforeValidator(_flattened)] = ()
    suppress: float = Field(default=0.0, ge=0.0, le=1.0)
    _file: str = PrivateAttr(default="")
    _lines: dict[Place, int] = PrivateAttr(default_factory=dict)

    def __init__(self, **given: Any) -> None:
        refuse_deep(given, "policy", PolicyError)
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise _first_fault(error) from None

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, value: Any) -> Any:
        quasi = value.get("quasi") if isinstance(value, dict) else None
        if quasi is not None and not isinstance(quasi, Mapping):
            raise PolicyError("'quasi' maps each column to its kind, as in 'age: numeric'; " + list_choices("", KINDS))
        return _mark_derived(value) if isinstance(value, dict) and "derived" in value else value

    @model_validator(mode="after")
    def _consistent(self) -> Policy:
        roles: dict[str, str] = {}
        for role in ("identifiers", "quasi", "sensitive", "keep"):
            for place, column in enumerate(getattr(self, role)):
                if column in roles:
                    twice = f"stands twice under {role!r}"
                    two = f"has two roles, {roles[column]!r} and {role!r}; keep one of them"
                    raise PolicyError(
                        f"column {column!r} {twice if roles[column] == role else two}",
                        place=(role, column if role == "quasi" else place),
                    )
                roles[column] = role
        for column in self.truly_sensitive:
            if column not in self.sensitive:
                raise PolicyError(
                    f"column {column!r} has truly sensitive values but is not sensitive; "
                    f"{list_choices(column, self.sensitive)}",
                    place=("truly_sensitive", column),
                )
        if self.key is not None and (roles.get(self.key, "identifiers") != "identifiers" or self.key == self.target):
            role = roles.get(self.key, "target")
            raise PolicyError(
                f"the key {self.key!r} is dropped, so it cannot have the role {role!r} as well; keep one of them",
                place=("key",),
            )
        if self.target in self.identifiers:
            raise PolicyError(
                f"the target {self.target!r} is an identifier, which is dropped; a target is released",
                place=("target",),
            )
        for place, column in enumerate(self.normalize):
            if column not in self.countable:
                raise PolicyError(
                    f"column {column!r} cannot be normalized: requirements count the values of sensitive columns and of the "
                    f"target alone; {list_choices(column, self.countable)}",
                    place=("normalize", place),
                )
        for number, requirement in enumerate(self.require):
            for column in requirement.on or ():
                if column not in self.quasi:
                    raise PolicyError(
                        f"{requirement.name} is on {column!r}, which is no quasi-identifier; "
                        f"{list_choices(column, list(self.quasi))}",
                        place=("require", number),
                    )
            if requirement.of is not None and requirement.of not in self.countable:
                raise PolicyError(
                    f"{requirement.name} is of {requirement.of!r}, which is no sensitive column; "
                    f"{list_choices(requirement.of, self.countable)}",
                    place=("require", number),
                )
        return self._with_normalizer()

    def _with_normalizer(self) -> Policy:
        """Let requirements that name values of a normalized column compare these as the column is counted."""
        require = [
            replace(r, normal=self.normalizer) if r.of in self.normalize and hasattr(r, "normal") else r  # type: ignore[type-var]
            for r in self.require
        ]
        object.__setattr__(self, "require", tuple(require))
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Policy:
        """A copy with other parts; see pydantic."""
        return super().model_copy(update=update, deep=deep)._with_normalizer()

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """A policy file; a taxonomy's path in it is taken from the file's own folder."""
        file = Path(path)
        try:
            text = read_file(file, "policy", PolicyError)
        except PolicyError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise PolicyError(f"there is no policy file {str(path)!r}") from None
            raise
        return cls.parse(text, name=file.name, folder=file.parent)

    @classmethod
    def parse(cls, text: str, *, name: str = "policy", folder: Path | None = None) -> Policy:
        """A policy from YAML text; errors name the key and the line."""
        content, lines = read_yaml(text, name)
        if not isinstance(content, dict):
            raise PolicyError(f"{name}: a policy is a mapping; {list_choices('', list(cls.model_fields))}")
        given = {key: value for key, value in content.items() if value is not None}
        _resolve(given, folder or Path())
        try:
            policy = cls(**given)
        except PolicyError as error:
            raise _located(str(error), error.place, name, lines) from None
        policy._file, policy._lines = name, lines
        return policy

    def to_dict(self, *, public: bool = False) -> dict[str, Any]:
        """What a policy file says, without what is left at its default."""
        found: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name == "quasi":
                found[name] = {column: quasi.written(public=public) for column, quasi in value.items()}
            elif name == "require":
                found[name] = [_written(requirement, public=public) for requirement in value]
            elif isinstance(value, dict):
                found |= {name: {key: list(listed) for key, listed in value.items()}} if value else {}
            elif value != field.default:
                found[name] = list(value) if isinstance(value, tuple) else value
        if not public and (derived := self._derived()):
            found["derived"] = derived
        return found

    def _derived(self) -> list[str]:
        """The columns whose trees were made from the data."""
        trees = [(name, quasi.taxonomy) for name, quasi in self.quasi.items()]
        trees += [(str(r.of), getattr(r, "taxonomy", None)) for r in self.require]
        return list(dict.fromkeys(name for name, tree in trees if isinstance(tree, Taxonomy) and tree.made))

    def to_yaml(self, *, public: bool = False) -> str:
        """The policy as YAML text that `load` and `parse` read back."""
        return str(
            yaml.dump(self.to_dict(public=public), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
        )

    def save(self, path: str | Path) -> None:
        """Write the policy as YAML."""
        Path(path).write_text(self.to_yaml(), encoding="utf-8")

    @property
    def unchanged(self) -> tuple[str, ...]:
        """The columns that are released as they are."""
        target = (self.target,) if self.target and self.target not in (*self.quasi, *self.sensitive, *self.keep) else ()
        return (*self.sensitive, *self.keep, *target)

    @property
    def carried_columns(self) -> tuple[str, ...]:
        """The columns that a release needs beside the quasi-identifiers."""
        return (*self.unchanged, *((self.key,) if self.key else ()))

    @property
    def missing_texts(self) -> tuple[str, ...]:
        """The texts that stand for a missing value; the empty one always does."""
        return tuple(dict.fromkeys(("", *self.missing)))

    @property
    def least_group_size(self) -> int:
        """The fewest records of a group that can meet every requirement."""
        return max((r.least for r in self.require), default=1)

    @property
    def countable(self) -> tuple[str, ...]:
        """The columns whose values a requirement can look at: the sensitive ones, and a target that is no quasi-identifier."""
        return (*self.sensitive, *([self.target] if self.target and self.target not in self.quasi else []))

    @property
    def tested_columns(self) -> tuple[str, ...]:
        """The columns whose values inside a group some requirement looks at."""
        return tuple(dict.fromkeys(r.of for r in self.require if r.of is not None))

    @property
    def normalizer(self) -> Normalizer:
        """The normalizer of the columns under ``normalize``."""
        return Normalizer(self.missing_texts)

    def published_reading(self, column: str) -> Reading:
        """How a published column is read to count its values: as it stands, or normalized."""
        return Reading("text", self.missing_texts, normalized=True) if column in self.normalize else AS_PUBLISHED

    def harmful(self, column: str, labels: Sequence[str | None]) -> list[bool]:
        """Which values of a sensitive column, as they are counted, are truly sensitive."""
        truly = self.truly_sensitive.get(column, ())
        if column in self.normalize:
            truly = tuple(map(self.normalizer, truly))  # missing is the empty text
        return [(label or "") in truly for label in labels]

    def most_suppressed(self, records: int) -> int:
        """How many of so many records may be suppressed."""
        return int(self.suppress * records + 1e-9)  # 0.1 of 30 records is 3, whatever floating point makes of it

    def published_columns(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The columns of a published table that show each quasi-identifier: itself, or ``age_lo`` and ``age_hi`` instead."""
        return {name: published_names(name, names) for name in self.quasi}

    def unassigned(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns of a published table that have no role."""
        roles = {*self.identifiers, *self.unchanged, self.key, self.target}
        roles.update(*self.published_columns(names).values())
        return tuple(name for name in names if name not in roles)

    def raw_reading(self, column: str) -> Reading:
        """How a column's raw values are to be understood."""
        kind = self.quasi[column].kind if column in self.quasi else "categorical"
        return Reading(READ_AS[kind], self.missing_texts)  # type: ignore[arg-type]

    def check_schema(self, schema: Schema, *, check: bool = False) -> None:
        """Refuse a table that this policy cannot be used on: no such column, no records, more asked than there are.

        With ``check``, only what a finished table must have is asked for.
        """
        if not self.require:
            raise self._fault(f"the policy has no requirement; {list_choices('', list(REQUIREMENTS))} under 'require:'")
        if not self.quasi:
            raise self._fault(
                "the policy names no quasi-identifier; list under 'quasi:' by what a person could be found"
            )
        roles = {"quasi": tuple(self.quasi), "sensitive": self.tested_columns}
        if not check:
            roles = {"identifiers": self.identifiers, "quasi": tuple(self.quasi), "sensitive": self.sensitive}
            roles |= {
                "keep": self.keep,
                "target": (self.target,) if self.target else (),
                "key": (self.key,) if self.key else (),
            }
        for role, columns in roles.items():
            for column in columns:
                shown = self.published_columns(schema.names)[column] if check and role == "quasi" else (column,)
                lost = [name for name in shown if name not in schema.names]
                if len(lost) == len(shown):
                    raise self._fault(
                        f"column {column!r} is not in the table; {list_choices(column, schema.names)}",
                        role,
                        column,
                    )
                if lost:
                    raise self._fault(
                        f"column {column!r} is shown by {shown[0]!r} and {shown[1]!r} together, but {lost[0]!r} is not in "
                        f"the table; add it, or publish {column!r} itself",
                        role,
                        column,
                    )
        if schema.rows == 0:
            raise DataError("the table is empty: there is no record to hide or to check")
        for number, requirement in enumerate(self.require):
            if requirement.least > schema.rows and not check:
                raise self._fault(
                    f"{requirement.name} asks for groups of at least {requirement.least} records, "
                    f"but the table has {schema.rows}",
                    "require",
                    number,
                )

    def _fault(self, text: str, *place: str | int) -> PolicyError:
        """An error of this policy, with the line of its file where there is one."""
        if len(place) == 2 and place[0] in ("identifiers", "sensitive", "keep"):  # lists are numbered
            place = (place[0], getattr(self, place[0]).index(place[1]))
        return _located(text, place, self._file, self._lines)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]


def policy_of(given: Policy | str | Path | Mapping[str, Any]) -> Policy:
    """A policy from what users pass for one: itself, the path of its file, or a mapping."""
    if isinstance(given, Policy):
        return given
    if isinstance(given, (str, Path)):
        return Policy.load(given)
    if isinstance(given, Mapping):
        return Policy(**given)
    raise PolicyError(f"a policy is a shoal.Policy, the path of a file, or a mapping, not {type(given).__name__}")


class _Dumper(yaml.SafeDumper):
    """Plain lists on one line, mappings on several; text that would be read as something else is quoted."""

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> yaml.SequenceNode:
        plain = all(not isinstance(v, (dict, list)) for v in sequence)
        return super().represent_sequence(tag, sequence, flow_style=plain)


def _mark_derived(given: dict[str, Any]) -> dict[str, Any]:
    """A policy without ``derived``, the nested trees of the columns that it names marked as made from the data."""
    columns = _names(given["derived"])
    rest = {key: value for key, value in given.items() if key != "derived"}
    if not isinstance(columns, (list, tuple)):
        raise PolicyError("'derived' lists columns whose trees were made from the data", place=("derived",))

    def marked(body: Any, column: Any) -> Any:
        tree = body.get("taxonomy") if isinstance(body, Mapping) else None
        return {**body, "taxonomy": Derived(tree)} if column in columns and isinstance(tree, Mapping) else body

    if isinstance(rest.get("quasi"), Mapping):
        rest["quasi"] = {name: marked(body, name) for name, body in rest["quasi"].items()}
    if isinstance(rest.get("require"), (list, tuple)):
        rest["require"] = [
            {name: marked(body, body.get("of")) if isinstance(body, Mapping) else body for name, body in entry.items()}
            if isinstance(entry, Mapping)
            else entry
            for entry in rest["require"]
        ]
    return rest


def _resolve(given: dict[str, Any], folder: Path) -> None:
    """Turn the paths of taxonomies into paths from here."""
    quasi = given.get("quasi")
    for body in quasi.values() if isinstance(quasi, dict) else ():
        _resolve_tree(body, folder)
    for entry in given.get("require") or ():
        for body in entry.values() if isinstance(entry, dict) else ():
            _resolve_tree(body, folder)


def _resolve_tree(body: Any, folder: Path) -> None:
    if isinstance(body, dict) and isinstance(body.get("taxonomy"), str):
        body["taxonomy"] = folder / body["taxonomy"]


def _first_fault(error: ValidationError) -> PolicyError:
    """The first thing that is wrong, in words: the key, what is wrong, what is allowed."""
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    place = (*first["loc"], *(cause.place if isinstance(cause, PolicyError) else ()))
    reason = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        known = list(QuasiIdentifier.model_fields if place[0] == "quasi" else Policy.model_fields)
        reason = f"unknown key; {list_choices(str(place[-1]), known)}"
    key = ".".join(str(p) for p in place)
    return PolicyError(f"{key!r}: {reason}" if key else reason, place=place)


def _located(text: str, place: Place, file: str, lines: Mapping[Place, int]) -> PolicyError:
    if lines:
        where = place
        while where not in lines:
            where = where[:-1]
        text = f"{escape_invisible(file)}, line {lines[where]}: {text}"
    return PolicyError(text, place=place)
