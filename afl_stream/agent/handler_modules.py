"""Handler modules: what `--handlers MODULE` means, and what can be registered about a handler.

Modules and their three forms are the business of `afl.core.handlers`. A plain `handle` cannot know its facets. They are
those of the argument (`--handlers shop.billing=billing.Pay,billing.Void`; another function is named as in
`--handlers shop.billing:refund=billing.Refund`), else those that the module names, else those of `--facet`. None of the
three is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from afl.core.handlers.calling import Handler
from afl.core.handlers.modules import (
    DEFAULT_ENTRYPOINT,
    HandlerModuleError,
    HandlerRegistrar,
    HandlersArgument,
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
class HandlerRegistration:
    """The function that handles a facet. `timeout_ms` None: no time limit."""

    facet_name: str
    module_uri: str
    entrypoint: str = DEFAULT_ENTRYPOINT
    version: str = "1.0.0"
    checksum: str = ""
    timeout_ms: int | None = None
    requirements: tuple[str, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)
