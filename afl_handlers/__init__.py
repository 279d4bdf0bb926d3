"""What a handler is, whoever calls it: pollers of a store and agents of topics load and call handlers in this one way.

Belongs to neither side: it imports nothing of `afl` and nothing of `afl_stream`, and both import it.
"""

from __future__ import annotations

from afl_handlers.calling import Deferred, Handler, HandlerOver
from afl_handlers.modules import HandlerModuleError

__all__ = ["Deferred", "Handler", "HandlerModuleError", "HandlerOver"]
