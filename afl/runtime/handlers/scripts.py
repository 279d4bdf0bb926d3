"""The script states: a facet's own script runs before its mixins, event and blocks."""

from __future__ import annotations

from collections.abc import Mapping

from afl.compiled.program import Node
from afl.runtime.handlers.base import StateChangeResult, StateHandler
from afl.scripts.executor import PYTHON, ScriptError, execute_script


class FacetScriptsBeginHandler(StateHandler):
    """Wait for the script of a facet to end; steps without one pass.

    The script's end itself moves the step on to its next state, in the one write that stores the result.
    """

    def process_state(self) -> StateChangeResult:
        """Run the script of a public step's facet in this call; its result becomes the step's returns.

        A script that fails gives a result without success, whose error is the ScriptError.
        """
        facet = self.context.get_facet_definition(self.step.facet_name)
        script = _script_of(facet) if facet is not None else None
        if script is not None:
            params = {name: attribute.value for name, attribute in self.step.attributes.params.items()}
            try:
                result = execute_script(str(script.get("code", "")), params, str(script.get("language", PYTHON)))
            except ScriptError as error:
                return self.error(error)
            for name, value in result.items():
                self.step.set_attribute(name, value, is_return=True)
        return self.transition()


def _script_of(facet: Node) -> Node | None:
    """Return a declaration's own script: in front of its blocks, or, in the older shape, in their place."""
    for part in (facet.get("pre_script"), facet.get("body")):
        if isinstance(part, Mapping) and part.get("type") == "ScriptBlock":
            return part
    return None


class FacetScriptsEndHandler(StateHandler):
    """No work after the script."""


class StatementScriptsBeginHandler(StateHandler):
    """A state that no table reaches."""


class StatementScriptsEndHandler(StateHandler):
    """A state that no table reaches."""
