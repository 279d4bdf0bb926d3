"""The `afl-stream` command: the list of its commands. The module of a command is loaded when that is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import click

from afl.core.process.click_errors import broken_pipes_raised, show_usage_error
from afl.core.process.click_groups import LazyGroup
from afl.core.process.signals import signals_handled
from afl.core.process.standard_streams import flush_output, standard_streams
from afl.core.release import VERSION
from afl_stream.commands.arguments import PROCESS, end_without_output
from afl_stream.exit_codes import ExitCode, table

_HELP = f"""Run AFL workflows whose steps are events on topics.

\b
To begin, in an empty folder:
  afl-stream init orders
To try a file with its agents, in one process:
  afl-stream dev orders.afl --handlers shop.handlers --input order=17
For other terminals to use, with no broker:
  afl-stream server orders.afl --handlers shop.handlers
Piece by piece (without a server: one process after another):
  afl-stream topics apply orders.afl
  afl-stream deploy orders.afl
  afl-stream start Checkout --input order=17
  afl-stream evaluator --until-idle
  afl-stream agent --handlers shop.handlers --until-idle
  afl-stream evaluator --until-idle
  afl-stream status
On a Kafka cluster the same commands, side by side, with --bootstrap HOST:PORT or AFL_KAFKA_BOOTSTRAP.

Settings come from ./afl-stream.toml, environment variables (AFL_PREFIX, ...) and the options of each command.

\b
Exit codes:
{table()}
"""

#: Where each command is declared, and its line in the help, in the order in which a person needs them.
_COMMANDS: Final = {
    "init": ("afl_stream.commands.projects.init:init_command", "Make a project that runs, from a template."),
    "dev": ("afl_stream.commands.dev:dev_command", "Run files with their agents in one process."),
    "server": ("afl_stream.commands.server.command:server_command", "Run a whole deployment, for other terminals."),
    "broker": ("afl_stream.commands.server.broker:broker_command", "Run a real Kafka on this machine."),
    "topics": ("afl_stream.commands.topics.group:topics_group", "Plan and create topics, and the rights to them."),
    "schemas": ("afl_stream.commands.schemas.group:schemas_group", "Generate, register and check schemas of events."),
    "asyncapi": (
        "afl_stream.commands.schemas.asyncapi:asyncapi_command",
        "Write the AsyncAPI document of the deployment.",
    ),
    "deploy": ("afl_stream.commands.deploy:deploy_command", "Compile files and publish the program."),
    "start": ("afl_stream.commands.start:start_command", "Start a run, and optionally wait for its end."),
    "schedule": ("afl_stream.commands.schedules.commands:schedule_group", "Start runs at certain times."),
    "evaluator": ("afl_stream.commands.evaluators.command:evaluator_command", "Run an evaluator."),
    "agent": ("afl_stream.commands.agent:agent_command", "Run an agent."),
    "handlers": ("afl_stream.commands.handlers:handlers_group", "Show and change the registered handlers."),
    "audit": ("afl_stream.commands.audits.command:audit_group", "Write down every record as JSON."),
    "list": ("afl_stream.commands.runs.listing:list_command", "List runs by state, workflow, time, error, input."),
    "show": ("afl_stream.commands.runs.showing:show_command", "Show a run: its steps, values, failures, and answers."),
    "trace": ("afl_stream.commands.runs.tracing:trace_command", "Show a run's events and answers in their topics."),
    "programs": ("afl_stream.commands.runs.programs:programs_group", "Show programs, their versions and runs."),
    "status": ("afl_stream.commands.status:status_command", "List runs, or show one with its steps."),
    "why": ("afl_stream.commands.waiting.why:why_command", "Say what a run waits for, and what would help."),
    "pause": ("afl_stream.commands.waiting.pausing:pause_command", "Pause a facet, a run, or all."),
    "resume": ("afl_stream.commands.waiting.pausing:resume_command", "End a pause."),
    "watch": ("afl_stream.commands.watching.command:watch_command", "Show milestones of runs as they happen."),
    "bridge": ("afl_stream.commands.bridge:bridge_command", "Join AFL workflows with topics and event-driven ones."),
    "pubsub": ("afl_stream.commands.pubsub.group:pubsub_group", "Check, draw and run event-driven workflows."),
    "dashboard": (
        "afl_stream.commands.web.dashboard:dashboard_command",
        "Serve pages about the deployment, and its JSON API.",
    ),
    "gateway": (
        "afl_stream.commands.web.gateway:gateway_command",
        "Serve an HTTP API for workers and others without Kafka.",
    ),
    "servers": ("afl_stream.commands.servers:servers_command", "List the servers that work on the store."),
    "continue": ("afl_stream.commands.answers:continue_command", "Answer a step by hand."),
    "fail": ("afl_stream.commands.answers:fail_command", "Fail a step by hand."),
    "raise": ("afl_stream.commands.events.raising:raise_command", "Raise an external event for a run."),
    "history": ("afl_stream.commands.events.history:history_command", "Show what happened to a run, in order of time."),
    "cancel": ("afl_stream.commands.answers:cancel_command", "Cancel a run."),
    "retry": ("afl_stream.commands.running_again:retry_command", "Retry what has failed in a run."),
    "rerun": ("afl_stream.commands.running_again:rerun_command", "Run a step again, and what depends on it."),
    "reset": ("afl_stream.commands.running_again:reset_command", "Start a run over."),
    "continue-as-new": (
        "afl_stream.commands.events.continuing:continue_as_new_command",
        "Let a run continue as a new execution.",
    ),
    "migrate": (
        "afl_stream.commands.versions.migrating:migrate_command",
        "Move a waiting run to another version of its program.",
    ),
    "erase": (
        "afl_stream.commands.sensitive.erasing:erase_command",
        "Erase the sensitive data of a run.",
    ),
    "keys": ("afl_stream.commands.sensitive.keys:keys_group", "Make and change the keys of sensitive values."),
    "dlq": ("afl_stream.commands.dlq.group:dlq_group", "List, show, replay and drop dead letters."),
    "mcp": ("afl_stream.mcp.command:mcp_command", "Serve tools for language models (MCP)."),
    "store": ("afl_stream.commands.store:store_group", "Check the store, purge finished runs, divide it."),
    "config": ("afl_stream.commands.config:config_command", "Show the settings."),
    "completion": ("afl_stream.commands.completing.command:completion_command", "Write the completion of a shell."),
}


@click.group(
    cls=LazyGroup,
    table=_COMMANDS,
    help=_HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(VERSION, message="afl-stream %(version)s")
def afl_stream() -> None:
    """Hold the commands; the options of each are its own."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; see afl_stream.exit_codes."""
    # This comes first: imports, files and connections of a command may take long.
    with signals_handled(lambda _number: ExitCode.INTERRUPTED), standard_streams():
        return _main(args)


def _main(args: Sequence[str] | None) -> int:
    try:
        with broken_pipes_raised():
            words, process = (None, PROCESS) if args is None else (list(args), None)
            result = afl_stream.main(words, prog_name="afl-stream", standalone_mode=False, obj=process)
        flush_output()
    except click.ClickException as error:
        show_usage_error(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
        return ExitCode.INTERRUPTED
    except OSError as error:
        # Commands have reported all other errors: this one is about the output.
        return end_without_output(error)
    return int(result) if isinstance(result, int) else ExitCode.OK
