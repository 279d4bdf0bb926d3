"""Jars by name and digest: what Maven has brought is compared with it, and without Maven it says what to fetch."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from afl.core.text.exception_text import exception_line
from afl_stream.broker.errors import PinsNotKept

_THREADS: Final = 8
_TIMEOUT_S: Final = 60
_SHOWN: Final = 3


class Pin(NamedTuple):
    """One jar: its place in Maven Central, and the SHA-256 of its bytes."""

    sha256: str
    group: str
    artifact: str
    version: str

    @property
    def file_name(self) -> str:
        """The name under which Maven keeps it."""
        return f"{self.artifact}-{self.version}.jar"

    def __str__(self) -> str:
        return f"{self.sha256}  {self.group}:{self.artifact}:{self.version}"


def pins_beside(pom: Path) -> list[Pin]:
    """Return the pins of the jars that a pom.xml names; none where there is no such file."""
    path = pom.with_suffix(".sha256")
    if not path.is_file():
        return []
    lines = (line.split() for line in path.read_text().splitlines() if not line.startswith("#"))
    return [Pin(sha256, *place.split(":")) for sha256, place in lines]


def check(libraries: Path, pins: Sequence[Pin]) -> None:
    """Raise PinsNotKept unless the folder holds the pinned jars and no others."""
    expected = {pin.file_name: pin.sha256 for pin in pins}
    found = {path.name: _digest(path) for path in libraries.glob("*.jar")}
    wrong = sorted(name for name in {*expected, *found} if expected.get(name) != found.get(name))
    if wrong:
        others = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise PinsNotKept(f"not the jars that are pinned: {', '.join(wrong[:_SHOWN])}{others}")


def fetch(pins: Iterable[Pin], libraries: Path, scratch: Path) -> None:
    """Fetch the pinned jars into the folder `libraries`, on the way through `scratch`. Raises PinsNotKept."""
    if importlib.util.find_spec("jgo") is None:
        raise PinsNotKept(
            "`pip install 'afl-stream[broker]'` brings what fetches them, and so does Maven (mvn) on PATH"
        )
    from jgo.maven import MavenContext

    context = MavenContext(repo_cache=scratch, timeout=_TIMEOUT_S)

    def fetched(pin: Pin) -> None:
        jar = context.project(pin.group, pin.artifact).at_version(pin.version).artifact().resolve()
        jar.replace(libraries / pin.file_name)

    libraries.mkdir()
    with ThreadPoolExecutor(_THREADS) as threads:
        try:
            list(threads.map(fetched, pins))
        # The library names no errors of its own: whatever it is, the jars are not there.
        except (OSError, RuntimeError, ValueError) as error:
            threads.shutdown(cancel_futures=True)
            raise PinsNotKept(exception_line(error)) from error


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
