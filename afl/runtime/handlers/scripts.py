"""The script states. No program that the engine accepts has a script yet, so they pass."""

from __future__ import annotations

from afl.runtime.handlers.base import StateHandler


class FacetScriptsBeginHandler(StateHandler):
    """Pass."""


class FacetScriptsEndHandler(StateHandler):
    """Pass."""


class StatementScriptsBeginHandler(StateHandler):
    """A state that no table reaches."""


class StatementScriptsEndHandler(StateHandler):
    """A state that no table reaches."""
