"""Jars from Maven Central, kept outside the tree: fetched once, then there offline."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from afl_stream.broker import pins
from afl_stream.broker.errors import JarsMissing, PinsNotKept

KAFKA_POM = Path(__file__).with_name("pom.xml")

_POM = "{http://maven.apache.org/POM/4.0.0}"
_FETCH_TIMEOUT_S = 300


def cache_root() -> Path:
    """Return the folder under which jars are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "afl-stream"


def jars_of(pom: Path) -> Path:
    """Return the folder that holds the jars of this pom.xml, fetched when they are not there yet.

    Steps:
      1. take the lock of the folder, so that of two callers at once one fetches and the other waits,
      2. let Maven, or without it the library that the extra broker brings, put the jars into a temporary folder beside
         it, and compare them with the pins of this pom.xml,
      3. rename that folder to its name.

    A crash before 3 leaves a temporary folder that no one uses; the folder itself is whole or not there.
    Raises JarsMissing when neither is there, when they cannot be fetched, or are not the pinned ones.
    """
    folder = cache_root() / _folder_name(pom)
    libraries = folder / "libs"
    if libraries.is_dir():
        return libraries
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        if not libraries.is_dir():
            _fetch(pom, libraries)
    return libraries


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file at `path`, across processes and threads; it is let go when its holder dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def are_fetched(pom: Path) -> bool:
    """Whether the jars of this pom.xml are in the cache."""
    return (cache_root() / _folder_name(pom) / "libs").is_dir()


def _folder_name(pom: Path) -> str:
    # The digest, because another version of a jar beside Kafka's is another folder too.
    text = pom.read_bytes()
    project = ElementTree.fromstring(text)
    name, version = project.findtext(f"{_POM}artifactId"), project.findtext(f"{_POM}version")
    return f"{name}-{version}-{hashlib.sha256(text).hexdigest()[:8]}"


def maven(wanted: Path) -> str:
    """Return the path of Maven, which is to bring what is `wanted`. Raises JarsMissing."""
    path = shutil.which("mvn")
    if path is None:
        raise JarsMissing(wanted, "Maven (mvn) is not on PATH; install it (Debian, Ubuntu: apt install maven)")
    return path


def _fetch(pom: Path, libraries: Path) -> None:
    with tempfile.TemporaryDirectory(dir=libraries.parent, prefix="fetching-") as scratch:
        fetched, pinned = Path(scratch) / "libs", pins.pins_beside(pom)
        try:
            # Maven first: it knows the mirrors of a company.
            if pinned and shutil.which("mvn") is None:
                pins.fetch(pinned, fetched, Path(scratch) / "repository")
            else:
                _copy_by_maven(pom, fetched, libraries)
            if pinned:
                pins.check(fetched, pinned)
        except PinsNotKept as error:
            raise JarsMissing(libraries, str(error)) from error
        fetched.rename(libraries)


def _copy_by_maven(pom: Path, fetched: Path, libraries: Path) -> None:
    command = [maven(libraries), "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={fetched}"]
    try:
        run = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_FETCH_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise JarsMissing(libraries, f"Maven did not finish within {_FETCH_TIMEOUT_S} s") from None
    if run.returncode != 0 or not any(fetched.glob("*.jar")):
        raise JarsMissing(libraries, f"Maven said:\n{_tail(run.stdout)}")


def _tail(text: str, lines: int = 12) -> str:
    return "\n".join(text.splitlines()[-lines:])
