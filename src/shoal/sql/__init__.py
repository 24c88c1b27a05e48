"""SQL text for databases: the query of `shoal check`, recodings, and a dbt package. Nothing here runs a query."""

from shoal.sql.check_query import check_query
from shoal.sql.dbt_package import dbt_package, write_dbt_package
from shoal.sql.dialects import DIALECTS
from shoal.sql.recoding_query import recoding_query

__all__ = ["DIALECTS", "check_query", "dbt_package", "recoding_query", "write_dbt_package"]
