"""`afl fmt`, `afl ast` and `afl doc`: format texts, show their trees, and write Markdown about them."""

from __future__ import annotations

from pathlib import Path

import click

from afl.commands.inputs import STDIN, STDIN_NAME, Named, check_named, read, source_options
from afl.commands.terminal import (
    json_findings,
    replace,
    report,
    report_checked,
    say,
    write_bytes,
    write_json,
    write_output,
)
from afl.errors import ParseError


@click.command("fmt")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--check", is_flag=True, help="Change nothing; name the files that would change, and end with 1 if any.")
@click.option("--diff", is_flag=True, help="Change nothing; show what would change.")
@json_findings
@click.pass_context
def fmt_command(ctx: click.Context, files: tuple[str, ...], check: bool, diff: bool, as_json: bool) -> None:
    """Bring FILEs into the one layout of the language. Standard input goes to standard output."""
    from afl.compiler import collector_paused
    from afl.diagnostics import display_name
    from afl.formatting import FormatRefused, format_text
    from afl.parser import AFLParser

    failed = stale = False
    for entry in read(files or (STDIN,)):
        text, name = entry.text, display_name(entry.source_id)
        try:
            with collector_paused():
                AFLParser().parse(text, source_id=entry.source_id)
                formatted = format_text(text)
        except ParseError as error:
            report([error.finding()], [(text, entry.source_id)], as_json=as_json)
            failed = True
            continue
        except FormatRefused as error:
            say(f"Error: {name} {error}")
            failed = True
            continue
        changed = formatted != text
        stale |= changed
        if diff:
            write_bytes(_difference(text, formatted, name))
        if check and changed:
            say(f"would change: {name}")
        if check or diff:
            continue
        if name == STDIN_NAME:
            write_bytes(formatted.encode())
        elif changed:
            failed |= not replace(Path(name), formatted)
    if failed or (check and stale):
        ctx.exit(1)


@click.command("ast")
@click.option("--no-locations", is_flag=True, help="Leave source locations out of the tree.")
@json_findings
@source_options
@click.pass_context
def ast_command(ctx: click.Context, named: Named, no_locations: bool, as_json: bool) -> None:
    """Show the syntax tree of FILEs, together, as JSON. The syntax has to be right, nothing else."""
    from afl.output.tree_json import tree_json

    checked = check_named(named, validate=False)
    report_checked(ctx, checked, as_json=as_json)
    write_json(tree_json(checked.program, locations=not no_locations))


@click.command("doc")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("-o", "--output", metavar="OUT", help="Write to this file instead of standard output.")
@json_findings
@click.pass_context
def doc_command(ctx: click.Context, files: tuple[str, ...], output: str | None, as_json: bool) -> None:
    """Write Markdown about the declarations of FILEs, from their doc comments."""
    from afl.output.documentation import markdown

    failed = False
    pages: list[str] = []
    for entry in read(files or (STDIN,)):
        try:
            pages.append(markdown(entry.text, entry.source_id))
        except ParseError as error:
            report([error.finding()], [(entry.text, entry.source_id)], as_json=as_json)
            failed = True
    if failed:
        ctx.exit(1)
    write_output(ctx, output, "\n".join(page for page in pages if page).encode())


def _difference(before: str, after: str, name: str) -> bytes:
    import difflib

    lines = difflib.unified_diff(_lines(before), _lines(after), name, f"{name} (formatted)")
    return "".join(lines).encode()


def _lines(text: str) -> list[str]:
    """Return the lines of a text as a diff shows them: each with a line end, a last line without one marked."""
    *lines, last = text.split("\n")
    return [*(line + "\n" for line in lines), *([last + "\n\\ No newline at end of file\n"] if last else [])]
