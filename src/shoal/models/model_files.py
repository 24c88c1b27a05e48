"""Files of models: JSON and skops files of releases, skops files of scikit-learn models, and trusted pickle files."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

from shoal.errors import DataError, EngineError, list_some
from shoal.formats.checked_json import read_object, read_text, report_damage
from shoal.mining.cluster_model import FORMAT as CLUSTERS
from shoal.mining.cluster_model import ClusterModel
from shoal.mining.itemsets import Rules
from shoal.mining.rule_frames import read_plain, to_plain
from shoal.mining.tree_model import TreeModel

RULES_FILE = "rules.json"
PICKLES = (".joblib", ".pkl", ".pickle")
TRUSTED = (  # beside the types that skops itself trusts; the arrays of a tree are checked before their use
    "numpy.dtype",
    "shoal.models.published_clusters.PublishedClusters",
    "shoal.models.published_tree.PublishedTree",
    "sklearn.tree._tree.Tree",
)
CHOICES = "a .skops file, a model.json file, or the public folder of a model release"


def write_json(model: TreeModel | ClusterModel, path: Path) -> None:
    """Write a model as ``model.json``."""
    path.write_text(format_json(model.to_dict()), encoding="utf-8", newline="\n")


def format_json(content: dict[str, Any]) -> str:
    """A model as JSON text, with a line for every column, and for every node or cluster."""
    lines = []
    for name, value in content.items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, list) and any(isinstance(item, dict) for item in value):
            text = "[\n" + ",\n".join(f"  {json.dumps(item, ensure_ascii=False)}" for item in value) + "\n ]"
        elif isinstance(value, dict) and value:
            items = [
                f"  {json.dumps(k, ensure_ascii=False)}: {json.dumps(v, ensure_ascii=False)}" for k, v in value.items()
            ]
            text = "{\n" + ",\n".join(items) + "\n }"
        lines.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read_json(path: Path) -> TreeModel | ClusterModel:
    """Read a model from ``model.json``; `DataError` for a damaged file."""
    with report_damage(path, "model", f"Pass {CHOICES}."):
        found = read_object(read_text(path))
        return (ClusterModel if found.get("format") == CLUSTERS else TreeModel).from_dict(found)


def write_rules_file(rules: Rules, path: Path) -> None:
    """Write association rules as ``rules.json``."""
    path.write_text(format_json(to_plain(rules)), encoding="utf-8", newline="\n")


def read_rules_file(path: Path) -> Rules:
    """Read association rules from ``rules.json``; `DataError` for a damaged file."""
    with report_damage(path, "file of rules", f"Pass {CHOICES}."):
        return read_plain(read_object(read_text(path)))


def write_skops(model: Any, path: Path) -> None:
    """Write a model as a skops file."""
    _import_skops().dump(model, path)


def load_model(path: str | Path, *, trust: bool = False) -> Any:
    """Load a model from a file.

    Parameters
    ----------
    path : a ``.skops`` file, a ``model.json`` file, the public folder of a model release, or a joblib or pickle file; a
        ``rules.json`` file, or its folder, gives `Rules`
    trust : load joblib and pickle files, and skops files with types that are not known to be safe. Such a file can run any code
        of its author when it is loaded
    """
    file = Path(path)
    for name in ("model.json", RULES_FILE):
        if file.is_dir() and (file / name).is_file():
            file = file / name
    if not file.is_file():
        raise DataError(f"there is no file {str(path)!r}. Pass {CHOICES}.")
    kind = file.suffix.lower()
    if file.name == RULES_FILE:
        return read_rules_file(file)
    if kind == ".json":
        return read_json(file)
    if kind == ".skops":
        return _load_skops(file, trust=trust)
    if kind not in PICKLES:
        raise DataError(
            f"cannot load a model from {file.name!r}: files of the type {kind!r} are not known. Pass {CHOICES}."
        )
    if not trust:
        raise DataError(
            f"{file.name!r} is a {kind[1:]} file, which can run any code of its author when it is loaded. It was not loaded. "
            "Save the model with skops.io.dump, or, if you trust its author, use --trust (in Python: trust=True)."
        )
    return _load_pickle(file)


def _load_skops(file: Path, *, trust: bool) -> Any:
    skops = _import_skops()
    try:
        unknown = [name for name in skops.get_untrusted_types(file=file) if name not in TRUSTED]
        if unknown and not trust:
            raise DataError(
                f"{file.name!r} holds types that are not known to be safe, so it was not loaded: {list_some(sorted(unknown))}. "
                "If you trust its author, use --trust (in Python: trust=True)."
            )
        return skops.load(file, trusted=[*TRUSTED, *unknown])
    except DataError:
        raise
    except Exception as error:  # a damaged or hostile file can fail anywhere
        raise DataError(
            f"{file.name!r} is no valid skops file ({type(error).__name__}). Save the model again."
        ) from error


def _load_pickle(file: Path) -> Any:
    try:
        if file.suffix.lower() == ".joblib":
            import joblib

            return joblib.load(file)
        with file.open("rb") as content:
            return pickle.load(content)  # noqa: S301  the user trusts the author
    except Exception as error:
        raise DataError(
            f"{file.name!r} cannot be loaded ({type(error).__name__}: {error}). Save the model again."
        ) from error


def _import_skops() -> Any:
    try:
        import skops.io
    except ModuleNotFoundError as error:
        raise EngineError('skops files need the package skops. Install it with: pip install "shoal[models]"') from error
    return skops.io
