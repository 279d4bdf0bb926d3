"""Options and arguments that several commands of `afl-stream` take, and the frame around every command."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from afl.core.process.click_options import strictness_options
from afl.core.process.signals import EndedBySignal
from afl.core.process.standard_streams import give_up_output, stdout_apart
from afl.core.strictness import Strictness
from afl_stream.commands.completing.values import files as complete_files
from afl_stream.exit_codes import ExitCode
from afl_stream.settings.store_parts import StorePart

if TYPE_CHECKING:
    from afl_stream.commands.invocation import Invocation

#: The context object of a command whose process runs only that command, and ends with it.
PROCESS: Final = object()

F = TypeVar("F", bound=Callable[..., Any])


def common(command: F) -> F:
    """Give a command the common options, as one Invocation, and turn its errors into a message and an exit code."""

    @click.option(
        "--config",
        "config_file",
        metavar="FILE",
        shell_complete=complete_files,
        help="Settings file; by default ./afl-stream.toml if it exists.",
    )
    @click.option("--bootstrap", metavar="HOST:PORT", help="A Kafka broker; without one the embedded log is used.")
    @click.option("--prefix", metavar="TEXT", help="Start of every topic and group name.")
    @click.option("--data-dir", metavar="DIR", help="Where the embedded log and the store are.")
    @click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
    @click.option("-v", "--verbose", "verbosity", count=True, help="Log to standard error; -vv more.")
    @functools.wraps(command)
    def wrapped(
        config_file: str | None,
        bootstrap: str | None,
        prefix: str | None,
        data_dir: str | None,
        as_json: bool,
        verbosity: int,
        **options: Any,
    ) -> int:
        from afl_stream.commands.invocation import Invocation

        invocation = Invocation(
            config_file=config_file,
            bootstrap=bootstrap,
            prefix=prefix,
            data_dir=data_dir,
            as_json=as_json,
            verbosity=verbosity,
            allow_scripts=options.pop("allow_scripts", False),
            new_store=options.pop("new_store", False),
            instance_id=options.pop("instance_id", None),
            metrics_port=options.pop("metrics_port", None),
            process=options.pop("process", None),
            strictness=options.pop("strictness", Strictness.PROGRAM),
        )
        invocation.set_up_logging()
        if not as_json:
            return _run(command, invocation, options)
        # Handlers may print: their output must not mix with the document.
        with stdout_apart(for_good=click.get_current_context().obj is PROCESS) as out:
            return _run(command, dataclasses.replace(invocation, out=out), options)

    return wrapped  # type: ignore[return-value]  # click's decorators keep what they are given


def _run(command: Callable[..., Any], invocation: Invocation, options: dict[str, Any]) -> int:
    try:
        return int(command(invocation, **options))
    except BrokenPipeError as error:
        return end_without_output(error)
    except (click.ClickException, click.Abort):
        raise
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the one place of the main thread
        from afl_stream.commands.failures import report

        return report(error, invocation)


def service(command: F) -> F:
    """End a service with success on a signal that comes while it starts, its imports included."""

    @functools.wraps(command)
    def wrapped(invocation: Invocation, *args: Any, **options: Any) -> ExitCode:
        try:
            code: ExitCode = command(invocation, *args, **options)
        except EndedBySignal as ended:
            invocation.terminal().remark(f"{ended} before it had started; no work was lost")
            return ExitCode.OK
        return code

    return wrapped  # type: ignore[return-value]  # it takes what the command takes


def files_argument(required: bool) -> Callable[[F], F]:
    """Add the AFL files of a command, and the options for how strictly they are judged."""
    files = click.argument("files", nargs=-1, required=required, metavar="FILE.afl...", shell_complete=complete_files)
    return lambda command: files(strictness_options(command))


handlers_option = click.option(
    "--handlers",
    multiple=True,
    metavar="MODULE",
    shell_complete=complete_files,
    help="Handlers: a module or .py file, MODULE:function=ns.Facet for one of them. Repeat for several.",
)
facets_option = click.option(
    "--facet", "facets", multiple=True, metavar="NAME", help="Facet of a handler module that names none itself."
)


def _policy_text(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    from afl.core.handlers.retry import BadRetryPolicy, RetryPolicy

    try:
        return str(RetryPolicy.parse(text)) if text else ""
    except BadRetryPolicy as error:
        raise click.BadParameter(f"{error.field}: found {error.found!r:.100}, expected {error.expected}") from error


retry_option = click.option(
    "--retry",
    default="",
    callback=_policy_text,
    metavar="POLICY",
    help="How often a handler that raises is tried, unless its module says so: 'attempts=5, backoff=0.5, factor=2, "
    "max=60, jitter=0.2, on=ConnectionError|TimeoutError, not=shop.CardDeclined'.",
)
inputs_option = click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=VALUE",
    help="An input: text for a String, JSON for anything else. Repeat for several.",
)
inputs_document_option = click.option(
    "--inputs", "inputs_document", metavar="JSON", help="All inputs as an object; @FILE reads a file, - standard input."
)
workflow_id_option = click.option(
    "--id", "workflow_id", metavar="ID", help="The run's id; the same id twice starts it once."
)
if_exists_option = click.option(
    "--if-exists",
    type=click.Choice(["use", "refuse"]),
    help="If a run has the id: use it, whatever version and inputs it was started with; or refuse the start.  "
    "[default: use it if it was started in the same way, else refuse]",
)
timeout_option = click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0), metavar="SECONDS", help="Longest wait for the run's end."
)
until_idle_option = click.option(
    "--until-idle",
    is_flag=True,
    help="End when there is nothing left to do: on Kafka, when nothing has come for a second.",
)
new_store_option = click.option(
    "--new-store",
    is_flag=True,
    help="Give the deployment this store where it has another: all that its topics hold is read and run again.",
)
instance_id_option = click.option(
    "--instance-id",
    metavar="NAME",
    help="This process's own name in its groups: a restart within the session time-out moves no partition.",
)


metrics_port_option = click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Serve /metrics, /health/live and /health/ready on this port of 127.0.0.1; 0: a free one.",
)


class _ProcessOfSeveral(click.ParamType[StorePart]):
    """`2/4`: the second of four processes."""

    name = "process"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> StorePart:
        found = StorePart.parse(str(value))
        if found is None:
            self.fail(f"{value}: expected NUMBER/COUNT", param, ctx)
        return found


#: For the processes that a command with --processes starts.
family_option = click.option("--family", hidden=True, default="", help="What the ids of those processes are made of.")
#: For the processes that a command with --processes starts.
process_option = click.option(
    "--process",
    type=_ProcessOfSeveral(),
    hidden=True,
    help="Which of several processes this one is; given by --processes.",
)
reason_option = click.option("--reason", default="", help="The reason, kept with the run.")
allow_scripts_option = click.option("--allow-scripts", is_flag=True, help="Run the scripts of programs, isolated.")


def end_without_output(error: OSError) -> ExitCode:
    """Give up the remaining output, because its reader has closed it, or else with the reason as an error."""
    give_up_output()
    if isinstance(error, BrokenPipeError):
        return ExitCode.INTERRUPTED
    sys.stderr.write(f"Error: the output cannot be written: {error.strerror or error}\n")
    return ExitCode.UNAVAILABLE


def find_modules_here() -> None:
    """Let `--handlers shop.handlers` mean the module of the current directory, as `python -m` would."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)


def unless_subcommand(command: F) -> F:
    """Do nothing where a command of the group was named; refuse options before its name, which would do nothing."""

    @functools.wraps(command)
    def wrapped(**options: Any) -> ExitCode:
        context = click.get_current_context()
        if context.invoked_subcommand is None:
            code: ExitCode = command(**options)
            return code
        for parameter in context.command.params:
            source = context.get_parameter_source(parameter.name or "")
            if source is click.core.ParameterSource.COMMANDLINE:
                raise click.UsageError(f"{parameter.opts[0]}: options go behind `{context.invoked_subcommand}`")
        return ExitCode.OK

    return wrapped  # type: ignore[return-value]  # it takes what the command takes
