"""The `afl-stream` command: its commands, options and help. The code of a command is loaded when it is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from afl.core.process.click_errors import broken_pipes_raised, show_usage_error
from afl.core.process.signals import signals_handled
from afl.core.process.standard_streams import flush_output, standard_streams
from afl.core.release import VERSION
from afl_stream.commands.arguments import (
    PROCESS,
    allow_scripts_option,
    common,
    end_without_output,
    facets_option,
    files_argument,
    find_modules_here,
    handlers_option,
    inputs_document_option,
    inputs_option,
    new_store_option,
    service,
    timeout_option,
    until_idle_option,
    workflow_id_option,
)
from afl_stream.commands.handlers_group import handlers as handlers_group
from afl_stream.commands.invocation import Invocation
from afl_stream.commands.operator_commands import OPERATOR_COMMANDS
from afl_stream.commands.store_group import store as store_group
from afl_stream.exit_codes import ExitCode, table

_HELP = f"""Run AFL workflows whose steps are events on topics.

\b
To try a file with its agents, in one process:
  afl-stream dev orders.afl --handlers shop.handlers --input order=17
Piece by piece (on the embedded transport: one process after another):
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


class _InOrder(click.Group):
    """A group that lists its commands in the order in which a person needs them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.commands)


@click.group(
    cls=_InOrder, help=_HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(VERSION, message="afl-stream %(version)s")
def afl_stream() -> None:
    """Hold the commands; the options of each are its own."""


@afl_stream.command("dev", short_help="Run files with their agents in one process.")
@files_argument(required=True)
@handlers_option
@facets_option
@click.option(
    "--start", "--workflow", "workflow", metavar="NAME", help="Workflow to start; by default the only one in FILEs."
)
@inputs_option
@inputs_document_option
@workflow_id_option
@timeout_option
@click.option("--audit", "audit_file", metavar="PATH", help="Audit file; by default audit.jsonl in the data directory.")
@click.option("--stay", is_flag=True, help="Continue after the run's end, until Ctrl-C.")
@allow_scripts_option
@new_store_option
@common
@service
def dev_command(invocation: Invocation, **options: Any) -> ExitCode:
    """Run FILEs in one process: topics, evaluator, agents and audit, and a run of the workflow.

    Ends with the run. If the run waits for events without a handler, it ends with 1 and nothing is lost:
    `afl-stream continue` answers, and `afl-stream evaluator --until-idle` (or dev with the same --id) continues.

    \b
    Examples:
      afl-stream dev orders.afl --handlers shop.handlers --input order=17
      afl-stream dev orders.afl --start Refund --inputs @refund.json --json
      afl-stream dev orders.afl --id order-17 --input order=17
    """
    find_modules_here()
    from afl_stream.commands.dev import DevOptions, run_dev

    return run_dev(invocation, DevOptions(**options))


@afl_stream.group(short_help="Plan and create topics.")
def topics() -> None:
    """Plan and create topics. No other command or service creates a topic."""


@topics.command("plan")
@files_argument(required=False)
@click.option("--script", is_flag=True, help="Print the commands of Kafka's own tool that create what is missing.")
@common
def topics_plan(invocation: Invocation, files: Sequence[str], script: bool) -> ExitCode:
    """Show which topics are missing or differ from what is declared, and change nothing.

    Checks the topics of the FILEs' facets; without FILEs, those of the deployed programs. --script is for a cluster
    where only an administrator may create topics.

    \b
    Examples:
      afl-stream topics plan
      afl-stream topics plan orders.afl --json
      afl-stream topics plan orders.afl --bootstrap kafka:9092 --script > topics.sh
    """
    if script and invocation.as_json:
        raise click.UsageError("--script and --json are two forms of one output: give one")
    from afl_stream.commands.deployment import plan_topics

    return plan_topics(invocation, files, script=script)


@topics.command("apply")
@files_argument(required=False)
@common
def topics_apply(invocation: Invocation, files: Sequence[str]) -> ExitCode:
    """Create the topics that are missing. Existing topics are not changed.

    A topic that cannot be created is reported, and does not stop the others.

    \b
    Examples:
      afl-stream topics apply orders.afl
    """
    from afl_stream.commands.deployment import apply_topics

    return apply_topics(invocation, files)


@afl_stream.command("deploy", short_help="Compile files and publish the program.")
@files_argument(required=True)
@common
def deploy_command(invocation: Invocation, files: Sequence[str]) -> ExitCode:
    """Compile FILEs together and publish the program. Runs that have started keep theirs.

    \b
    Examples:
      afl-stream deploy orders.afl
      afl-stream deploy shop/*.afl --json
    """
    from afl_stream.commands.deployment import deploy

    return deploy(invocation, files)


@afl_stream.command("start", short_help="Start a run, and optionally wait for its end.")
@click.argument("workflow")
@inputs_option
@inputs_document_option
@workflow_id_option
@click.option("--wait", is_flag=True, help="Wait for the run's end and show its outputs.")
@timeout_option
@handlers_option
@allow_scripts_option
@common
def start_command(invocation: Invocation, workflow: str, handlers: Sequence[str], **options: Any) -> ExitCode:
    """Start a run of a deployed WORKFLOW, named in full or by its short name, and print its id.

    Inputs are checked first: if one does not fit, nothing is started.

    With --wait on the embedded transport an evaluator runs in this process, and an agent when --handlers is given,
    because the log serves one process. On Kafka it waits for the evaluators' report of the run's end, and prints what
    the run waits for when that takes long. Without --wait it waits on Kafka for the evaluator's answer, 5 s at most. A
    refused start, for instance with the id of another run, ends with 2.

    \b
    Examples:
      afl-stream start billing.Checkout --input order=17 --input note="by hand"
      afl-stream start Checkout --inputs @inputs.json --id order-17
      afl-stream start Checkout --input order=17 --wait --timeout 30 --handlers shop.handlers
    """
    if not options["wait"] and (handlers or options["timeout_s"] is not None or invocation.allow_scripts):
        raise click.UsageError("--handlers, --timeout and --allow-scripts go with --wait")
    find_modules_here()
    from afl_stream.commands.start import StartOptions, start

    return start(invocation, StartOptions(workflow=workflow, handlers=handlers, **options))


@afl_stream.command("evaluator", short_help="Run an evaluator.")
@until_idle_option
@allow_scripts_option
@new_store_option
@common
@service
def evaluator_command(invocation: Invocation, until_idle: bool) -> ExitCode:
    """Run an evaluator: it applies commands and answers, and publishes events.

    Workflows that have a script are started only with --allow-scripts. Give it to every evaluator of a deployment, or
    to none, because any of them may own a workflow.

    All evaluators of a deployment share one store. An evaluator with another, or with an empty one although its group
    has read records, ends with 3 and says where the right one was last seen; --new-store is for a lost store.

    SIGTERM and Ctrl-C drain: it finishes the current work, then ends with 0.

    \b
    Examples:
      afl-stream evaluator
      afl-stream evaluator --until-idle
      afl-stream evaluator --allow-scripts
    """
    from afl_stream.commands.services import run_evaluator

    return run_evaluator(invocation, until_idle=until_idle)


@afl_stream.command("agent", short_help="Run an agent.")
@handlers_option
@facets_option
@click.option("--registry", is_flag=True, help="Handle what is registered in the store, and follow its changes.")
@click.option("--topics", multiple=True, metavar="PATTERN", help="With --registry: facets that match, as billing.*")
@click.option(
    "--refresh",
    "refresh_s",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="With --registry: how often it is read.",
)
@click.option("--group", metavar="NAME", help="One consumer group for all facets; by default each has its own.")
@until_idle_option
@common
@service
def agent_command(
    invocation: Invocation, handlers: Sequence[str], registry: bool, topics: Sequence[str], **options: Any
) -> ExitCode:
    """Run an agent: it takes the events of facets and answers them with what the handlers return.

    With --registry these are the handlers of `afl-stream handlers`. It follows changes: it subscribes to a facet that
    is registered, replaces a changed handler, and unsubscribes from a facet that is removed.

    SIGTERM and Ctrl-C drain: running handlers finish and are answered, then it ends with 0; with 1 when a handler is
    still running at the end of the grace period (its event is handled again).

    \b
    Examples:
      afl-stream agent --handlers shop.handlers
      afl-stream agent --handlers ./pay.py --facet billing.Pay --until-idle
      afl-stream agent --handlers shop.billing:refund=billing.Refund
      afl-stream agent --registry --topics 'billing.*'
    """
    if not (handlers or registry):
        raise click.UsageError("nothing to handle: give --handlers MODULE, or --registry")
    if topics and not registry:
        raise click.UsageError("--topics goes with --registry")
    find_modules_here()
    from afl_stream.commands.services import run_agent

    return run_agent(invocation, handlers=handlers, patterns=topics if registry else None, **options)


afl_stream.add_command(handlers_group)


@afl_stream.command("audit", short_help="Write down every record as JSON.")
@click.option("--file", "file", default="-", metavar="PATH", help="Where the lines go; by default standard output.")
@click.option("--group", metavar="NAME", help="With --file: the consumer group; by default the file's own.")
@click.option("--from-beginning", is_flag=True, help="Read all that the topics still hold; the default without --file.")
@click.option("--from-end", is_flag=True, help="Without --file: read only what comes from now on.")
@click.option("--until-idle/--follow", default=False, help="End when everything is read, or continue (the default).")
@common
@service
def audit_command(
    invocation: Invocation, file: str, group: str | None, from_beginning: bool, from_end: bool, until_idle: bool
) -> ExitCode:
    """Write a line of JSON for every event, answer, command and milestone, without taking part.

    Without --file it reads all records that the topics hold and every new one, without a consumer group, and commits
    nothing. Any number of audits may do so at once, and each sees every record.

    With --file it reads in a consumer group, and continues where the file stopped: a file gets each record once,
    whatever crashes. Each file has its own group, whose name is kept beside it (PATH.group). Audits with the same
    --group share the records: each record is in one of their files.

    \b
    Examples:
      afl-stream audit --from-end
      afl-stream audit --until-idle | jq 'select(.kind == "answer")'
      afl-stream audit --file audit.jsonl
      afl-stream audit --file audit-1.jsonl --group afl.audit.shared
    """
    is_file = file != "-"
    if from_beginning and from_end:
        raise click.UsageError("--from-beginning and --from-end exclude each other")
    if group is not None and not is_file:
        raise click.UsageError("--group goes with --file PATH: to standard output an audit reads in no group")
    if group is not None and not group.strip():
        raise click.UsageError("--group needs a name")
    if from_end and is_file:
        raise click.UsageError("--from-end is for reading without --file: a file continues where it stopped")
    from afl_stream.commands.services import run_audit

    return run_audit(
        invocation,
        file=Path(file) if is_file else None,
        group=group,
        from_beginning=from_beginning,
        from_end=from_end,
        until_idle=until_idle,
    )


@afl_stream.command("status", short_help="List runs, or show one with its steps.")
@click.argument("workflow_id", required=False)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Most runs that are listed.")
@click.option("--all", "all_steps", is_flag=True, help="Show every step of the run.")
@common
def status_command(invocation: Invocation, **options: Any) -> ExitCode:
    """List the runs; with a WORKFLOW_ID (or the beginning of one) show its steps, outputs, and the first cause if it
    failed.

    Reads the store, so it works while `afl-stream dev` or an evaluator runs.

    \b
    Examples:
      afl-stream status
      afl-stream status order-17
      afl-stream status order-17 --json | jq .outputs
    """
    from afl_stream.commands.status import status

    return status(invocation, **options)


@afl_stream.command("servers", short_help="List the servers that work on the store.")
@click.option("--all", "all_servers", is_flag=True, help="Also list servers that ended more than a day ago.")
@common
def servers_command(invocation: Invocation, **options: Any) -> ExitCode:
    """List the servers that work on the deployment's store: pollers, runners and evaluators, with their state, when
    they were last seen, their handlers, and how many tasks each has handled or failed.

    A server that has not signed off and has missed three heartbeats is shown as stale: others take over its tasks.
    An agent on Kafka is listed with --registry; other agents are known only to the broker, as members of their groups.

    \b
    Examples:
      afl-stream servers
      afl-stream servers --json | jq '.[] | select(.stale)'
    """
    from afl_stream.commands.servers import servers

    return servers(invocation, **options)


@afl_stream.command("continue", short_help="Answer a step by hand.")
@click.argument("step_id")
@click.option("--result", "result_text", required=True, metavar="JSON", help="An object; @FILE or - reads it.")
@common
def continue_command(invocation: Invocation, **options: Any) -> ExitCode:
    """Answer the step STEP_ID by hand. The result is checked against the facet's returns first.

    \b
    Examples:
      afl-stream continue order-17:0a1b2c --result '{"receipt": "r-1"}'
      afl-stream continue order-17:0a1b2c --result @receipt.json
    """
    from afl_stream.commands.answers import continue_step

    return continue_step(invocation, **options)


@afl_stream.command("fail", short_help="Fail a step by hand.")
@click.argument("step_id")
@click.option("--message", default="failed by hand", show_default=True, help="What went wrong.")
@click.option("--type", "error_type", default="Failed", show_default=True, help="The error's class, by name.")
@common
def fail_command(invocation: Invocation, **options: Any) -> ExitCode:
    """Fail the step STEP_ID by hand.

    \b
    Examples:
      afl-stream fail order-17:0a1b2c --message "card declined" --type CardDeclined
    """
    from afl_stream.commands.answers import fail_step

    return fail_step(invocation, **options)


for operator_command in OPERATOR_COMMANDS:
    afl_stream.add_command(operator_command)
afl_stream.add_command(store_group)


@afl_stream.command("config", short_help="Show the settings.")
@common
def config_command(invocation: Invocation) -> ExitCode:
    """Show the settings as a command would use them. Secrets are masked.

    \b
    Examples:
      afl-stream config
      AFL_PREFIX=shop. afl-stream config --json
    """
    from afl_stream.commands.deployment import show_config

    return show_config(invocation)


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
