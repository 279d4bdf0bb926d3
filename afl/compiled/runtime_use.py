"""The form of a compiled program in which the runtime itself answers or repeats something: older releases refuse it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from afl.compiled.program import CompiledProgram
from afl.compiled.runtime_mixins import RETRY
from afl.compiled.text import LIBRARY_SCHEMA_VERSION

Json = dict[str, Any]

_MIXINS = frozenset({"MixinSig", "MixinCall"})


def says_its_form(document: Json) -> Json:
    """Return a program with the schemaVersion of those that releases without the library would misread."""
    return {"type": document["type"], "schemaVersion": LIBRARY_SCHEMA_VERSION, **document}


def has_runtime_retry(document: Json) -> bool:
    """Say whether a program has a `Retry` by its short name which no facet of the program is."""
    names = CompiledProgram(document).names

    def is_unknown(namespace: str, uses: Sequence[str]) -> bool:
        found = names.resolve(RETRY, namespace, uses)
        return found.found is None and not found.candidates

    for child in document.get("declarations") or ():
        space, uses = (child["name"], child.get("uses") or ()) if child["type"] == "Namespace" else ("", ())
        if is_unknown(space, uses) and any(_retries(child)):
            return True
    return False


def _retries(node: object) -> Iterator[bool]:
    if isinstance(node, dict):
        if node.get("target") == RETRY and node["type"] in _MIXINS:
            yield True
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from _retries(item)
