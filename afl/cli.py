"""The `afl` command: compile, check, format, draw, document, publish and run AFL."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from afl.commands.terminal import say
from afl.core.exit_codes import ExitCode, table
from afl.core.process.click_errors import broken_pipes_raised, show_usage_error
from afl.core.process.click_groups import LazyGroup
from afl.core.process.signals import EndedBySignal, signals_handled
from afl.core.process.standard_streams import flush_output, give_up_output, standard_streams
from afl.core.release import VERSION
from afl.errors import AFLError


class _CompileByDefault(LazyGroup):
    """A group whose first argument may be a file: `afl orders.afl` is `afl compile orders.afl`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_for_group = bool(args) and (args[0] in self.commands or args[0] in (*ctx.help_option_names, "--version"))
        if not asks_for_group and not self._is_misspelt_option(args) and (args or not sys.stdin.isatty()):
            _refuse_misspelt_command(args, list(self.commands))
            args = ["compile", *args]
        return super().parse_args(ctx, args)

    def _is_misspelt_option(self, args: Sequence[str]) -> bool:
        """Return whether a first word that `compile` does not know looks like an option of the group itself."""
        word = args[0].partition("=")[0] if args else ""
        if not word.startswith("--") or any(word in parameter.opts for parameter in self.commands["compile"].params):
            return False
        from afl.core.text.near_names import near_names

        return any(name in ("--version", "--help") for name in near_names(word, ["--version", "--help"])[:1])


def _refuse_misspelt_command(args: Sequence[str], commands: Sequence[str]) -> None:
    """Raise click.UsageError for a first word that names no file and looks like a command."""
    word = args[0] if args else "-"
    if word.startswith("-") or "." in word or os.sep in word or os.path.exists(word):
        return
    # Only a mistake pays for the import.
    from afl.core.text.near_names import near_names

    near = near_names(word, commands)
    if near:
        raise click.UsageError(
            f"found {word!r}, which is neither a command nor a file; did you mean {' or '.join(near)}?"
        )


_HELP = f"""Check, run, draw and compile workflows written in AFL.

A FILE is a path, or - for standard input, which is also read when none is named. Several are taken as one program.
`afl FILE` is short for `afl compile FILE`.

\b
afl check shop.afl                      what is wrong with it
afl run shop.afl -i id=7                run its workflow here and now
afl graph shop.afl -o shop.svg          draw which step waits for which
afl compile shop.afl --source-path lib  with the namespaces that it uses

\b
Exit codes, the same as those of afl-stream:
{table()}
"""

#: Where each command is declared, and its line in the help, in the order in which a new user meets them.
_COMMANDS: Final = {
    "check": ("afl.commands.compiling:check_command", "Look for mistakes."),
    "fmt": ("afl.commands.texts:fmt_command", "Bring files into the one layout of the language."),
    "run": ("afl.commands.running:run_command", "Run a workflow here and now, and print its outputs."),
    "graph": ("afl.commands.graphing:graph_command", "Draw which step of a workflow waits for which."),
    "doc": ("afl.commands.texts:doc_command", "Write Markdown from doc comments."),
    "compile": ("afl.commands.compiling:compile_command", "Compile into one JSON program."),
    "codegen": ("afl.commands.generating:codegen_command", "Write types and handlers in other languages."),
    "publish": ("afl.commands.publishing:publish_command", "Publish namespaces in MongoDB, where others find them."),
    "ast": ("afl.commands.texts:ast_command", "Show the syntax tree as JSON."),
    "lsp": ("afl.commands.serving:lsp_command", "Serve an editor: the language server, on standard input and output."),
}


@click.group(
    cls=_CompileByDefault,
    help=_HELP,
    table=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(VERSION, message="afl %(version)s")
def afl() -> None:
    """Hold the subcommands; the text of `--help` is `_HELP`."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; see afl.core.exit_codes."""
    with signals_handled(lambda _number: ExitCode.INTERRUPTED), standard_streams():
        return _main(args)


def _main(args: Sequence[str] | None) -> int:
    try:
        with broken_pipes_raised():
            result = afl.main(args=None if args is None else list(args), prog_name="afl", standalone_mode=False)
        flush_output()
    except click.ClickException as error:
        show_usage_error(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt, EndedBySignal):
        say("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of the output closed it, and needs no more.
        give_up_output()
        return ExitCode.INTERRUPTED
    except AFLError as error:
        # For the commands that only look at texts, an unreadable text is a finding. `afl run` has reported it already.
        say(f"Error: {error}")
        return ExitCode.WORK_LEFT
    except OSError as error:
        # Errors of other files were handled where they were opened, so this error is about the output.
        give_up_output()
        say(f"Error: {error.filename or 'the output cannot be written'}: {error.strerror or error}")
        return ExitCode.UNAVAILABLE
    except Exception as error:  # noqa: BLE001 - the one place of the main thread
        return _report_own_mistake(error)
    return result if isinstance(result, int) else ExitCode.OK


def _report_own_mistake(error: Exception) -> int:
    """Say that an error is a bug in this program, and show its traceback for a bug report."""
    from afl.core.text.exception_text import exception_line, exception_traceback

    say(f"Error: this is a bug in afl: {exception_line(error)}")
    for line in exception_traceback(error).splitlines():
        say(line)
    return ExitCode.INTERNAL
