"""The policy: the roles of the columns, their taxonomies, and the requirements.

Python parameters and YAML keys have the same names. A policy is validated when it is created, and checked against the table
when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    SkipValidation,
    ValidationError,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from shoal.engines import AS_PUBLISHED, Reading, Resources, Schema
from shoal.errors import DataError, PolicyError, escape_invisible, explain_absent_column, list_choices, list_some
from shoal.formats.column_pairs import pair_names, published_names
from shoal.formats.conventions import Conventions, parse_conventions
from shoal.formats.html_text import render_table, render_view
from shoal.formats.normalize import Normalizer
from shoal.formats.numbers import parse_percentage
from shoal.formats.surrogates import find_surrogates
from shoal.formats.yaml_text import Place, read_file, read_yaml, refuse_deep
from shoal.formats.yaml_writer import format_yaml
from shoal.policy.columns import KINDS, QuasiIdentifier, parse_taxonomy
from shoal.policy.unit import Unit, parse_unit
from shoal.requirements import (
    REQUIREMENTS,
    BaseRequirement,
    Conjunction,
    Requirement,
    collect_parameters,
    describe,
    list_parameters,
)
from shoal.taxonomy import Taxonomy

MOST_NAMED, MOST_LISTED = 6, 50  # columns of a role in the representation and in a notebook
READ_AS = {"numeric": "number", "date": "date", "categorical": "text"}
EXPECTED = {  # by the type of an error of pydantic
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "model_type": "a kind, such as 'numeric', or a mapping",
    "string_type": "a text",
    "tuple_type": "a list, such as [a, b]",
}


ATTACK = "attack:"  # before the name of an attack whose result is accepted
ALLOWED = "allow_unique"  # the key of earlier versions for accepted columns
REQUIRE_FORM = "write each requirement with its value, such as '- k-anonymity: 5' (in Python: [KAnonymity(5)])"
FOREIGN = {  # files of a release that are not policies, by two of their keys
    ("holds", "findings"): "a certificate",
    ("kind", "fields"): "a recoding",
    ("seed", "method"): "the ledger of a release",
    ("releases", "recoding"): "the groups of a release",
}
TABLES = (".csv", ".tsv", ".parquet", ".html", ".duckdb", ".ddb", ".db")  # suffixes of files that are no policies


def _parse_requirement(value: Any) -> Any:
    if isinstance(value, BaseRequirement):
        return value
    if not isinstance(value, Mapping) or len(value) != 1:
        word = value if isinstance(value, str) else ""
        raise PolicyError(
            f"a requirement must have the form 'k-anonymity: 10'; {list_choices(word, REQUIREMENTS.names())}"
        )
    ((name, given),) = value.items()
    kind = REQUIREMENTS.find(name)
    defaults = {field.name: field.default for field in list_parameters(kind)}
    if not isinstance(given, Mapping):
        given = {next(iter(defaults)): given}
    for key in given:
        if key not in defaults:
            raise PolicyError(f"{name} has no parameter {key!r}; {list_choices(str(key), list(defaults))}")
    missing = [key for key, default in defaults.items() if key not in given and default is MISSING]
    if missing:
        raise PolicyError(
            f"{name} needs {' and '.join(map(repr, missing))}; write '{name}: "
            f"{{{', '.join(f'{key}: …' for key in {**given, **dict.fromkeys(missing)})}}}'"
        )
    return kind(**given)


def _split_combined(value: Any) -> Any:
    """The requirements as a list: a single one is accepted, and those that were joined by ``&`` are split."""
    value = _list_requirements(value)
    if not isinstance(value, (list, tuple)):
        raise PolicyError(REQUIRE_FORM)
    return [one for entry in value for one in (entry if isinstance(entry, Conjunction) else (entry,))]


def _list_requirements(value: Any) -> Any:
    """Accept one requirement, or a mapping of requirements, instead of a list."""
    if isinstance(value, Mapping):
        return [{name: body} for name, body in value.items()]
    return [value] if isinstance(value, BaseRequirement) else value


def _to_plain(requirement: Requirement, *, public: bool = False) -> dict[str, Any]:
    given = collect_parameters(requirement, public=public)
    return {requirement.name: next(iter(given.values())) if len(given) == 1 else given}


def _list_texts(value: Any) -> list[str]:
    """The texts in a validated value of a policy, except the labels of taxonomies."""
    if isinstance(value, str):
        return [value]
    if value is None or isinstance(value, (bool, int, float)):  # first, since the test for a requirement is slow
        return []
    if isinstance(value, Unit):
        return [value.column]
    if isinstance(value, Conventions):
        return list(value.to_plain().values())
    if isinstance(value, Requirement):
        return _list_texts([getattr(value, parameter.name) for parameter in list_parameters(value)])
    if isinstance(value, Mapping):
        return [*_list_texts(tuple(value)), *_list_texts(tuple(value.values()))]
    return [text for entry in value for text in _list_texts(entry)] if isinstance(value, (list, tuple)) else []


def _to_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _check_share(value: Any) -> Any:
    percentage = parse_percentage(value) if isinstance(value, str) else None
    try:
        share = float(value if percentage is None else percentage)
    except (TypeError, ValueError):
        share = -1.0
    if isinstance(value, bool) or not 0.0 <= share <= 1.0:
        raise PolicyError(f"the value must be a share from 0 to 1, not {list_some([value])}; for 5 % write 0.05 or 5%")
    return share


def _check_reasons(value: Any) -> Any:
    """The accepted columns with their reasons; a reason is a text that is not empty."""
    if not isinstance(value, Mapping):
        raise PolicyError("'accept' maps each column to the reason, for example 'mrn: agreed with the board'")
    for name, reason in value.items():
        if not isinstance(reason, str) or not reason.strip():
            raise PolicyError(
                f"'accept' has no reason for {list_some([name])}; write the reason, for example 'agreed with the board'",
                place=("accept", str(name)),
            )
    return {str(name): reason for name, reason in value.items()}


def _accept_allowed(given: dict[str, Any]) -> dict[str, Any]:
    """Read the key of earlier versions: its columns are accepted, with its name as the reason."""
    names = _to_list(given[ALLOWED]) or ()
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise PolicyError("the value must be a list, such as [a, b]", place=(ALLOWED,))
    kept = _to_list(given.get("keep")) or ()
    for place, name in enumerate(names):
        if name not in kept:
            raise PolicyError(
                f"column {name!r} is listed under {ALLOWED!r} but not under 'keep'; {_suggest(name, tuple(kept), 'keep')}",
                place=(ALLOWED, place),
            )
    accept = {**dict.fromkeys(names, ALLOWED), **(given.get("accept") or {})}
    return {**{key: value for key, value in given.items() if key != ALLOWED}, "accept": accept}


Names = Annotated[
    tuple[str, ...],
    BeforeValidator(_to_list),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]


class _RequirementSchema:
    """The JSON Schema of a requirement, made when it is asked for: other packages may add requirements."""

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        return {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "properties": {name: {"type": ["object", "number"]} for name in REQUIREMENTS.names()},
            "additionalProperties": False,
        }


Rule = Annotated[
    Requirement,
    SkipValidation,  # requirements on operators have another `test`
    BeforeValidator(_parse_requirement),
    PlainSerializer(_to_plain, return_type=dict[str, Any]),
    _RequirementSchema(),
]


class Policy(BaseModel):
    """The role of each column, how its values may be generalized, and the requirements that every group must meet.

    Parameters
    ----------
    identifiers : columns that identify a person, such as the name; dropped
    quasi : quasi-identifiers, by which other data can be linked to a person, with their kind: ``numeric``, ``categorical``,
        ``date``, or a mapping with ``taxonomy``, ``mask``, ``date``, ``widths``, ``boundaries``, ``balanced`` or ``bounds``
    sensitive : sensitive attributes; released unchanged
    target : the class to predict; released unchanged if it is not a quasi-identifier
    keep : other columns that are released unchanged
    accept : columns that are released although Shoal would refuse them, each with the reason, for example because nearly every
        value occurs once; ``attack:NAME`` accepts the result of an attack. Certificate and report show the reasons
    key : a column that distinguishes the records; dropped. If equal records belong to different groups, a keyed hash of this
        column divides them, so that every engine assigns the same record to the same group
    unit : the column of the person a record belongs to, where a person can have several records; requirements then count
        different people instead of records. Or a mapping with ``column``, ``pseudonym`` and ``knows``; see `Unit`
    truly_sensitive : the harmful values of a sensitive column (for the sensitive diversity)
    read : how the file with the raw table is written: a mapping with ``delimiter``, ``decimal``, ``thousands``, ``encoding``,
        ``dates`` or ``sheet``; see `Conventions` (default: detected where this is safe)
    missing : texts that represent a missing value
    normalize : sensitive columns, or the target, in which requirements and measures count all spellings of a value as one:
        texts that are equal after trimming, Unicode NFKC and case folding, texts of the same number, and the texts of
        ``missing``. The released values are not changed
    require : the requirements
    suppress : the largest share of the records that may be suppressed, from 0 to 1 or as a text such as ``5%``

    A column without a role is dropped. A policy file that Shoal writes may also contain ``derived``: the columns whose
    taxonomies were derived from the data and are therefore never published.

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
    accept: Annotated[dict[str, str], BeforeValidator(_check_reasons)] = Field(default_factory=dict)
    key: str | None = None
    unit: Annotated[Unit | None, BeforeValidator(parse_unit)] = None
    truly_sensitive: dict[str, Names] = Field(default_factory=dict)
    read: Annotated[Conventions | None, BeforeValidator(parse_conventions)] = None
    missing: Names = ("",)
    normalize: Names = ()
    require: Annotated[tuple[Rule, ...], BeforeValidator(_split_combined)] = ()
    suppress: Annotated[float, BeforeValidator(_check_share)] = Field(default=0.0, ge=0.0, le=1.0)
    _file: str = PrivateAttr(default="")
    _lines: dict[Place, int] = PrivateAttr(default_factory=dict)

    def __init__(self, **given: Any) -> None:
        refuse_deep(given, "policy", PolicyError)
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise _explain(error) from None

    @model_validator(mode="before")
    @classmethod
    def _check_form(cls, value: Any) -> Any:
        quasi = value.get("quasi") if isinstance(value, dict) else None
        if quasi is not None and not isinstance(quasi, Mapping):
            raise PolicyError(
                "'quasi' maps each column to its kind, for example 'age: numeric'; " + list_choices("", KINDS)
            )
        if isinstance(value, dict) and ALLOWED in value:
            value = _accept_allowed(value)
        return _mark_derived(value) if isinstance(value, dict) and "derived" in value else value

    @model_validator(mode="after")
    def _check_texts(self) -> Policy:
        """Raise an error for names and values that no file can contain; taxonomies check their labels themselves."""
        for name in type(self).model_fields:
            broken = find_surrogates(_list_texts(getattr(self, name)))
            if broken:
                raise PolicyError(
                    f"texts must be valid Unicode, without lone surrogates, unlike {list_some(broken)}; correct them",
                    place=(name,),
                )
        return self

    def _check_accepted(self) -> None:
        """Raise an error for an accepted column that is not released."""
        released = (*self.quasi, *self.unchanged_columns)
        for name in self.accept:
            if name not in released and not name.startswith(ATTACK):
                raise PolicyError(
                    f"'accept' names {name!r}, which is no column that is released; {_suggest(name, released, 'keep')}",
                    place=("accept", name),
                )

    def _check_part_of(self, name: str, role: str) -> None:
        """Raise an error for a column that is listed under ``name`` but does not have the role."""
        having = getattr(self, role)
        for place, column in enumerate(getattr(self, name)):
            if column not in having:
                raise PolicyError(
                    f"column {column!r} is listed under {name!r} but not under {role!r}; {_suggest(column, having, role)}",
                    place=(name, column if name == "truly_sensitive" else place),
                )

    @model_validator(mode="after")
    def _check_roles(self) -> Policy:
        roles: dict[str, str] = {}
        for role in ("identifiers", "quasi", "sensitive", "keep"):
            for place, column in enumerate(getattr(self, role)):
                if column in roles:
                    twice = f"is listed twice under {role!r}; remove one entry"
                    two = f"has two roles, {roles[column]!r} and {role!r}; keep one of them"
                    raise PolicyError(
                        f"column {column!r} {twice if roles[column] == role else two}",
                        place=(role, column if role == "quasi" else place),
                    )
                roles[column] = role
        self._check_part_of("truly_sensitive", "sensitive")
        self._check_accepted()
        if self.key is not None and (roles.get(self.key, "identifiers") != "identifiers" or self.key == self.target):
            role = roles.get(self.key, "target")
            raise PolicyError(
                f"column {self.key!r} is both the key and {role!r}, but Shoal drops the key; remove one of the two entries",
                place=("key",),
            )
        self._check_unit(roles)
        if self.target in self.identifiers:
            raise PolicyError(
                f"the target {self.target!r} is an identifier and would be dropped, but a target is released; remove it from "
                "'identifiers', or choose another target",
                place=("target",),
            )
        for place, column in enumerate(self.normalize):
            if column not in self.countable_columns:
                raise PolicyError(
                    f"column {column!r} cannot be normalized: requirements count only the values of sensitive columns and of "
                    f"the target; {_suggest(column, self.countable_columns, 'sensitive')}",
                    place=("normalize", place),
                )
        for number, requirement in enumerate(self.require):
            for column in requirement.on or ():
                if column not in self.quasi:
                    raise PolicyError(
                        f"'on' of {requirement.name} names {column!r}, which is no quasi-identifier; "
                        f"{_suggest(column, list(self.quasi), 'quasi')}",
                        place=("require", number),
                    )
            if requirement.of is not None and requirement.of not in self.countable_columns:
                raise PolicyError(
                    f"'of' of {requirement.name} names {requirement.of!r}, which is no sensitive column; "
                    f"{_suggest(requirement.of, self.countable_columns, 'sensitive')}",
                    place=("require", number),
                )
        return self._with_normalizer()

    def _check_unit(self, roles: Mapping[str, str]) -> None:
        column = self.unit_column
        others = {self.target: "target", self.key: "key"} | {
            c: role for c, role in roles.items() if role != "identifiers"
        }
        if column is not None and column in others:
            raise PolicyError(
                f"column {column!r} is both the unit and {others[column]!r}; remove one of the two entries",
                place=("unit",),
            )

    def _with_normalizer(self) -> Policy:
        """Pass the normalizer to requirements that compare values of a normalized column."""
        require = [
            replace(r, normal=self.normalizer) if r.of in self.normalize and hasattr(r, "normal") else r  # type: ignore[type-var]
            for r in self.require
        ]
        object.__setattr__(self, "require", tuple(require))
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Policy:
        """A copy with changed fields; see pydantic."""
        if update and "unit" in update:
            update = {**update, "unit": parse_unit(update["unit"])}
        return super().model_copy(update=update, deep=deep)._with_normalizer()

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read a policy file, or ``policy.yaml`` in a folder; paths of taxonomies are relative to the folder of the file."""
        file = Path(path)
        if file.is_dir():
            file = file / "policy.yaml"
        if file.suffix.lower() in TABLES:
            raise PolicyError(
                f"{str(path)!r} is not a policy file. A policy file is a YAML file that you write, such as 'policy.yaml'."
            )
        try:
            text = read_file(file, "policy", PolicyError)
        except PolicyError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise PolicyError(f"there is no policy file {str(file)!r}; check the path") from None
            raise
        return cls.parse(text, name=file.name, folder=file.parent)

    @classmethod
    def parse(cls, text: str, *, name: str = "policy", folder: Path | None = None) -> Policy:
        """Parse YAML text; errors name the key and the line."""
        content, lines = read_yaml(text, name)
        if not isinstance(content, dict):
            fault = "the file is empty" if content is None else "this is not a policy"
            raise PolicyError(
                f"{name}: {fault}. A policy has lines such as 'quasi:' and 'require:'; "
                f"{list_choices('', list(cls.model_fields))}."
            )
        for keys, what in FOREIGN.items():
            if all(key in content for key in keys):
                raise PolicyError(
                    f"{name}: this file is {what}, not a policy. Use policy.yaml in the folder of the release."
                )
        given = {key: value for key, value in content.items() if value is not None}
        _resolve_paths(given, folder or Path())
        try:
            policy = cls(**given)
        except PolicyError as error:
            raise _add_line(str(error), error.place, name, lines) from None
        policy._file, policy._lines = name, lines
        return policy

    def to_dict(self, *, public: bool = False) -> dict[str, Any]:
        """The content of a policy file, without defaults; ``public`` omits taxonomies that were derived from the data."""
        found: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name == "quasi":
                found[name] = {column: quasi.to_plain(public=public) for column, quasi in value.items()}
            elif name == "require":
                found[name] = [_to_plain(requirement, public=public) for requirement in value]
            elif value is not None and name in ("unit", "read"):
                found |= {name: plain} if (plain := value.to_plain()) else {}
            elif isinstance(value, dict):
                found |= {name: {k: v if isinstance(v, str) else list(v) for k, v in value.items()}} if value else {}
            elif value != field.default:
                found[name] = list(value) if isinstance(value, tuple) else value
        if not public and (derived := self._derived_columns()):
            found["derived"] = derived
        return found

    @model_serializer(mode="wrap")
    def _serialize(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Add ``derived`` to `model_dump`, in which pydantic replaces the type `Derived` by dict."""
        derived = self._derived_columns()
        return {**handler(self), **({"derived": derived} if derived else {})}

    def _derived_columns(self) -> list[str]:
        """The columns whose taxonomies were derived from the data."""
        trees = [(name, quasi.taxonomy) for name, quasi in self.quasi.items()]
        trees += [(str(r.of), getattr(r, "taxonomy", None)) for r in self.require]
        return list(dict.fromkeys(name for name, tree in trees if isinstance(tree, Taxonomy) and tree.derived))

    def to_yaml(self, *, public: bool = False) -> str:
        """The policy as YAML text that `load` and `parse` read."""
        return format_yaml(self.to_dict(public=public))

    def save(self, path: str | Path) -> None:
        """Write the policy as YAML."""
        Path(path).write_text(self.to_yaml(), encoding="utf-8")

    @property
    def unchanged_columns(self) -> tuple[str, ...]:
        """The columns that are released unchanged."""
        target = (self.target,) if self.target and self.target not in (*self.quasi, *self.sensitive, *self.keep) else ()
        return (*self.sensitive, *self.keep, *target)

    @property
    def carried_columns(self) -> tuple[str, ...]:
        """The columns that a release needs in addition to the quasi-identifiers."""
        return (*self.unchanged_columns, *filter(None, (self.key, self.unit_column)))

    @property
    def unit_column(self) -> str | None:
        """The column of the person a record belongs to, if requirements count people."""
        return None if self.unit is None else self.unit.column

    @property
    def hidden_columns(self) -> tuple[str, ...]:
        """The columns that may not be in a published table: identifiers, the key, and the unit without a pseudonym."""
        columns = dict.fromkeys((*self.identifiers, *filter(None, (self.key, self.unit_column))))
        return tuple(c for c in columns if c != self.pseudonym_column)

    @property
    def knows_history(self) -> bool:
        """Whether the attacker knows all records of a person."""
        return self.unit is not None and self.unit.knows == "history"

    @property
    def pseudonym_column(self) -> str | None:
        """The column that is published as a pseudonym of the person, if any."""
        return self.unit.column if self.unit is not None and self.unit.pseudonym else None

    @property
    def missing_texts(self) -> tuple[str, ...]:
        """The texts that represent a missing value, always including the empty text."""
        return tuple(dict.fromkeys(("", *self.missing)))

    @property
    def least_group_size(self) -> int:
        """The smallest number of records with which a group can meet every requirement."""
        return max((r.least for r in self.require), default=1)

    @property
    def countable_columns(self) -> tuple[str, ...]:
        """The columns whose values a requirement can count: sensitive columns, and a target that is no quasi-identifier."""
        return (*self.sensitive, *([self.target] if self.target and self.target not in self.quasi else []))

    @property
    def tested_columns(self) -> tuple[str, ...]:
        """The columns whose values in each group are counted by a requirement."""
        return tuple(dict.fromkeys(r.of for r in self.require if r.of is not None))

    @property
    def normalizer(self) -> Normalizer:
        """The normalizer of the columns under ``normalize``."""
        return Normalizer(self.missing_texts)

    @property
    def unit_reading(self) -> Reading:
        """How the people of the unit are read: spellings of one name are one person, so that people are never overcounted."""
        return Reading("text", self.missing_texts, normalized=True)

    def published_reading(self, column: str) -> Reading:
        """How the values of a published column are read and counted: unchanged, or normalized."""
        return Reading("text", self.missing_texts, normalized=True) if column in self.normalize else AS_PUBLISHED

    def flag_truly_sensitive(self, column: str, labels: Sequence[str | None]) -> list[bool]:
        """For each counted value of a sensitive column, whether it is truly sensitive."""
        truly = self.truly_sensitive.get(column, ())
        if column in self.normalize:
            truly = tuple(map(self.normalizer, truly))  # a missing value is the empty text
        return [(label or "") in truly for label in labels]

    def most_suppressed(self, records: int) -> int:
        """The largest number of records that may be suppressed, out of a number of records."""
        return int(self.suppress * records + 1e-9)  # guards against rounding: 0.1 of 30 records is 3

    def published_columns(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The published columns of each quasi-identifier: the column itself, or a pair such as ``age_lo`` and ``age_hi``."""
        return {name: published_names(name, names) for name in self.quasi}

    def list_dropped(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns of a source that are not released."""
        released = (*self.quasi, *self.unchanged_columns, self.pseudonym_column)
        return tuple(name for name in names if name not in released)

    def find_unassigned(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns of a published table that have no role."""
        roles = {*self.identifiers, *self.unchanged_columns, self.key, self.target, self.unit_column}
        roles.update(*self.published_columns(names).values())
        return tuple(name for name in names if name not in roles)

    def _assigned_columns(self) -> tuple[str, ...]:
        """The columns that have a role, and the pairs of columns as which quasi-identifiers may be published."""
        pairs = [name for column in self.quasi for name in pair_names(column)]
        return (*self.identifiers, *self.quasi, *pairs, *self.carried_columns, *((self.target,) if self.target else ()))

    def raw_reading(self, column: str) -> Reading:
        """How the raw values of a column are read."""
        kind = self.quasi[column].kind if column in self.quasi else "categorical"
        return Reading(READ_AS[kind], self.missing_texts)  # type: ignore[arg-type]

    def with_conventions(self, resources: Resources | None = None) -> Resources:
        """Resources to open the raw table: how its file is written, and which columns are numbers or dates."""
        numeric = tuple(column for column, quasi in self.quasi.items() if quasi.kind != "categorical")
        return replace(resources or Resources(), conventions=self.read or Conventions(), numeric=numeric)

    def check_schema(self, schema: Schema, *, check: bool = False, requires: bool = True) -> None:
        """Raise an error if the table does not fit the policy: missing columns, no records, or too few records.

        With ``check``, only the columns that an audit of a published table needs are required. Without ``requires``, the policy
        may have no requirement, as for randomizing methods.
        """
        if not self.require and requires:
            choices = list_choices("", REQUIREMENTS.names())
            raise self._fault(f"the policy has no requirement; {choices}, and list them under 'require:'")
        if not self.quasi:
            raise self._fault(
                "the policy has no quasi-identifier; list under 'quasi:' the columns by which a person could be re-identified"
            )
        roles = {"quasi": tuple(self.quasi), "sensitive": self.tested_columns}
        if not check:
            roles = {"identifiers": self.identifiers, "quasi": tuple(self.quasi), "sensitive": self.sensitive}
            roles |= {
                "keep": self.keep,
                "target": (self.target,) if self.target else (),
                "key": (self.key,) if self.key else (),
                "unit": (self.unit.column,) if self.unit else (),
            }
        for role, columns in roles.items():
            for column in columns:
                names = self.published_columns(schema.names)[column] if check and role == "quasi" else (column,)
                absent = [name for name in names if name not in schema.names]
                if len(absent) == len(names):
                    remedy = "Correct the name, or remove it from the policy."
                    text = explain_absent_column(column, self._assigned_columns(), schema.names, remedy)
                    raise self._fault(text, role, column)
                if absent:
                    raise self._fault(
                        f"column {column!r} is published as the columns {names[0]!r} and {names[1]!r}, but {absent[0]!r} is "
                        f"not in the table; add {absent[0]!r}, or publish {column!r} itself",
                        role,
                        column,
                    )
        if schema.rows == 0:
            raise DataError("the table is empty; pass a table with at least one record")
        for number, requirement in enumerate(self.require):
            if requirement.least > schema.rows and not check:
                raise self._fault(
                    f"{requirement.name} requires groups of at least {requirement.least} records, "
                    f"but the table has {schema.rows}; lower the requirement, or add records",
                    "require",
                    number,
                )

    def _fault(self, text: str, *place: str | int) -> PolicyError:
        """An error of this policy, with the line of its file if known."""
        if len(place) == 2 and place[0] in ("identifiers", "sensitive", "keep"):  # lists are numbered
            place = (place[0], getattr(self, place[0]).index(place[1]))
        return _add_line(text, place, self._file, self._lines)

    def _describe(self, most: int) -> list[tuple[str, str]]:
        """Each role with its columns, and the requirements, as texts with at most so many entries."""

        def join(entries: Sequence[str]) -> str:
            more = f" and {len(entries) - most:,} more" if len(entries) > most else ""
            return ", ".join(entries[:most]) + more

        columns = {role: list(getattr(self, role)) for role in ("identifiers", "quasi", "sensitive", "keep")}
        single = {"target": self.target, "key": self.key, "unit": self.unit_column}
        columns |= {role: [column] for role, column in single.items() if column is not None}
        columns["require"] = [describe(requirement) for requirement in self.require]
        columns["suppress"] = [f"at most {self.suppress:.4g} of the records"] if self.suppress else []
        return [(role, join(entries)) for role, entries in columns.items() if entries]

    def __repr__(self) -> str:
        text = "; ".join(f"{role}: {entries}" for role, entries in self._describe(MOST_NAMED))
        return escape_invisible(f"Policy({text})")

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        roles = [(role, entries) for role, entries in self._describe(MOST_LISTED) if role not in ("quasi", "require")]
        quasi = [(name, quasi.kind, quasi.describe_rule()) for name, quasi in self.quasi.items()]
        require = [(describe(requirement),) for requirement in self.require]
        return render_view(
            "Policy",
            render_table("quasi-identifiers", ("column", "kind", "generalized by"), quasi, figures=False),
            render_table("requirements", ("requirement",), require, figures=False),
            render_table("other roles", ("role", "columns"), roles, figures=False),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]


def parse_policy(given: Policy | str | Path | Mapping[str, Any]) -> Policy:
    """Return a policy from a policy, the path of its file, or a mapping."""
    if isinstance(given, Policy):
        return given
    if isinstance(given, (str, Path)):
        return Policy.load(given)
    if isinstance(given, Mapping):
        return Policy(**{str(key): value for key, value in given.items()})
    raise PolicyError(f"a policy must be a shoal.Policy, the path of a file, or a mapping, not {type(given).__name__}")


def _mark_derived(given: dict[str, Any]) -> dict[str, Any]:
    """Remove the key ``derived`` and mark the taxonomies of its columns as derived from the data."""
    columns = _to_list(given["derived"])
    rest = {key: value for key, value in given.items() if key != "derived"}
    if not isinstance(columns, (list, tuple)):
        raise PolicyError(
            "'derived' must be a list of columns, whose taxonomies were derived from the data", place=("derived",)
        )

    def mark(body: Any, column: Any, *place: str | int) -> Any:
        tree = body.get("taxonomy") if isinstance(body, Mapping) else None
        if column not in columns or tree is None:
            return body
        try:
            return {**body, "taxonomy": replace(parse_taxonomy(tree), derived=True)}
        except DataError as error:
            raise PolicyError(str(error), place=place) from error

    if isinstance(rest.get("quasi"), Mapping):
        rest["quasi"] = {name: mark(body, name, "quasi", name, "taxonomy") for name, body in rest["quasi"].items()}
    rest["require"] = _list_requirements(rest.get("require", ()))
    if isinstance(rest["require"], (list, tuple)):
        rest["require"] = [
            {
                name: mark(body, body.get("of"), "require", number) if isinstance(body, Mapping) else body
                for name, body in entry.items()
            }
            if isinstance(entry, Mapping)
            else entry
            for number, entry in enumerate(rest["require"])
        ]
    return rest


def _resolve_paths(given: dict[str, Any], folder: Path) -> None:
    """Resolve the paths of taxonomies relative to the folder of the policy file."""
    quasi = given.get("quasi")
    for body in quasi.values() if isinstance(quasi, dict) else ():
        _resolve_tree(body, folder)
    for entry in _list_requirements(given.get("require")) or ():
        for body in entry.values() if isinstance(entry, dict) else ():
            _resolve_tree(body, folder)


def _resolve_tree(body: Any, folder: Path) -> None:
    if isinstance(body, dict) and isinstance(body.get("taxonomy"), str):
        body["taxonomy"] = folder / body["taxonomy"]


def _explain(error: ValidationError) -> PolicyError:
    """The first error in plain words: the key, the value, and what is allowed."""
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    place = (*first["loc"], *(cause.place if isinstance(cause, PolicyError) else ()))
    if first["type"] == "extra_forbidden":
        known = list(QuasiIdentifier.model_fields if place[0] == "quasi" else Policy.model_fields)
        reason = f"unknown key; {list_choices(str(place[-1]), known)}"
    elif first["type"] == "missing":
        reason = "this value is missing; add it"
    elif first["type"] == "too_long":
        reason = f"the list must have {first['ctx']['max_length']} values, not {first['ctx']['actual_length']}"
    elif first["type"] in EXPECTED:
        reason = f"the value must be {EXPECTED[first['type']]}{_quote(first['input'])}"
    elif first["type"] == "literal_error":
        reason = f"the value must be {first['ctx']['expected']}{_quote(first['input'])}"
    elif first["type"] == "invalid_key":
        reason = f"the key {list_some([first['input']])} is not a text; write it in quotes"
    elif isinstance(cause, Exception):
        reason = str(cause)
    else:
        reason = "the value is not valid; see docs/reference for the values of this key"
    return PolicyError(f"{_name_place(place)}: {reason}" if place else reason, place=place)


def _name_place(place: Place) -> str:
    """The key in words; entries of lists are counted from 1."""
    if place[0] == "require" and len(place) > 1:
        return f"requirement {int(place[1]) + 1}"
    key = ".".join(str(step) for step in place if isinstance(step, str))
    numbers = [f"entry {step + 1} of " for step in place if isinstance(step, int)]
    return f"{''.join(reversed(numbers))}{key!r}"


def _suggest(column: str, allowed: Sequence[str], role: str) -> str:
    """The allowed columns, or the entry to add if no column has the role."""
    entry = f"{role}: {{{column}: categorical}}" if role == "quasi" else f"{role}: [{column}]"
    return list_choices(column, allowed) if allowed else f"add {entry!r}"


def _quote(value: Any) -> str:
    return f", not {list_some([value])}" if isinstance(value, (str, int, float)) else ""


def _add_line(text: str, place: Place, file: str, lines: Mapping[Place, int]) -> PolicyError:
    if lines:
        where = place
        while where not in lines:
            where = where[:-1]
        text = f"{escape_invisible(file)}, line {lines[where]}: {text}"
    return PolicyError(text, place=place)
