"""The commands `pubsub check` and `pubsub draw`: a workflow as it is declared."""

from __future__ import annotations

from pathlib import Path

import click

from afl_stream.commands.arguments import common
from afl_stream.commands.invocation import Invocation
from afl_stream.commands.pubsub.workflows import WorkflowFaulty, load_workflow, workflow_argument
from afl_stream.exit_codes import ExitCode
from afl_stream.pubsub.model.definition import WorkflowDefinition
from afl_stream.pubsub.model.nodes import Destination
from afl_stream.pubsub.model.topics import InWorkflowOutputTopic, condition_name


@click.command("check")
@workflow_argument
@common
def check_command(invocation: Invocation, workflow: str) -> ExitCode:
    """Check the workflow, and list its nodes and topics; ends with 1 when it is not sound.

    With --json all that is declared is written, or the faults.

    \b
    Examples:
      afl-stream pubsub check shop.flow:review
      afl-stream pubsub check flow.py --json
    """
    terminal = invocation.terminal()
    try:
        definition = load_workflow(workflow).definition
    except WorkflowFaulty as error:
        if terminal.as_json:
            terminal.document({"faults": list(error.faults)})
        else:
            terminal.rendered(str(error))
        return ExitCode.WORK_LEFT
    if terminal.as_json:
        terminal.document({**definition.to_dict(), "faults": []})
        return ExitCode.OK
    _show(invocation, definition)
    return ExitCode.OK


@click.command("draw")
@workflow_argument
@click.option("--svg", "svg_file", metavar="FILE", help="Write an SVG picture to this file; - writes it to the output.")
@click.option("--mermaid", "is_mermaid", is_flag=True, help="Write a Mermaid flowchart, as without --svg.")
@common
def draw_command(invocation: Invocation, workflow: str, svg_file: str | None, is_mermaid: bool) -> ExitCode:
    """Draw the workflow: its nodes, its topics, and the ANDs and ORs between them.

    Dashed arrows lead to topics that take only data for which a condition holds, dotted ones from a question to its
    answer.

    \b
    Examples:
      afl-stream pubsub draw shop.flow:review
      afl-stream pubsub draw shop.flow:review --svg review.svg
    """
    if svg_file is not None and is_mermaid:
        raise click.UsageError("--svg and --mermaid are two forms of one picture: give one")
    terminal, definition = invocation.terminal(), load_workflow(workflow).definition
    if svg_file is None:
        from afl_stream.pubsub.drawing.mermaid import mermaid

        form, picture = "mermaid", mermaid(definition)
    else:
        from afl_stream.pubsub.drawing.svg import svg

        form, picture = "svg", svg(definition)
    if svg_file is not None and svg_file != "-":
        Path(svg_file).write_text(picture, encoding="utf-8")
    elif not terminal.as_json:
        for line in picture.splitlines():
            terminal.line(line)
    if terminal.as_json:
        terminal.document({"workflow": definition.name, "format": form, "file": svg_file, "picture": picture})
    return ExitCode.OK


def _show(invocation: Invocation, definition: WorkflowDefinition) -> None:
    terminal = invocation.terminal()
    terminal.coloured((f"workflow {definition.name}", "italic"))
    terminal.table(
        ("node", "subscribed to", "publishes to"),
        [
            (node.name, str(node.subscription), ", ".join(map(_shown, node.destinations)) or "-")
            for node in definition.nodes.values()
        ],
    )
    questions = [topic for topic in definition.topics.values() if isinstance(topic, InWorkflowOutputTopic)]
    for topics, words in (
        (definition.input_topics, "takes input on"),
        (definition.output_topics, "gives output on"),
        (definition.in_workflow_input_topics, "takes answers on"),
    ):
        if topics:
            terminal.line(f"{words} {', '.join(topic.name for topic in topics)}")
    for topic in questions:
        terminal.line(f"asks on {topic.name}, and is answered on {topic.reply_to}")


def _shown(to: Destination) -> str:
    condition = to.condition if to.condition is not None else to.topic.condition
    return to.topic.name if condition is None else f"{to.topic.name} when {condition_name(condition)}"
