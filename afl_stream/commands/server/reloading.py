"""Programs and handlers that are taken anew as a person saves them, while a deployment of this process runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from afl.core.errors import AFLError
from afl.core.text.exception_text import exception_text
from afl_stream.commands.invocation import Invocation
from afl_stream.commands.programs import compile_program
from afl_stream.commands.refusals import CommandRefused
from afl_stream.commands.server.file_watch import FileWatch, files_of_handlers

if TYPE_CHECKING:
    from afl_stream.dev import LocalDeployment

#: How often the files are looked at. A look costs a call of the system for each file.
_LOOK_INTERVAL_S: Final = 0.3


class Reloading:
    """Recompiles and deploys AFL files that were saved, and reloads handler modules that were.

    What does not compile or load is told, and what was there before stays. Runs that have started keep their program;
    the next events go to the new handlers.
    """

    def __init__(
        self, invocation: Invocation, deployment: LocalDeployment, files: Sequence[str], handlers: Sequence[str]
    ) -> None:
        """Begin with the files as they are now."""
        self._invocation = invocation
        self._deployment = deployment
        self._files, self._handlers = files, handlers
        self._programs = FileWatch(Path(file) for file in files)
        self._modules = FileWatch(files_of_handlers(handlers))
        self._next_look_s = 0.0

    def look(self) -> None:
        """Take what was saved since the last look; call it as often as you like."""
        if time.monotonic() < self._next_look_s:
            return
        self._next_look_s = time.monotonic() + _LOOK_INTERVAL_S
        if saved := self._programs.changed():
            self._tell(saved, self._deploy)
        if saved := self._modules.changed():
            self._tell(saved, self._reload)

    def _tell(self, saved: frozenset[Path], take: Callable[[], str]) -> None:
        names, terminal = ", ".join(sorted(str(path) for path in saved)), self._invocation.terminal()
        try:
            terminal.remark(f"{names} saved: {take()}")
        except AFLError as error:
            terminal.warn(f"Note: {names} saved, and not taken; what was there before stays")
            if isinstance(error, CommandRefused) and error.is_rendered:
                terminal.rendered(str(error))
            else:
                terminal.warn(f"Error: {exception_text(error)}")

    def _deploy(self) -> str:
        program = compile_program(self._files, self._invocation.terminal(), self._invocation.strictness)
        self._deployment.deploy(program)
        return "deployed; new runs use it"

    def _reload(self) -> str:
        if self._deployment.agent is None:
            return "there is no agent for it here"
        self._deployment.agent.reload_handlers(self._handlers)
        return f"its handlers answer {', '.join(self._deployment.agent.registered_names())} from now on"
