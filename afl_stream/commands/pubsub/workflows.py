"""Workflows that the commands of `pubsub` are given: by the module that declares them."""

from __future__ import annotations

from typing import Final, TypeAlias

import click

from afl.core.handlers.modules import ModuleLoader, ModuleNotLoaded
from afl.core.text.exception_text import exception_line
from afl.core.text.near_names import close_names, did_you_mean
from afl.core.text.printable import printable, printable_lines
from afl_stream.commands.arguments import find_modules_here
from afl_stream.commands.refusals import CommandRefused
from afl_stream.pubsub.errors import WorkflowInvalid
from afl_stream.pubsub.model.definition import WorkflowDefinition
from afl_stream.pubsub.model.nodes import NodeInvalid
from afl_stream.pubsub.model.workflow_builder import WorkflowBuilder
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow

#: Names that an error lists.
_MOST_NAMES: Final = 10

#: Why a workflow cannot be used as it is declared.
Faulty: TypeAlias = WorkflowInvalid | NodeInvalid

workflow_argument = click.argument("workflow", metavar="MODULE:WORKFLOW")
#: Where the event store is all that is needed.
workflow_or_name_argument = click.argument("workflow", metavar="MODULE:WORKFLOW|NAME")


class WorkflowFaulty(CommandRefused):
    """A workflow is not sound as its module declares it."""

    def __init__(self, error: Faulty) -> None:
        super().__init__(f"Error: {printable_lines(str(error))}", is_rendered=True)
        self.faults = error.faults


def load_workflow(argument: str) -> EventDrivenWorkflow:
    """Return the workflow that MODULE:WORKFLOW names. Raises CommandRefused, and WorkflowFaulty with all its faults."""
    find_modules_here()
    module_uri, colon, name = argument.rpartition(":")
    # The colon of a URI, and none at all, leave the name to the module.
    if not colon or not name.isidentifier():
        module_uri, name = argument, ""
    try:
        module = ModuleLoader().load(module_uri)
    except ModuleNotLoaded as error:
        if isinstance(error.__cause__, WorkflowInvalid | NodeInvalid):
            raise WorkflowFaulty(error.__cause__) from error
        raise CommandRefused(f"module {module_uri}: {error.found}; expected {error.expected}") from error
    names = vars(module)
    if not name:
        return _only_one(module_uri, names)
    if name not in names:
        near = did_you_mean(close_names(name, [known for known in names if not known.startswith("_")]))
        raise CommandRefused(f"module {module_uri} has no {name}; {near or _workflows_of(names)}")
    return _workflow_of(argument, names[name])


def named_workflow(argument: str) -> tuple[str, EventDrivenWorkflow | None]:
    """Return the name of a workflow, and the workflow where its module is named and not only that name."""
    if ":" not in argument and "." not in argument:
        return argument, None
    loaded = load_workflow(argument)
    return loaded.name, loaded


def _only_one(module_uri: str, names: dict[str, object]) -> EventDrivenWorkflow:
    # One workflow may have several names.
    found = {id(value): value for value in names.values() if isinstance(value, EventDrivenWorkflow)}
    if len(found) == 1:
        return next(iter(found.values()))
    raise CommandRefused(f"name the workflow: {module_uri}:WORKFLOW; {_workflows_of(names)}")


def _workflow_of(argument: str, found: object) -> EventDrivenWorkflow:
    """Return the workflow that a name stands for: an object of one of our classes, or a function that returns one."""
    try:
        if callable(found) and not isinstance(found, type):
            found = found()
        if isinstance(found, WorkflowBuilder):
            found = found.build()
    except (WorkflowInvalid, NodeInvalid) as error:
        raise WorkflowFaulty(error) from error
    except Exception as error:
        raise CommandRefused(f"{argument} raised {exception_line(error)}") from error
    if isinstance(found, WorkflowDefinition):
        return EventDrivenWorkflow(found)
    if isinstance(found, EventDrivenWorkflow):
        return found
    kind = f"the class {found.__qualname__}" if isinstance(found, type) else f"a {type(found).__qualname__}"
    raise CommandRefused(
        f"{printable(argument)} is {kind}; it names an EventDrivenWorkflow, its builder, or a function without "
        "parameters that returns one"
    )


def _workflows_of(names: dict[str, object]) -> str:
    found = sorted(name for name, value in names.items() if isinstance(value, EventDrivenWorkflow))
    listed = ", ".join(found[:_MOST_NAMES]) + (", ..." if len(found) > _MOST_NAMES else "")
    return f"its workflows are {listed}" if found else "it holds no workflow"
