"""Our docstrings as griffe reads them: a parameter is written ``name : what it is``, its type stands in the signature."""

from __future__ import annotations

import re
from typing import Any

import griffe

SECTION = re.compile(r"^(Parameters|Returns)\n-+\n(.*?)(?=\n\n[A-Z][a-z]+\n-+\n|\Z)", re.MULTILINE | re.DOTALL)
PARAMETER = re.compile(r"^(\w+(?:, \w+)*) : (.+)$", re.MULTILINE)
SESSION = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)


class Docstrings(griffe.Extension):
    """Rewrites the sections Parameters and Returns; a session outside of Examples becomes a block of code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring:
            text, sign, examples = obj.docstring.value.partition("Examples\n--------\n")
            text = SESSION.sub(r"```pycon\n\g<0>\n```", SECTION.sub(rewritten, text))
            obj.docstring.value = f"{text.rstrip()}\n\n{sign}{examples}"

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """A pydantic model takes its fields as keywords, whatever its constructor's signature says."""
        if "BaseModel" in map(str, cls.bases):
            fields = [m for m in cls.members.values() if isinstance(m, griffe.Attribute) and m.value]
            taken = [
                griffe.Parameter(f.name, kind=griffe.ParameterKind.keyword_only, default=default_of(str(f.value)))
                for f in fields
                if not f.name.startswith(("_", "model_"))
            ]
            own = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
            cls.set_member("__init__", griffe.Function("__init__", parameters=griffe.Parameters(own, *taken)))


def default_of(value: str) -> str:
    """What a field has unless it is given: pydantic's way of saying it is not for readers."""
    found = re.match(r"Field\(default(_factory)?=(.*?)[,)]", value)
    if found is None:
        return value
    return {"dict": "{}", "list": "[]"}.get(found[2], found[2]) if found[1] else found[2]


def rewritten(section: re.Match[str]) -> str:
    """One section in numpydoc's own form: names and texts on lines of their own, other paragraphs before it."""
    name, body = section[1], section[2]
    if name == "Parameters":
        body, _, prose = body.partition("\n\n")
        body = PARAMETER.sub(r"\1\n    \2", body)
    else:
        body, prose = ":\n" + "\n".join(f"    {line}" for line in body.splitlines()), ""
    above = f"{prose.strip()}\n\n" if prose.strip() else ""
    return f"{above}{name}\n{'-' * len(name)}\n{body}"
