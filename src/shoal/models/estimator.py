"""`AnonymousEstimator`: what the estimators of Shoal share: their training records, their policy, and their release."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from shoal.engines import Column, Engine, build_frame, open_data
from shoal.errors import DataError, RequirementNotMet
from shoal.measures import Measures
from shoal.models.artifact import ModelArtifact
from shoal.models.certificate import ModelCertificate
from shoal.policy import Policy
from shoal.release import Release
from shoal.requirements.requirement import parse_whole_number
from shoal.secret import new_seed

DEFAULT_K = 5
CONFIDENCE = 0.9
ONE_MODEL = "Publish only one model of these records: an attacker who has two different models can combine them."


class AnonymousEstimator(BaseEstimator, ABC):
    """A model that may be published. Without a policy, its input is an array or a frame of numbers."""

    policy: Policy | None
    policy_: Policy
    certificate_: ModelCertificate
    n_features_in_: int

    def release(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the model to a public folder, and private figures to the owner folder ``path.owner``; return the public folder.

        The *public folder* has ``model.json``, ``model.skops``, ``certificate.json``, ``policy.yaml`` and ``report.html``. The
        *owner folder* (mode 700) has the spans, the full policy and a report with the spans. Never publish the owner folder.
        The written model is read back and audited with the training records before the folders appear.

        Raises `DataError` if the model was loaded from a file: it then has no training records. Fit it again.
        """
        check_is_fitted(self)
        training = getattr(self, "_training", None)
        if training is None:
            raise DataError(
                "the model has no training records, because it was copied or loaded. Fit it again to release it."
            )
        found = self.certificate_
        certain = (
            (f"{found.certain:,} records have a private value that is certain. To prevent this, require l-diversity.",)
            if found.certain
            else ()
        )
        release = Release(
            self.policy_,
            found,
            Measures({"records": found.records, "classes": found.groups, "smallest": found.smallest}, {}),
            None,
            type(self).__name__,
            {name: value for name, value in self.get_params().items() if name != "policy"},
            (),
            self._make_artifact(training),
            seed=new_seed(),
            method_notes=(*certain, ONE_MODEL),
        )
        return release.save(path, overwrite=overwrite)

    @abstractmethod
    def _make_artifact(self, training: Engine) -> ModelArtifact:
        """What a release of the model writes."""

    def _read_later(self, X: Any) -> Engine:
        """Later records as a table."""
        if self.policy is None:
            with as_data_error():
                return self._open_numbers(validate_data(self, X, dtype=np.float64, reset=False))
        return open_data(X, self.policy_.with_conventions())

    def _name_columns(self) -> list[str]:
        """The names of the columns, or x0, x1 and so on."""
        given = getattr(self, "feature_names_in_", None)
        return [f"x{j}" for j in range(self.n_features_in_)] if given is None else [str(name) for name in given]

    def _open_numbers(self, X: NDArray[np.float64]) -> Engine:
        return open_data(build_frame({n: Column(X[:, j]) for j, n in enumerate(self._name_columns())}, "pyarrow"))

    def _parse_limit(self, name: str) -> int | None:
        given = getattr(self, name)
        return None if given is None else parse_whole_number(given, name, 1)

    def __getstate__(self) -> dict[str, Any]:
        """The state for copies and files, without the training records and the spans, which are for the owner only."""
        state = dict(super().__getstate__())
        state.pop("_training", None)
        if "certificate_" in state:
            state["certificate_"] = state["certificate_"].public()
        return state


class TableFails(RequirementNotMet, ValueError):
    """The whole table fails the requirements; scikit-learn expects a `ValueError` for too few records."""


@contextmanager
def as_data_error() -> Iterator[None]:
    """Turn an error of scikit-learn about the values of X or y into a `DataError` with the same text."""
    try:
        yield
    except ValueError as error:
        raise DataError(str(error)) from error
