"""The command `completion`."""

from __future__ import annotations

import click

from afl_stream.commands.arguments import common
from afl_stream.commands.invocation import Invocation
from afl_stream.exit_codes import ExitCode

#: The variable by which a shell asks for completions; click derives it from the name of the command.
_VARIABLE = "_AFL_STREAM_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common
def completion_command(invocation: Invocation, shell: str) -> ExitCode:
    """Write the script by which SHELL completes commands, options, workflows, ids of runs, and files.

    Names and ids come from the store of the folder that you are in, or of the --data-dir and --config on the line.

    \b
    Examples:
      eval "$(afl-stream completion bash)"
      afl-stream completion bash > ~/.local/share/bash-completion/completions/afl-stream
      afl-stream completion zsh > ~/.zfunc/_afl-stream
      afl-stream completion fish > ~/.config/fish/completions/afl-stream.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click knows the shells of the choice"
    root = click.get_current_context().find_root().command
    script = kind(root, {}, "afl-stream", _VARIABLE).source()
    if invocation.as_json:
        invocation.terminal().document({"shell": shell, "script": script})
    else:
        click.echo(script, nl=False)
    return ExitCode.OK
