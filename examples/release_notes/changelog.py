"""Sections of a changelog in the form of Keep a Changelog, and what is to be said of their points."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

#: Longer points are hard to read in notes.
LONGEST_POINT = 300
_HEADING = re.compile(r"^## \[?([^\]\s]+)", re.MULTILINE)
_POINT = re.compile(r"^\* (.*(?:\n  .*)*)", re.MULTILINE)
#: Up to a colon, a semicolon or a bracket that stands in no code.
_BEGINNING = re.compile(r"(?:`[^`]*`|[^`:;(])*")
_PATH = re.compile(r"`((?:docs|examples|schemas|topics|tools)/[\w./-]*)`")


class NoSuchSection(LookupError):
    """A changelog has no section of this version."""

    def __init__(self, version: str, found: Iterable[str]) -> None:
        super().__init__(f"the changelog has no section {version}; it has {', '.join(found)}")


def points_of(changelog: str, version: str) -> list[str]:
    """Return the points of a version's section, each on one line. Raises NoSuchSection."""
    headings = list(_HEADING.finditer(changelog))
    for heading, after in zip(headings, [*headings[1:], None], strict=True):
        if heading[1] == version:
            section = changelog[heading.end() : after.start() if after else None]
            return [" ".join(point.split()) for point in _POINT.findall(section)]
    raise NoSuchSection(version, (heading[1] for heading in headings))


def missing_paths(points: Iterable[str], root: Path) -> Iterator[str]:
    """Yield a remark for each path that a point names and the tree does not have."""
    for point in points:
        for path in _PATH.findall(point):
            if not (root / path).exists():
                yield f"{path} does not exist"


def hard_to_read(points: Iterable[str]) -> Iterator[str]:
    """Yield a remark for each point that is too long."""
    for point in points:
        if len(point) > LONGEST_POINT:
            yield f"{len(point)} characters are more than {LONGEST_POINT}: {shortened(point)}"


def shortened(point: str) -> str:
    """Return the beginning of a point: up to its first colon, semicolon or bracket."""
    beginning = _BEGINNING.match(point)
    return (beginning[0] if beginning else point).strip().rstrip(".")
