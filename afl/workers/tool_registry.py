"""Handlers by facet name, in one process: found by the qualified name, else the short one, else the default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from afl.core.handlers.calling import Handler, short_name

__all__ = ["DefaultHandler", "Handler", "ToolRegistry", "short_name"]

#: A handler takes the facet's name and the payload.
DefaultHandler: TypeAlias = Callable[[str, dict[str, Any]], Any]


class ToolRegistry:
    """The handlers that `RunnerService` and `ClaudeAgentRunner` call, by facet."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self._default: DefaultHandler | None = None

    def register(self, event_type: str, handler: Handler) -> None:
        """Handle a facet, by its qualified name or by its short one; the last registration wins."""
        self._handlers[event_type] = handler

    def set_default_handler(self, handler: DefaultHandler) -> None:
        """Handle every facet that has no handler of its own."""
        self._default = handler

    def registered_names(self) -> list[str]:
        """Return the names that have a handler of their own."""
        return list(self._handlers)

    def find(self, event_type: str) -> Handler | None:
        """Return the facet's own handler, by its name or its short name."""
        found = self._handlers.get(event_type)
        return found if found is not None else self._handlers.get(short_name(event_type))

    def has_handler(self, event_type: str) -> bool:
        """Say whether the facet has a handler, the default included."""
        return self.find(event_type) is not None or self._default is not None

    def handle(self, event_type: str, payload: dict[str, Any]) -> Any:
        """Call the facet's handler and return its result; None without a handler."""
        handler = self.find(event_type)
        if handler is not None:
            return handler(payload)
        return None if self._default is None else self._default(event_type, payload)
