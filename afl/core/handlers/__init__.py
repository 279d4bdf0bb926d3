"""Handlers and how they are called: pollers of a store and agents of topics load and call them in this one way.

This package belongs to neither side: it imports nothing of `afl` or `afl_stream`, and both import it.
"""

from __future__ import annotations

from afl.core.handlers.calling import Deferred, Handler, HandlerOver
from afl.core.handlers.modules import HandlerModuleError

__all__ = ["Deferred", "Handler", "HandlerModuleError", "HandlerOver"]

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "allowed_modules",
    "calling",
    "context",
    "loops",
    "modules",
    "outcomes",
    "pool",
    "registration",
    "retry",
    "returned",
    "routes",
    "stuck_handlers",
    "typed",
)
