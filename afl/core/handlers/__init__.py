"""What a handler is, whoever calls it: pollers of a store and agents of topics load and call handlers in this one way.

Belongs to neither side: it imports nothing of `afl` and nothing of `afl_stream`, and both import it.
"""

from __future__ import annotations

from afl.core.handlers.calling import Deferred, Handler, HandlerOver
from afl.core.handlers.modules import HandlerModuleError

__all__ = ["Deferred", "Handler", "HandlerModuleError", "HandlerOver"]
