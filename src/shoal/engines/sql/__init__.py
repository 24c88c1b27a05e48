"""What SQL engines share: texts of queries, arrays for tables, and a base class. Nothing here imports a database.

`engine` is the base of engines that run SQL; `session` is what such an engine needs of its database. `keys` packs
the codes of a record into words, `partition_tree` splits a table that has too many cells, and `cell_groups` assigns records
to groups by joins. The texts are standard SQL, except for the operator of integer division (`Keys.divide`).
"""

from shoal.engines.sql.cell_groups import CellGroups, join_divided_cells, join_whole_cells, number_records, take_keys
from shoal.engines.sql.keys import (
    Keys,
    build_counts,
    quote_name,
    quote_text,
    select_keys,
)
from shoal.engines.sql.partition_tree import CodeTally, Region, partition_expression, split_cells, tally_query

__all__ = [
    "CellGroups",
    "CodeTally",
    "Keys",
    "Region",
    "build_counts",
    "join_divided_cells",
    "join_whole_cells",
    "number_records",
    "partition_expression",
    "quote_name",
    "quote_text",
    "select_keys",
    "split_cells",
    "take_keys",
    "tally_query",
]
