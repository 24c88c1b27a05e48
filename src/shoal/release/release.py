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
from shoal.release.artifact import Artifact, SaveOptions, TableArtifact
from shoal.release.buckets import BucketArtifact
from shoal.release.ledger import Ledger
from shoal.release.store import HAS_MODES, NO_MODES, save_release
from shoal.report import PathPlot, Summary, explain, note_alternative, note_categories, render_release
from shoal.requirements import Certificate
from shoal.secret import GUESSABLE, ONE_RELEASE, is_guessable


@dataclass(frozen=True)
class Release:
    """An anonymized table that passed its audit, with its certificate. `save` writes it to a public and an owner folder.

    Publish the files of the public folder, not ``frame``: its rows have the order of the input. ``recoding``, ``seed``,
    ``path``, ``notes`` and the complete ``measures`` are for the owner only: they can reveal raw values or help an attacker.

    Attributes
    ----------
    policy : the policy of the release
    certificate : the audited result: every requirement with the value reached
    measures : information loss, information kept, re-identification risk and other figures, by name
    recoding : the rules by which values were generalized; ``recoding.apply`` applies them to later data. None for an
        artifact without such rules
    method, parameters : the method's name and its parameters
    dropped : the columns of the input that are not released
    artifact : what is released: a table in an engine
    path : the search path of methods that generalize or specialize step by step, such as tds, otherwise None
    seed : the secret seed, which decides ties between records and random draws
    prior : the ledger of earlier releases, if new records were released with an earlier recoding
    method_notes : notes of the method for the owner
    owner_sections : sections of the method in the owner's report, as HTML
    remake : repeats the run with another seed; None if the user passed a seed
    """

    policy: Policy
    certificate: Certificate
    measures: Measures
    recoding: Recoding | None
    method: str
    parameters: Mapping[str, Any]
    dropped: tuple[str, ...]
    artifact: Artifact
    path: shoal.recoding.search_path.SearchPath | None = None
    seed: int = field(default=0, repr=False)
    prior: Ledger | None = field(default=None, repr=False)
    method_notes: tuple[str, ...] = field(default=(), repr=False)
    owner_sections: str = field(default="", repr=False)
    remake: Callable[..., Release] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def frame(self) -> Any:
        """The released table: the kind of frame and the row order of the input, without suppressed records."""
        return self.engine.frame()

    @cached_property
    def sensitive(self) -> Any:
        """The counts of the sensitive values by bucket, for a release in buckets; otherwise None."""
        return self.artifact.frame_sensitive() if isinstance(self.artifact, BucketArtifact) else None

    @property
    def engine(self) -> Engine:
        """The engine that holds the released table."""
        if not isinstance(self.artifact, TableArtifact):
            raise PolicyError(f"this release is not a table but a {type(self.artifact).__name__}.")
        return self.artifact.engine

    def __repr__(self) -> str:
        kept = f", information kept {1 - self.measures['ncp']:.1%}" if "ncp" in self.measures else ""
        return f"{repr(self.certificate).replace('Certificate', 'Release', 1)[:-1]}{kept})"

    def _repr_html_(self) -> str:
        return render_release(self.summary(), self.dropped)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the owner; they are not published."""
        guessable = (GUESSABLE,) if is_guessable(self.seed) else ()
        once = (ONE_RELEASE,) if isinstance(self.artifact, TableArtifact) else ()
        first = (*self._note_alternative(), *once) if self.prior is None else ()
        return (
            *self.method_notes,
            *self._note_certain(),
            *self._note_ends(),
            *guessable,
            *first,
            *(() if HAS_MODES else (NO_MODES,)),
        )

    def _note_certain(self) -> tuple[str, ...]:
        """A note on the records whose sensitive value everybody can know, and on the requirement that prevents this."""
        records = int(self.measures.get("certain", 0))
        if not records:
            return ()
        many = "1 record is" if records == 1 else f"{records:,} records are"
        needed = " and ".join(f"'l-diversity: {{l: 2, of: {name}}}'" for name in self.policy.sensitive)
        return (
            f"{many} in groups in which all records have the same sensitive value. Whoever knows that a person is in such a "
            f"group knows the value. Add {needed} to 'require' to prevent this.",
        )

    def _note_ends(self) -> tuple[str, ...]:
        """A note on ranges that end at the value of a single record."""
        labels = int(self.measures.get("unique_ends", 0))
        if not labels:
            return ()
        many = "1 label of a range ends" if labels == 1 else f"{labels:,} labels of ranges end"
        return (f"{many} at a value that occurs once in the source. 'round' in the policy moves the ends of a column.",)

    def _note_alternative(self) -> tuple[str, ...]:
        """A note on a method that keeps more information; empty for engines of tables larger than memory."""
        if not isinstance(self.artifact, TableArtifact) or self.artifact.engine.takes_limits:
            return ()
        ncp, columns = self.measures.get("ncp", 0.0), self.measures.columns
        given = (self.method, self.parameters, self.policy, self.certificate)
        return note_categories(*given, columns) or note_alternative(*given, ncp)

    def summary(self) -> Summary:
        """A short overview of certificate and measures; it contains no values of single records."""
        return Summary(self.certificate, self.measures, self.method, dict(self.parameters), self.notes)

    def plot_path(self) -> PathPlot:
        """Plot the search path: smallest group against information kept, step by step. For the owner only.

        Notebooks show the plot; ``.save("path.svg")`` and ``.save("path.html")`` write it. Its tooltips contain raw values.
        Raises `PolicyError` if the method records no search path.
        """
        return PathPlot(self._require_path())

    def explain(self) -> str:
        """Describe the search path as text: every step with its score, and why the search stopped. For the owner only.

        The text contains raw values, including values that the release generalizes. Raises `PolicyError` if the method records
        no search path.
        """
        return explain(self._require_path())

    def _require_path(self) -> shoal.recoding.search_path.SearchPath:
        if self.path is None and self.parameters.get("improve"):
            raise PolicyError("with improve=True there is no search path. Remove improve=True to get the search path.")
        if self.path is None:
            raise PolicyError(
                f"{self.method} records no search path. Use a method that generalizes or specializes values step by step: tds "
                "or bottom-up."
            )
        return self.path

    def save(
        self,
        path: str | Path,
        *,
        format: Format | None = None,
        overwrite: bool = False,
        escape_formulas: bool = True,
        like_input: bool = False,
        table: str | None = None,
        range_types: bool = False,
    ) -> Path:
        """Write the public folder ``path`` and the owner folder ``path.owner``; return the path of the public folder.

        The *public folder* is for recipients: the table, ``certificate.json``, ``policy.yaml`` without trees derived from the
        data, ``report.html``. The *owner folder* (mode 700) must stay with the owner: the recoding, the secret seed and the
        full measures (``ledger.json``), the groups of all releases so far (``groups.json``), the full policy, a report with
        all measures, and the search path if there is one. Never publish the owner folder.

        Parameters
        ----------
        path : the public folder to create
        format : ``csv`` or ``parquet`` (default: the format of the input; CSV for frames)
        overwrite : replace an earlier release at this path
        escape_formulas : in CSV, write an apostrophe before texts that a spreadsheet program would run as formulas. Shoal
            removes it when it reads the file; a note in ``certificate.json`` counts these cells
        like_input : write a CSV file with the delimiter and the encoding of the input, and single numbers and dates with its
            decimal separator and date format. Labels of ranges and sets stay as they are. ``policy.yaml`` and
            ``certificate.json`` say how the table is written
        table : write the released table to a new table of this name in the database of the input, instead of a file. The name
            may have a schema: ``open.patients``. The table appears together with the folders, and ``overwrite`` replaces only
            a table that Shoal wrote
        range_types : with ``table``: columns whose labels are ranges get the range types of PostgreSQL

        Guarantee
        ---------
        The order of the written rows does not depend on the order of the input. The table is read back from its file and
        audited again; only then do both complete folders appear at their paths. After a failure the earlier folders are
        unchanged. If an earlier process was killed while saving, its temporary files are removed and the release that it was
        replacing is restored.

        If the release overwrites an earlier release with the same policy and no seed was passed, the secret seed of the
        earlier release is used again: the method runs once more, and this object becomes the new release. Otherwise a
        recipient of both tables could intersect two different groupings of the same people.
        """
        options = SaveOptions(format, escape_formulas, like_input, table, range_types)
        return save_release(self, path, options, overwrite=overwrite)

    def reuse_secret(self, seed: int | None) -> None:
        """Run the method again with this secret seed, and become that release."""
        if seed is None or seed == self.seed or self.remake is None:
            return
        try:
            other = self.remake(seed=seed)
        except (DataError, EngineError) as error:
            raise EngineError(
                "the release to be overwritten has another secret seed. The method must run again with that seed, but its "
                "input is no longer available. Call anonymize again and pass the owner folder of the earlier release: "
                "secret='….owner'."
            ) from error
        for attribute in fields(self):
            object.__setattr__(self, attribute.name, getattr(other, attribute.name))
        for shown in ("frame", "sensitive"):
            self.__dict__.pop(shown, None)
