"""An agent whose handlers are loaded again while it runs, as a person edits them."""

from __future__ import annotations

from collections.abc import Sequence

from afl.core.handlers.modules import ModuleLoader
from afl.core.handlers.routes import Route
from afl_stream.agent.agent import Agent


class ReloadingAgent(Agent):
    """Takes the handlers of its `--handlers` arguments anew when it is told to; else it is an Agent."""

    #: The routes of a reload under way; None: there is none.
    _reloaded: dict[str, Route] | None = None

    def reload_handlers(self, arguments: Sequence[str]) -> None:
        """Load the modules of these arguments again; their handlers, and no others, get the next events.

        Running handlers keep their module. Changes nothing if it raises HandlerModuleError, or what `register` raises.
        """
        before = self._loader
        self._loader, self._reloaded = ModuleLoader(reads_again=True), {}
        try:
            for argument in arguments:
                self.load_handlers(argument)
            with self._changing:
                self._change(self._reloaded)
        except BaseException:
            self._loader = before
            raise
        finally:
            self._reloaded = None

    def _add(self, route: Route) -> None:
        if self._reloaded is None:
            super()._add(route)
        else:
            self._reloaded[route.name] = route
