"""A release: public files, their certificate, and owner-only files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import shoal.recoding.search_path
from shoal.engines import Engine, Format
from shoal.errors import DataError, EngineError, PolicyError
from shoal.measures import Measures
from shoal.policy import Policy
from shoal.recoding import Recoding
from shoal.release.audit import AuditedTable
from shoal.release.ledger import Ledger
from shoal.release.store import save_release
from shoal.report import PathPlot, Summary, explain
from shoal.requirements import Certificate
from shoal.secret import GUESSABLE, is_guessable


@dataclass(frozen=True)
class Release:
    """What a method made of a table, after its check.

    ``frame`` is the released table as the kind of frame that came in, in its row order, suppressed records left out.
    ``path`` is the way that a method took which opens or closes values step by step, else None; ``seed`` the secret, on which
    ties among records and random draws depend; ``remake`` makes the release with another secret, where the user gave none;
    ``prior`` what was released before, where later records were released by the same recoding; ``audited``
    what a stranger counts in the table.
    """

    policy: Policy
    certificate: Certificate
    measures: Measures
    recoding: Recoding
    method: str
    parameters: Mapping[str, Any]
    dropped: tuple[str, ...]
    format: Format
    engine: Engine
    path: shoal.recoding.search_path.SearchPath | None = None
    seed: int = field(default=0, repr=False)
    prior: Ledger | None = field(default=None, repr=False)
    audited: AuditedTable | None = field(default=None, repr=False)
    method_notes: tuple[str, ...] = field(default=(), repr=False)
    remake: Callable[..., Release] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def frame(self) -> Any:
        """The released table."""
        return self.engine.frame()

    def __repr__(self) -> str:
        return f"Release({self.method}, {self.certificate.records} records in {self.certificate.groups} groups)"

    @property
    def notes(self) -> tuple[str, ...]:
        """What the owner should know; not for the public."""
        return (*self.method_notes, *((GUESSABLE,) if is_guessable(self.seed) else ()))

    def summary(self) -> Summary:
        """What a reader wants to know at a glance; nothing in it points at a person."""
        return Summary(self.certificate, self.measures, self.method, dict(self.parameters), self.notes)

    def plot_path(self) -> PathPlot:
        """The path as a picture: the smallest group against what is known, step by step, for the owner alone.

        A notebook shows it; ``.save("path.svg")`` and ``.save("path.html")`` write it. Its tooltips name raw values. Raises
        `PolicyError` where the method leaves no path.
        """
        return PathPlot(self._walked())

    def explain(self) -> str:
        """The path in plain words: every step, what it was worth, and why the rest was left; for the owner alone.

        The text names raw values, also such as the release hides. Raises `PolicyError` where the method leaves no path.
        """
        return explain(self._walked())

    def _walked(self) -> shoal.recoding.search_path.SearchPath:
        if self.path is None:
            raise PolicyError(
                f"{self.method} leaves no path; only methods that open or close values step by step, as tds and bottom-up "
                "do, leave one: choose such a method"
            )
        return self.path

    def save(
        self,
        path: str | Path,
        *,
        format: Format | None = None,
        overwrite: bool = False,
        escape_formulas: bool = True,
    ) -> Path:
        """Write what may leave to ``path``, and what must not to ``path`` + ``.owner`` (mode 700).

        Parameters
        ----------
        path : the folder to make
        format : ``csv`` or ``parquet``; that of the input unless given, and CSV for frames
        overwrite : replace an earlier release
        escape_formulas : in CSV, write an apostrophe before texts that a spreadsheet program would run as formulas. Shoal
            removes it when it reads the file; a note in ``certificate.json`` counts these cells

        Guarantee
        ---------
        The table is written in an order that does not follow the input, read back and checked again; only then do both
        folders appear, whole. A failure leaves what was there before. Where an earlier program was killed in this, what it
        left beside ``path`` is removed, and a release that it had moved away is put back first.

        Where an earlier release with the same policy is overwritten, its secret is used again, unless a seed was given: the
        release is made once more with that secret, and this object becomes that release. Otherwise whoever has both tables
        could intersect two groupings of the same people.
        """
        return save_release(self, path, format=format, overwrite=overwrite, escape_formulas=escape_formulas)

    def reuse_secret(self, seed: int | None) -> None:
        """Become the release that is made with this secret."""
        if seed is None or seed == self.seed or self.remake is None:
            return
        try:
            other = self.remake(seed=seed)
        except (DataError, EngineError) as error:
            raise EngineError(
                "the release that is overwritten was made with another secret, and this one cannot be made again with it, "
                "since its source is not there any more. Pass the owner's folder of that release to anonymize, as "
                "secret='….owner'."
            ) from error
        for known in fields(self):
            object.__setattr__(self, known.name, getattr(other, known.name))
        self.__dict__.pop("frame", None)
