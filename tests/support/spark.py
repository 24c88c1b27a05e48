"""One Spark session for all tests that need one, with two workers as threads; tests skip where Spark cannot start."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import sys
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # tests end before more pays off
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",  # generating code takes longer than small queries
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",  # it plans a query anew after each of its stages
    "spark.sql.session.timeZone": "Asia/Tokyo",  # no result may depend on it
}


def find_obstacle() -> str | None:
    """Why Spark cannot start here; None if it can."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed (extra 'spark')"
    home = os.environ.get("JAVA_HOME")
    if not shutil.which("java") and not (home and shutil.which("java", path=f"{home}/bin")):
        return "Java is not installed; `make test-engines` installs openjdk-17-jre-headless"
    return None


def require_spark() -> Any:
    """Return the session of all tests, or skip the test."""
    if obstacle := find_obstacle():
        pytest.skip(obstacle)
    return start("local[2]")


@functools.cache
def start(master: str) -> Any:
    """Start Spark; one process has one session."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        builder = SparkSession.builder.master(master).appName("tests")
        folder = Path(tempfile.mkdtemp(prefix="shoal-spark-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        for key, value in {**SETTINGS, "spark.sql.warehouse.dir": str(folder)}.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
