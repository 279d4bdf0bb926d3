"""The declarations of the library, read from its text once, and those of them that a program uses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from afl import ast
from afl.source import FileOrigin
from afl.syntax.parser import TextParser, read_source

#: The namespace that the library declares its names in. A program may open it too, for other names.
NAMESPACE: Final = "afl"
PREFIX: Final = NAMESPACE + "."

#: The text. It is a file, so that an editor can open it where a name of it is declared.
PATH: Final = Path(__file__).resolve().with_name("afl.afl")
SOURCE_ID: Final = FileOrigin(str(PATH)).to_source_id()


@cache
def library_text() -> str:
    """Return the text of the library."""
    return read_source(PATH)


@cache
def library_tree() -> ast.Program:
    """Return the tree of the library: one namespace. Its places carry SOURCE_ID."""
    return TextParser().parse(library_text(), source_id=SOURCE_ID)


@cache
def library() -> Mapping[str, ast.Callable]:
    """Return the declarations of the library by their short names, in the order of the text."""
    (namespace,) = library_tree().namespaces
    declared: list[ast.Callable] = [*namespace.event_facets, *namespace.facets]
    return {item.sig.name: item for item in declared}


def reaches_library(name: str, namespace: str, uses: Collection[str]) -> bool:
    """Say whether a name that is written in a namespace with these `use` lines may be one of the library."""
    if "." in name:
        return name.startswith(PREFIX)
    return namespace == NAMESPACE or NAMESPACE in uses
