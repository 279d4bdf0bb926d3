"""The `afl` command: compiles, checks, formats, draws, documents, publishes and runs AFL."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from afl import __version__
from afl.commands.compiling import check_command, compile_command
from afl.commands.graphing import graph_command
from afl.commands.publishing import publish_command
from afl.commands.running import run_command
from afl.commands.serving import lsp_command
from afl.commands.terminal import say
from afl.commands.texts import ast_command, doc_command, fmt_command
from afl.core.click_errors import show_usage_error
from afl.core.signals import signals_handled
from afl.core.standard_streams import flush_output, give_up_output, standard_streams
from afl.errors import AFLError


class _CompileByDefault(click.Group):
    """A group whose first argument may be a file: `afl orders.afl` is `afl compile orders.afl`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_for_group = bool(args) and (args[0] in self.commands or args[0] in (*ctx.help_option_names, "--version"))
        if not asks_for_group and (args or not sys.stdin.isatty()):
            _refuse_misspelt_command(args, list(self.commands))
            args = ["compile", *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        # In the order in which a person meets them.
        return list(self.commands)


def _refuse_misspelt_command(args: Sequence[str], commands: Sequence[str]) -> None:
    """Raise click.UsageError for a first word that is no file and looks like a command."""
    word = args[0] if args else "-"
    if word.startswith("-") or "." in word or os.sep in word or os.path.exists(word):
        return
    # Only a mistake pays for the import.
    from afl.compiled import near_names

    near = near_names(word, commands)
    if near:
        raise click.UsageError(f"found {word!r}, which is no command and no file; did you mean {' or '.join(near)}?")


@click.group(
    cls=_CompileByDefault,
    commands=[
        check_command,
        fmt_command,
        run_command,
        graph_command,
        doc_command,
        compile_command,
        publish_command,
        ast_command,
        lsp_command,
    ],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="afl %(version)s")
def afl() -> None:
    """Check, run, draw and compile workflows written in AFL.

    A FILE is a path, or - for standard input, which is also read when none is named. Several are taken as one program.
    `afl FILE` is short for `afl compile FILE`.

    \b
    afl check shop.afl                      what is wrong with it
    afl run shop.afl -i id=7                run its workflow here and now
    afl graph shop.afl -o shop.svg          draw which step waits for which
    afl compile shop.afl --source-path lib  with the namespaces that it uses
    """


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 1 for errors in the program or its files, 2 for wrong usage."""
    with signals_handled(), standard_streams():
        return _main(args)


def _main(args: Sequence[str] | None) -> int:
    try:
        result = afl.main(args=None if args is None else list(args), prog_name="afl", standalone_mode=False)
        flush_output()
    except click.ClickException as error:
        show_usage_error(error)
        return error.exit_code
    except click.Abort:
        say("Aborted")
        return 1
    except BrokenPipeError:
        # Whoever read the output has had enough.
        give_up_output()
        return 1
    except AFLError as error:
        say(f"Error: {error}")
        return 1
    except OSError as error:
        # Every file has been dealt with where it was opened: this is the output.
        give_up_output()
        say(f"Error: {error.filename or 'the output cannot be written'}: {error.strerror or error}")
        return 1
    return result if isinstance(result, int) else 0
