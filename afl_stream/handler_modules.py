"""What `--handlers MODULE` means, and what can be registered about a handler.

Modules and their three forms are `afl_handlers`' business. A plain `handle` cannot know its facets. They are those of
the argument (`--handlers shop.billing=billing.Pay,billing.Void`; another function is named as in
`--handlers shop.billing:refund=billing.Refund`), else those that the module names, else those of `--facet`. None of the
three is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from afl_handlers.calling import Handler
from afl_handlers.modules import (
    DEFAULT_ENTRYPOINT,
    FACET_NAME,
    FacetsUnknown,
    HandlerModuleError,
    HandlerRegistrar,
    ModuleLoader,
)

__all__ = [
    "DEFAULT_ENTRYPOINT",
    "Handler",
    "HandlerModuleError",
    "HandlerRegistrar",
    "HandlerRegistration",
    "HandlersArgument",
    "ModuleLoader",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlersArgument:
    """One `--handlers` argument, taken apart: `MODULE[:ENTRYPOINT][=FACET[,FACET...]]`."""

    module_uri: str
    entrypoint: str | None = None
    facets: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> HandlersArgument:
        """Take the argument apart. Raises FacetsUnknown when a part is empty or a facet name is none."""
        rest, equals, names = text.partition("=")
        facets = tuple(name.strip() for name in names.split(",")) if equals else ()
        for name in facets:
            if not FACET_NAME.match(name):
                raise FacetsUnknown(text, f"{name!r} is no facet name", "MODULE=namespace.Facet,namespace.Other")
        module_uri, colon, entrypoint = rest.rpartition(":")
        if not colon or not entrypoint.isidentifier():
            module_uri, entrypoint = rest, ""
        if not module_uri:
            raise FacetsUnknown(text, "no module is named", "a dotted path, a file:// URI or a path to a .py file")
        return cls(module_uri=module_uri, entrypoint=entrypoint or None, facets=facets)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerRegistration:
    """Which function handles a facet. `timeout_ms` None: as long as it takes."""

    facet_name: str
    module_uri: str
    entrypoint: str = DEFAULT_ENTRYPOINT
    version: str = "1.0.0"
    checksum: str = ""
    timeout_ms: int | None = None
    requirements: tuple[str, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)
