"""`afl graph`: draw which step of a workflow waits for which."""

from __future__ import annotations

from pathlib import PurePath

import click

from afl.commands.inputs import Named, WrongInput, check_named, source_options
from afl.commands.terminal import json_findings, report_checked, write_output
from afl.core.process.click_options import strictness_options

_FORMATS = ("mermaid", "svg", "dot")

#: The format that each ending of an output file means.
_FORMAT_OF_SUFFIX = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".mermaid": "mermaid"}
#: Endings of picture formats that `afl graph` cannot write.
_PICTURES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".pdf", ".ps", ".eps", ".html"})


@click.command("graph")
@click.option("--workflow", metavar="NAME", help="Which workflow, or facet with a body.  [default: the only workflow]")
@click.option(
    "--format", "form", type=click.Choice(_FORMATS), help="What is written.  [default: as OUT ends, else mermaid]"
)
@click.option("-o", "--output", metavar="OUT", help="Write to this file instead of standard output.")
@json_findings
@strictness_options
@source_options
@click.pass_context
def graph_command(
    ctx: click.Context, named: Named, workflow: str | None, form: str | None, output: str | None, as_json: bool
) -> None:
    """Draw a workflow of FILEs: its steps, and which step waits for which.

    Solid arrows lead from what is needed to what needs it, dashed ones from a step to its own block or catch. Event
    facets, which wait for an agent, are marked; facets of the library, which the runtime answers, have a colour of
    their own.
    """
    form = form or _format_of(output)
    checked = check_named(named)
    report_checked(ctx, checked, as_json=as_json)
    from afl.compiled.program import CompiledProgram, Declaration, ProgramError
    from afl.emitter import emit_dict
    from afl.graph import graph_of

    program = CompiledProgram(emit_dict(checked.program))

    def asked_for() -> Declaration:
        if workflow is not None:
            return program.facet(workflow) or program.workflow(workflow)
        names = sorted(declaration.qualified_name for declaration in program.workflows())
        if len(names) != 1:
            which = (
                f"several workflows; choose one by --workflow: {', '.join(names)}" if names else "no workflow to draw"
            )
            raise WrongInput(f"the program has {which}")
        return program.workflow(names[0])

    try:
        graph = graph_of(program, asked_for())
    except ProgramError as error:
        raise WrongInput(str(error)) from error
    if form == "svg":
        from afl.graph.svg import svg as write
    elif form == "dot":
        from afl.graph.dot import dot as write
    else:
        from afl.graph.mermaid import mermaid as write
    write_output(ctx, output, write(graph).encode())


def _format_of(output: str | None) -> str:
    """Return the format for an output file by its ending. Raises click.UsageError for an ending of another format."""
    suffix = PurePath(output or "").suffix.lower()
    if suffix in _PICTURES:
        raise click.UsageError(f"{output}: {suffix} cannot be written; use .svg, .dot or .mmd, or name a --format")
    return _FORMAT_OF_SUFFIX.get(suffix, "mermaid")
