"""A dbt package with generic tests for k-anonymity and distinct l-diversity, from the same SQL as `check_query`.

The tests run on every adapter: names of columns and the type of texts come from dbt, and the SQL needs only CASE, sums and row
numbers. A column is named as the user writes it in SQL, with quotes if the database needs them.
"""

from __future__ import annotations

from pathlib import Path

from shoal.errors import EngineError, PolicyError
from shoal.requirements.group_rules import GroupRule, LeastDistinct, LeastSize
from shoal.sql.columns import cast_text, fold_text, make_null
from shoal.sql.group_tests import Counted, write_test
from shoal.sql.value_counts import count_values

GROUP, LEAST = "shoal_group", 987_654_321  # stand for the columns of the groups and for the parameter of the test
PROJECT = """\
# Written by `shoal dbt package`.
name: shoal
version: 1.0.0
config-version: 2
require-dbt-version: ">=1.3.0"
macro-paths: [macros]
"""
README = """\
# Tests of published tables

Written by `shoal dbt package`. The tests count groups in the database and show no values of the table.

```yaml
models:
  - name: release
    data_tests:
      - shoal.k_anonymity: {columns: [age, zip], k: 5}
      - shoal.l_diversity: {columns: [age, zip], sensitive: disease, l: 3}
      - shoal.k_anonymity: {columns: [age, zip], k: 5, unit: patient_id}
```

`columns` are the quasi-identifiers. `unit` is the column of the person, where a person has several records; different people
are then counted. Names of people are equal if they differ only in case and in spaces around them. A missing value and an empty
text are one value. A record without a person counts as a person of its own. A test fails with one row: the requirement, the
number of groups, and the numbers of groups and records that fail.
"""
TEST = """\
{{# Written by `shoal dbt package`. #}}
{{% test {name}(model, columns, {parameters}, unit=none) %}}
{{%- if columns is string or not columns -%}}
{{{{ exceptions.raise_compiler_error("{name}: 'columns' must be a list of at least one column, such as [age, zip].") }}}}
{{%- endif -%}}
{{%- set groups -%}}
{{%- for column in columns -%}}q{{{{ loop.index }}}}{{{{ ", " if not loop.last }}}}{{%- endfor -%}}
{{%- endset %}}
with shoal_source as (
    select
        {{% for column in columns -%}}
        {column} as q{{{{ loop.index }}}},
        {{% endfor -%}}
        {more}
        {{% if unit is not none -%}}
        {unit} as person,
        {{% endif -%}}
        1 as one
    from {{{{ model }}}}
),
shoal_cells as (
    select {{{{ groups }}}}, {sensitive}{{{{ "person, " if unit is not none }}}}count(*) as records
    from shoal_source
    group by {{{{ groups }}}}{last}{{{{ ", person" if unit is not none }}}}
),
{{% if unit is none -%}}
{records},
{{%- else -%}}
{people},
{{%- endif %}}
shoal_judged as (
    {failing}
)
select
    '{text}' as requirement,
    count(*) as counted_groups,
    sum(fails) as failing_groups,
    sum(fails * records) as failing_records
from shoal_judged
having sum(fails) > 0
{{% endtest %}}
"""


def write_dbt_package(folder: str | Path, *, overwrite: bool = False) -> tuple[Path, ...]:
    """Write the files of the dbt package into a folder, and return their paths."""
    root = Path(folder)
    if root.exists() and not overwrite and (not root.is_dir() or any(root.iterdir())):
        raise PolicyError(f"{str(root)!r} already exists. Choose another folder, or overwrite it with --force.")
    paths = []
    try:
        for name, text in dbt_package().items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            paths.append(path)
    except OSError as error:
        raise EngineError(f"cannot write {str(root)!r}: {error.strerror}. Choose another folder.") from None
    return tuple(paths)


def dbt_package() -> dict[str, str]:
    """The texts of the files of the dbt package, by their paths."""
    return {
        "dbt_project.yml": PROJECT,
        "README.md": README,
        "macros/k_anonymity.sql": _write_test_macro("k_anonymity", "k", LeastSize(LEAST)),
        "macros/l_diversity.sql": _write_test_macro("l_diversity", "l", LeastDistinct(LEAST), sensitive=True),
    }


def _write_test_macro(name: str, parameter: str, rule: GroupRule, *, sensitive: bool = False) -> str:
    """The macro of a test; ``sensitive``: it counts the values of a sensitive column."""
    of = "s1" if sensitive else None
    failing = write_test(rule, Counted("shoal_counts", (GROUP,), "shoal")).failing
    more = f"{_read('{{ sensitive }}')} as s1," if sensitive else ""
    text = name.replace("_", "-") + f" ({parameter} = {{{{ {parameter} }}}}"
    text += """, of = {{ sensitive | replace("'", "''") }})""" if sensitive else ")"
    filled = TEST.format(
        name=name,
        parameters=f"{parameter}, sensitive" if sensitive else parameter,
        column=_read("{{ column }}"),
        more=more,
        unit=make_null(fold_text("{{ unit }}"), f"{fold_text('{{ unit }}')} = ''"),
        sensitive="s1, " if sensitive else "",
        last=", s1" if sensitive else "",
        records=_list_tables(of, people=False),
        people=_list_tables(of, people=True),
        failing=failing,
        text=text,
    )
    filled = filled.replace(GROUP, "{{ groups }}").replace(str(LEAST), f"{{{{ {parameter} }}}}")
    lines = [line.rstrip() for line in filled.replace("AS TEXT)", "as {{ dbt.type_string() }})").splitlines()]
    return "\n".join(line for line in lines if line) + "\n"


def _read(column: str) -> str:
    return make_null(column, f"{cast_text(column)} = ''")


def _list_tables(of: str | None, *, people: bool) -> str:
    tables = count_values("shoal_cells", "shoal_counts", (GROUP,), of, people=people)
    return ",\n".join(f"{name} as (\n    {text}\n)" for name, text in tables)
