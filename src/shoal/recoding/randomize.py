"""`Randomize`: an operator that changes the values of every record at random. It stays in the owner folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np

from shoal import kernels
from shoal.arrays import FloatArray, Int32Array, Int64Array
from shoal.errors import DataError
from shoal.formats.checked_json import array, member, objects, refuse_unknown, require
from shoal.recoding.field import Field
from shoal.recoding.protocol import BaseRecoding, LaterData, Output
from shoal.recoding.selection import SelectionOperator
from shoal.recoding.serialization import HEAD, head_from_dict, head_to_dict
from shoal.requirements.operator import Inference, Operator, RandomNumbers, Transition

MOST_PAIRS = 1_000_000_000


@dataclass(frozen=True)
class IndependentOperator:
    """An operator that randomizes each attribute independently of the others, such as post-randomization (PRAM)."""

    transitions: Mapping[str, Transition]

    @property
    def attributes(self) -> tuple[str, ...]:
        """The randomized quasi-identifiers."""
        return tuple(self.transitions)

    def transition(self, attribute: str) -> Transition:
        """The probabilities of one attribute."""
        return self.transitions[attribute]

    def randomize(self, rows: Int32Array, uniform: RandomNumbers) -> Int32Array:
        """The published codes; attribute j uses the j-th random number of every record."""
        columns = []
        for j, transition in enumerate(self.transitions.values()):
            cumulative = np.cumsum(np.atleast_2d(transition.draw), axis=1)
            codes = np.ascontiguousarray(rows[:, j])
            columns.append(kernels.randomize.draw_codes(codes, uniform(j), transition.keep, cumulative))
        return np.stack(columns, axis=1).astype(np.int32)

    def measure_choices(self, shares: Mapping[str, FloatArray]) -> float:
        """The entropy of the decisions and draws of all attributes."""
        total = 0.0
        for name, transition in self.transitions.items():
            drawn = np.atleast_2d(transition.draw)
            entropy = -(drawn * np.log(np.where(drawn > 0, drawn, 1.0))).sum(axis=1)
            both = np.stack([transition.keep, 1 - transition.keep])
            decision = -(both * np.log(np.where(both > 0, both, 1.0))).sum(axis=0)
            total += float((shares[name] * (decision + (1 - transition.keep) * entropy)).sum())
        return total

    def infer(self, quasi: Int32Array, size: Int64Array, published: Int32Array) -> Inference:
        """The most probable original of every published combination, by comparing all pairs."""
        if len(quasi) * len(published) > MOST_PAIRS:
            raise DataError(
                f"the posterior of independent changes needs {len(quasi) * len(published):,} comparisons of combinations; "
                f"at most {MOST_PAIRS:,} are made. Remove the requirement, or use fewer quasi-identifiers."
            )
        matrices = [t.matrix() for t in self.transitions.values()]
        posterior, guess = np.zeros(len(published)), np.zeros(len(published), np.int64)
        amplification = np.ones(len(published))
        for i, row in enumerate(published):
            probability = np.ones(len(quasi))
            for j, matrix in enumerate(matrices):
                probability = probability * matrix[quasi[:, j], row[j]]
            weight = probability * size
            guess[i] = int(np.argmax(weight))
            if weight[guess[i]] > 0:
                posterior[i] = weight[guess[i]] / weight.sum()
                amplification[i] = probability.max() / probability[probability > 0].min()
        return Inference(posterior, guess, amplification)

    def to_dict(self) -> dict[str, Any]:
        """The probabilities of each attribute as lists."""
        return {
            name: {"keep": t.keep.tolist(), "draw": np.atleast_2d(t.draw).tolist()}
            for name, t in self.transitions.items()
        }


@dataclass(frozen=True)
class Randomize(BaseRecoding):
    """The recoding of a randomized release: its operator, and the published label of every code, by attribute.

    Together with the secret seed, the operator can undo part of the randomization.
    """

    fields: tuple[Field, ...]
    output: Output
    operator: Operator
    labels: tuple[tuple[str | None, ...], ...]

    kind: ClassVar[str] = "randomize"
    accepts_later_data: ClassVar[bool] = False

    def apply(self, data: Any, *, nearest: bool = False) -> NoReturn:
        """Refuse later data: `DataError`."""
        raise DataError(
            "a randomized release has no rule for later data. Randomize all records together, with the method that made the "
            "release."
        )

    def place(self, later: LaterData) -> NoReturn:
        """Refuse later data: `DataError`."""
        self.apply(later)

    def to_json(self) -> str:
        """The recoding as JSON text."""
        of_name = dict(zip(self.operator.attributes, map(list, self.labels), strict=True))
        attributes = [{"name": n, "labels": of_name[n], **found} for n, found in self.operator.to_dict().items()]
        replaced = {"replaced": self.operator.replaced} if isinstance(self.operator, SelectionOperator) else {}
        return json.dumps({**head_to_dict(self), **replaced, "attributes": attributes}, ensure_ascii=False)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Randomize:
        """Read a recoding from the content of its JSON file."""
        refuse_unknown(found, (*HEAD, "replaced", "attributes"))
        fields, output = head_from_dict(found)
        entries = {entry.get("name"): entry for entry in objects(found, "attributes")}
        require([f.name for f in fields] == list(entries), "its attributes differ from its columns")
        transitions, labels = {}, []
        for name, entry in entries.items():
            keep = array(entry, "keep", np.float64, (None,))
            draw = array(entry, "draw", np.float64, (None, len(keep)))
            labels.append(tuple(member(entry, "labels", list)))
            require(
                len(labels[-1]) == len(keep) and all(text is None or isinstance(text, str) for text in labels[-1]),
                f"the labels of {name!r} must be one text for each value",
            )
            try:
                transitions[str(name)] = Transition(keep, draw)
            except ValueError as error:
                require(False, f"the probabilities of {name!r} are invalid: {error}")
        if "replaced" not in found:
            return cls(fields, output, IndependentOperator(transitions), tuple(labels))
        replaced = member(found, "replaced", int)
        require(1 <= replaced <= len(fields), "'replaced' must be a number of attributes")
        shares = tuple(np.atleast_2d(t.draw)[0] for t in transitions.values())
        chosen = np.array([1 - float(t.keep[0]) if len(t.keep) else 0.0 for t in transitions.values()])
        operator = SelectionOperator(tuple(transitions), shares, chosen / replaced, replaced)
        return cls(fields, output, operator, tuple(labels))
