"""The `afl` command: compiles and checks AFL files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from afl import __version__
from afl.diagnostics import Diagnostic, render
from afl.errors import AFLError, SourceUnreadable

#: The name that stands for standard input.
STDIN = "-"


class _CompileByDefault(click.Group):
    """A group whose first argument may be a file: `afl orders.afl` is `afl compile orders.afl`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_for_group = bool(args) and (args[0] in self.commands or args[0] in (*ctx.help_option_names, "--version"))
        if not asks_for_group and (args or not sys.stdin.isatty()):
            args = ["compile", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_CompileByDefault, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="afl %(version)s")
def afl() -> None:
    """Compile and check workflows written in AFL. FILE is a path, or - for standard input."""


@afl.command("compile")
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option("-o", "--output", metavar="OUT", help="Write the program to this file instead of standard output.")
@click.option("--no-locations", is_flag=True, help="Leave source locations out of the program.")
@click.option("--include-provenance", is_flag=True, help="Name the source of every location.")
@click.option("--compact", is_flag=True, help="Write one line.")
@click.option("--check", is_flag=True, help="Only look for mistakes; write no program.")
@click.option("--no-validate", is_flag=True, help="Stop after the syntax.")
@click.pass_context
def compile_command(
    ctx: click.Context,
    files: tuple[str, ...],
    output: str | None,
    no_locations: bool,
    include_provenance: bool,
    compact: bool,
    check: bool,
    no_validate: bool,
) -> None:
    """Compile FILEs, together, into one JSON program."""
    from afl.compiler import check_texts, collector_paused
    from afl.emitter import JSONEmitter
    from afl.source import FileOrigin, SourceRegistry

    ctx.with_resource(collector_paused())
    texts = _read(ctx, files)
    checked = check_texts(texts, validate=not no_validate)
    _report(checked.diagnostics, texts)
    if checked.has_errors:
        ctx.exit(1)
    if check:
        click.echo(f"OK: {len(texts)} source(s) checked", err=True)
        return
    registry = SourceRegistry({name: FileOrigin(name.removeprefix("file://")) for _, name in texts})
    emitter = JSONEmitter(not no_locations, include_provenance, registry, None if compact else 2)
    document = (emitter.emit(checked.program) + "\n").encode()
    if output is None:
        sys.stdout.buffer.write(document)
        return
    try:
        Path(output).write_bytes(document)
    except OSError as error:
        click.echo(f"Error writing output {output}: {error.strerror or error}", err=True)
        ctx.exit(1)


@afl.command("check")
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Write the findings to standard output as JSON.")
@click.pass_context
def check_command(ctx: click.Context, files: tuple[str, ...], as_json: bool) -> None:
    """Look for mistakes in FILEs, taken together."""
    from afl.compiler import check_texts, collector_paused

    ctx.with_resource(collector_paused())
    texts = _read(ctx, files)
    checked = check_texts(texts)
    if as_json:
        findings = [diagnostic.to_json() for diagnostic in checked.diagnostics]
        document = {"valid": not checked.has_errors, "diagnostics": findings}
        sys.stdout.buffer.write((json.dumps(document, ensure_ascii=False, indent=2) + "\n").encode())
    else:
        _report(checked.diagnostics, texts)
        if not checked.has_errors:
            click.echo(f"OK: {len(texts)} source(s) checked", err=True)
    if checked.has_errors:
        ctx.exit(1)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 1 for errors in the program or its files, 2 for wrong usage."""
    try:
        result = afl.main(args=None if args is None else list(args), prog_name="afl", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        click.echo("Aborted", err=True)
        return 1
    except BrokenPipeError:
        # Whoever read the output has had enough. Nothing is left to flush, or Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except AFLError as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    return result if isinstance(result, int) else 0


def _read(ctx: click.Context, files: Sequence[str]) -> list[tuple[str, str]]:
    """Return the texts with their source ids; says every file that cannot be read, then ends the command."""
    from afl.parser import decode_source, read_source

    texts: list[tuple[str, str]] = []
    unreadable: list[SourceUnreadable] = []
    for file in files or (STDIN,):
        try:
            if file == STDIN:
                texts.append((decode_source(sys.stdin.buffer.read(), "<stdin>"), "<stdin>"))
            else:
                texts.append((read_source(file), f"file://{file}"))
        except SourceUnreadable as error:
            unreadable.append(error)
    for problem in unreadable:
        click.echo(f"Error: {problem}", err=True)
    if unreadable:
        ctx.exit(1)
    return texts


def _report(diagnostics: Sequence[Diagnostic], texts: Sequence[tuple[str, str]]) -> None:
    by_source = {source_id: text for text, source_id in texts}
    colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    for diagnostic in diagnostics:
        text = by_source.get(diagnostic.source_id or "")
        click.echo(render(diagnostic, text, colour=colour), err=True, color=colour)
