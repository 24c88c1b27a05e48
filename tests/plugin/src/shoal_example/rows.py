"""An engine for rows as dictionaries: they are held in memory, and released as dictionaries again."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

from shoal.engines import Resources
from shoal.engines.memory import MemoryEngine


class RowsEngine(MemoryEngine):
    """A list of dictionaries with the same keys, or any data that the engine in memory opens."""

    name: ClassVar[str] = "example-rows"

    @classmethod
    def accepts(cls, data: Any) -> bool:
        """Whether the data are a list of dictionaries."""
        return isinstance(data, list) and bool(data) and isinstance(data[0], dict)

    @classmethod
    def open(cls, data: Any, resources: Resources | None = None) -> RowsEngine:
        """Open the rows as a table in memory."""
        table = pa.Table.from_pylist(data) if cls.accepts(data) else data
        opened = MemoryEngine.open(table, resources)
        return cls(opened.data, opened.from_file, opened.format)

    def frame(self) -> list[dict[str, Any]]:
        """Return the released rows as dictionaries."""
        return list(self.data.iter_rows(named=True))
