"""`afl run`: run a workflow in this process, with the answers to its events read from a file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from afl.commands.inputs import STDIN, Named, WrongInput, check_named, source_options
from afl.commands.terminal import json_findings, report_checked, say, texts_of, write_json
from afl.core.exit_codes import ExitCode
from afl.core.json_objects import DuplicateKey, NotJson, input_value, read_json
from afl.core.process.click_options import strictness_options
from afl.core.values import plain_values
from afl.errors import AFLError

if TYPE_CHECKING:
    from afl.commands.local_run import LocalRun, RaisedEvent
    from afl.compiled.program import CompiledProgram, Declaration
    from afl.engine.execution.scripts import ScriptRunner

#: Kinds of isolation that the platform may lack while scripts still run, the same as for the services.
ACCEPT_MISSING_VARIABLE = "AFL_SCRIPTS_ACCEPT_MISSING"


@contextmanager
def _refusals() -> Iterator[None]:
    """End the command with the matching exit code when the given sources or inputs cannot be run."""
    try:
        yield
    except AFLError as error:
        from afl.sources.mongo import MongoDBUnavailable

        say(f"Error: {error}")
        code = ExitCode.UNAVAILABLE if isinstance(error, MongoDBUnavailable) else ExitCode.BAD_INPUT
        click.get_current_context().exit(code)


@click.command("run")
@click.option("--workflow", metavar="NAME", help="Which workflow.  [default: the only one]")
@click.option("--inputs", metavar="JSON", help="All inputs as an object; @FILE reads a file, - standard input.")
@click.option(
    "-i",
    "--input",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="An input: text for a String, JSON for anything else. Several times for several.",
)
@click.option(
    "--raise",
    "raised",
    multiple=True,
    metavar="NAME=JSON",
    help="Raise an external event with this data. Several times for several, in this order.",
)
@click.option("--skip-time", is_flag=True, help="Jump over waits for a time instead of waiting.")
@click.option("--answers", metavar="FILE", help="A JSON object: event facet -> its result, or a list of results.")
@json_findings
@strictness_options
@source_options
@click.pass_context
@_refusals()
def run_command(  # noqa: PLR0913 - options by name
    ctx: click.Context,
    named: Named,
    workflow: str | None,
    inputs: str | None,
    pairs: tuple[str, ...],
    raised: tuple[str, ...],
    skip_time: bool,
    answers: str | None,
    as_json: bool,
) -> None:
    """Run a workflow of FILEs here and now, and print its outputs as JSON.

    Nothing is stored. Event facets are answered from --answers; an answer {"$error": "message"} fails its step.
    Waits for a time are waited for, or jumped over by --skip-time, which makes events without an answer time out, too.
    The exit code is 1 when the run fails or waits for an event that nobody raises, 2 when nothing was run, and 3 when
    it waits for answers that are not there.
    """
    if inputs == STDIN and STDIN in (named.files or named.primary or (STDIN,)):
        raise WrongInput("--inputs - and the program would both be read from standard input; name a file for one")
    checked = check_named(named)
    report_checked(ctx, checked, as_json=as_json, code=ExitCode.BAD_INPUT)
    from afl.commands.local_run import Answers, RealTime, SkippedTime, run_locally, workflow_name
    from afl.compiled.program import CompiledProgram, ProgramError
    from afl.emitter import emit_dict

    program = CompiledProgram(emit_dict(checked.program, include_sources=True))
    try:
        name = workflow_name(program, workflow)
        known = Answers({} if answers is None else _object(_file(answers, "--answers"), "--answers"), program)
    except ProgramError as error:
        raise WrongInput(str(error)) from error
    given, events = _inputs(pairs, inputs, program.workflow(name)), [_event(text) for text in raised]
    passing = SkippedTime() if skip_time else RealTime(tell=say)
    with ExitStack() as opened:
        opened.enter_context(_workflow_log())
        run = run_locally(program, name, given, known, _scripts(program, opened), events, passing)
    ctx.exit(_report_outcome(run, program, {name: text for text, name in texts_of(checked)}))


@contextmanager
def _workflow_log() -> Iterator[None]:
    """Show `sys.log` messages of the workflow, and warnings about its steps, on standard error."""
    import logging

    from afl.core.text.log_lines import LogLineFormatter

    log = logging.getLogger("afl.workflow")
    handler = logging.StreamHandler()
    handler.setFormatter(LogLineFormatter(line_format="%(levelname)s %(message)s"))
    before = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    # A log file also gets these lines. A log on standard error would show them twice.
    log.propagate = any(isinstance(other, logging.FileHandler) for other in logging.getLogger("afl").handlers)
    try:
        yield
    finally:
        log.removeHandler(handler)
        # setLevel is needed here because it also clears the levels that loggers have cached.
        log.setLevel(before[0])
        log.propagate = before[1]


def _report_outcome(run: LocalRun, program: CompiledProgram, texts: Mapping[str, str]) -> int:
    """Report how a run went, and return the exit code."""
    for facet in run.unused:
        say(f"note: there were more answers for {facet} than events")
    for event in run.untaken:
        say(f"note: event {event} was raised, and no step has waited for it")
    if run.error is not None:
        from afl.engine.errors import InputError

        _report_failure(run.error, program, texts)
        return ExitCode.BAD_INPUT if isinstance(run.error, InputError) else ExitCode.WORK_LEFT
    for awaited in run.awaited:
        say(f"waiting: {awaited.step} for event {awaited.name}")
    if run.awaited:
        say(f"no event is left for that; raise one by --raise {run.awaited[0].name}=JSON")
    if run.waiting:
        for item in run.waiting:
            params = json.dumps(item.params, ensure_ascii=False)
            say(f"waiting: {item.step} for {item.facet} {params}")
        say("no answers are left; give more by --answers FILE")
        return ExitCode.UNAVAILABLE
    if run.awaited:
        return ExitCode.WORK_LEFT
    write_json(run.outputs)
    return ExitCode.OK


def _report_failure(error: Exception, program: CompiledProgram, texts: Mapping[str, str]) -> None:
    """Report why a run failed, with the source line where it happened."""
    from afl.engine.errors import StepFailure
    from afl.output.source_places import find_place, lines_at

    place = None
    if isinstance(error, StepFailure):
        place = find_place(program, error.step_path, error.facet, error.line or 0)
    if place is None or not isinstance(error, StepFailure):
        say(f"Error: {error}")
        return
    say(f"Error: {error.message_with(str(place))}")
    for line in lines_at(place, texts.get(place.source_id)):
        say(line)


def _scripts(program: CompiledProgram, opened: ExitStack) -> ScriptRunner | None:
    """Return what runs the program's scripts, with its workers started; None for a program without scripts."""
    if not _has_script(program.tree):
        return None
    from afl.scripts.pool import ScriptPool

    accepted = os.environ.get(ACCEPT_MISSING_VARIABLE, "")
    accept_missing = [name.strip() for name in accepted.split(",") if name.strip()]
    return opened.enter_context(ScriptPool(accept_missing=accept_missing))


def _has_script(program: Any) -> bool:
    # An own stack instead of recursion: the allowed nesting is deeper than Python's stack.
    pending = [program]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            if node.get("type") == "ScriptBlock":
                return True
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)
    return False


def _inputs(pairs: tuple[str, ...], document: str | None, workflow: Declaration) -> dict[str, Any]:
    """Return the inputs of the document with those of each NAME=VALUE pair over them. A String is taken literally."""
    types = {param["name"]: param.get("type") for param in workflow.node.get("params") or ()}
    if document == STDIN:
        document = sys.stdin.read()
    elif document is not None and document.startswith("@"):
        document = _file(document[1:], "--inputs")
    inputs = {} if document is None else _object(document, "--inputs")
    seen: set[str] = set()
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise WrongInput(f"--input {pair}: wanted NAME=VALUE, for instance --input limit=5")
        if name in seen:
            raise WrongInput(f"--input {name} is given twice; for a list give one: --input '{name}=[1, 2]'")
        seen.add(name)
        try:
            inputs[name] = input_value(text, types.get(name))
        except (DuplicateKey, NotJson) as error:
            raise WrongInput(f"--input {name}: {error}") from error
    return plain_values(inputs, "inputs")


def _event(text: str) -> RaisedEvent:
    """Return the event of a NAME=JSON; without data it is null."""
    from afl.commands.local_run import RaisedEvent

    name, equals, data = text.partition("=")
    if not name:
        raise WrongInput(f"--raise {text}: wanted NAME=JSON, for instance --raise paid=true")
    try:
        value = read_json(data) if equals else None
    except (DuplicateKey, ValueError, RecursionError) as error:
        raise WrongInput(f"--raise {name}: not JSON: {error}; a text has quotes: --raise '{name}=\"text\"'") from error
    return RaisedEvent(name, plain_values({"data": value}, f"--raise {name}")["data"])


def _object(text: str, what: str) -> dict[str, Any]:
    try:
        value = read_json(text)
    except DuplicateKey as error:
        raise WrongInput(f"{what}: {error}") from error
    except (ValueError, RecursionError) as error:
        hint = f"; a file is read with @: @{text}" if os.path.isfile(text) else ""
        raise WrongInput(f"{what}: not JSON: {error}{hint}") from error
    if not isinstance(value, dict):
        raise WrongInput(f'{what}: wanted a JSON object such as {{"name": "value"}}')
    return plain_values(value, what)


def _file(path: str, what: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise WrongInput(f"{what}: {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise WrongInput(f"{what}: {path} is not UTF-8") from error
