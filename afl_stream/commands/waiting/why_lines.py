"""The report of what a run waits for, as lines for people and as a document with whole commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from afl.core.text.printable import printable
from afl_stream.commands.invocation import Invocation
from afl_stream.commands.terminal import time_text

if TYPE_CHECKING:
    from afl.stores.public.persistence import EngineStore
    from afl_stream.transport import Transport
    from afl_stream.visibility.waiting.report import Cause, Wait, WaitReport

#: Steps that are shown; --json has all.
_MOST_WAITS: Final = 20


def report_lines(invocation: Invocation, report: WaitReport) -> Iterator[str]:
    """Yield the report for people: the run, its own causes, then each step with its causes."""
    yield f"{report.workflow or 'run'}  {report.workflow_id}"
    yield report.status if report.waits or not report.causes else f"{report.status}:"
    yield from _cause_lines(invocation, report.causes, "  ")
    if not report.waits and not report.causes:
        yield "no step of it waits: it is running"
    for wait in report.waits[:_MOST_WAITS]:
        yield ""
        yield from _wait_lines(invocation, wait)
    if len(report.waits) > _MOST_WAITS:
        yield f"... and {len(report.waits) - _MOST_WAITS:,} more steps that wait (--json has all)"
    for note in report.unknown:
        yield f"not known: {note}"


def why_lines(invocation: Invocation, store: EngineStore | None, transport: Transport, workflow_id: str) -> list[str]:
    """Return what a run waits for, as `why` says it, for a command whose wait is over. Raises nothing of its own."""
    from afl.core.errors import AFLError
    from afl_stream.visibility.waiting.explaining import explain

    try:
        report = explain(invocation.settings(), workflow_id, store=store, transport=transport)
    except AFLError as error:
        return [f"what it waits for is not known: {error}"]
    return list(report_lines(invocation, report))


def report_document(invocation: Invocation, report: WaitReport) -> dict[str, object]:
    """Return the report for programs: commands are whole, as they would be typed."""

    def cause_document(cause: Cause) -> dict[str, object]:
        commands = [command_text(invocation, words) for words in cause.commands]
        return {"code": cause.code.value, "text": cause.text, "commands": commands}

    document = report.document()
    document["causes"] = [cause_document(cause) for cause in report.causes]
    waits = document["waits"]
    assert isinstance(waits, tuple | list)
    document["waits"] = [
        {**entry, "causes": [cause_document(cause) for cause in wait.causes]}
        for entry, wait in zip(waits, report.waits, strict=True)
    ]
    return document


def _wait_lines(invocation: Invocation, wait: Wait) -> Iterator[str]:
    attempt = f", attempt {wait.attempt}" if wait.attempt > 1 else ""
    yield f"{printable(wait.path)} ({printable(wait.facet)}){attempt}"
    yield f"  step {wait.step_id}"
    if wait.line is not None:
        where = f"line {wait.line}" if wait.file is None else f"{wait.file}:{wait.line}"
        yield f"  {where}{'' if wait.source is None else f': {printable(wait.source)}'}"
    if wait.since_ms:
        deadline = "" if wait.deadline_ms is None else f", until {time_text(wait.deadline_ms)}"
        yield f"  since {time_text(wait.since_ms)}{deadline}"
    if wait.topic is not None:
        yield f"  {_event_text(wait)}"
    if wait.group is not None and wait.partition is not None:
        yield f"  {_group_text(wait)}"
    yield from _cause_lines(invocation, wait.causes, "  ")


def _event_text(wait: Wait) -> str:
    if wait.partition is None:
        return f"topic {wait.topic}"
    return f"event at {wait.topic}[{wait.partition}]{'' if wait.offset is None else f' offset {wait.offset}'}"


def _group_text(wait: Wait) -> str:
    if wait.members is None:
        members = "members not known"
    elif not wait.members:
        members = "no members"
    else:
        members = f"{len(wait.members)} member{'s' * (len(wait.members) != 1)}: {', '.join(wait.members)}"
    return f"group {wait.group}: lag {wait.lag or 0:,} in this partition, {members}"


def _cause_lines(invocation: Invocation, causes: Sequence[Cause], indent: str) -> Iterator[str]:
    for cause in causes:
        yield f"{indent}{cause.code}: {printable(cause.text, 2_000)}"
        for words in cause.commands:
            yield f"{indent}  {command_text(invocation, words)}"


def command_text(invocation: Invocation, words: Sequence[str]) -> str:
    """Return a command as it would be typed here: on a log that nobody holds, services run one after another."""
    is_service = words[0] in ("agent", "evaluator") and not invocation.is_shared()
    return invocation.command_line(*words, *(("--until-idle",) if is_service else ()))
