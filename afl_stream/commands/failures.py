"""Errors of commands, each with its message and exit code: the one place that maps exceptions to both."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import click

from afl.core.handlers.stuck_handlers import HandlersStuck
from afl.core.process.file_rights import denied_text
from afl.core.process.private_files import OWN_FOLDER
from afl.core.text.exception_text import exception_class, exception_line, exception_text, exception_traceback
from afl.core.text.printable import printable_lines
from afl.engine.errors import (
    ForeignStore,
    StepNotFoundError,
    StoreCorrupt,
    StoreUnavailable,
    UnknownWorkflow,
    VersionMismatchError,
)
from afl.errors import AFLError, CompileError
from afl.scripts.errors import ScriptsNotIsolated, ScriptWorkerUnavailable
from afl_stream.agent.lost_offsets import OffsetsLost
from afl_stream.agent.registry_agent import RegistryUnavailable
from afl_stream.bridge.errors import BridgeTopicMissing
from afl_stream.broker.errors import LocalBrokerError
from afl_stream.client.bulk_starts import StartRefused
from afl_stream.client.client import NotInTime, RefusedByEvaluator
from afl_stream.commands.invocation import Invocation, NothingThere
from afl_stream.commands.refusals import CommandRefused, NotFound
from afl_stream.errors import (
    IdRefused,
    PartitionsDiffer,
    SchemaUnavailable,
    SchemaUnknown,
    TooFewBrokers,
    TooFewPartitions,
    TooManyPartitions,
    TopicMissing,
    TopicTooSmall,
)
from afl_stream.evaluator.deployment_store import WrongStore
from afl_stream.evaluator.offsets import RecordsLost
from afl_stream.evaluator.runs import ServiceEnded
from afl_stream.exit_codes import ExitCode
from afl_stream.programs.definitions import UnknownProgram
from afl_stream.pubsub.errors import NodeFailed, RequestConflict, SubscribedTopicMissing
from afl_stream.pubsub.event_stores.errors import EventStoreUnavailable, EventStoreUnusable
from afl_stream.pubsub.hosting.failures import RequestFailed, RequestNotAnswered
from afl_stream.pubsub.hosting.topics import PartitionsNotEqual, WorkflowTopicMissing
from afl_stream.pubsub.running.errors import EventsNotStored
from afl_stream.settings.store_parts import StorePartsUnreadable
from afl_stream.transport import NotAuthorized, TransportError, UnknownTopic
from afl_stream.visibility.programs import NoSuchProgram
from afl_stream.visibility.workflows import NoSuchWorkflow
from afl_stream.wire.messages import STEP_ID

_log = logging.getLogger(__name__)

_NO_OPTIONS = Invocation()

#: The first row that an error is an instance of decides.
_CODES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], ExitCode], ...] = (
    (NotInTime, ExitCode.TIMEOUT),
    (ServiceEnded, ExitCode.WORK_LEFT),
    (HandlersStuck, ExitCode.WORK_LEFT),
    (RequestNotAnswered, ExitCode.TIMEOUT),
    ((NodeFailed, RequestFailed), ExitCode.WORK_LEFT),
    ((EventStoreUnavailable, EventStoreUnusable, EventsNotStored, RequestConflict), ExitCode.UNAVAILABLE),
    ((WorkflowTopicMissing, PartitionsNotEqual, BridgeTopicMissing, SubscribedTopicMissing), ExitCode.UNAVAILABLE),
    # Not there, or not to be reached.
    ((NotFound, NothingThere, UnknownProgram, UnknownWorkflow, StepNotFoundError), ExitCode.UNAVAILABLE),
    ((NoSuchWorkflow, NoSuchProgram), ExitCode.UNAVAILABLE),
    ((TopicMissing, TopicTooSmall, TooFewBrokers, TooFewPartitions, PartitionsDiffer), ExitCode.UNAVAILABLE),
    (TooManyPartitions, ExitCode.UNAVAILABLE),
    (LocalBrokerError, ExitCode.UNAVAILABLE),
    ((SchemaUnavailable, SchemaUnknown, TransportError, RegistryUnavailable), ExitCode.UNAVAILABLE),
    ((ScriptsNotIsolated, ScriptWorkerUnavailable), ExitCode.UNAVAILABLE),
    ((StoreCorrupt, StoreUnavailable, ForeignStore, VersionMismatchError), ExitCode.UNAVAILABLE),
    (StorePartsUnreadable, ExitCode.UNAVAILABLE),
    ((RecordsLost, OffsetsLost), ExitCode.UNAVAILABLE),
    (WrongStore, ExitCode.UNAVAILABLE),
    # Wrong as it was given, as the rest of ours is: programs, handler modules, settings, ids and values.
    (AFLError, ExitCode.BAD_INPUT),
    (KeyboardInterrupt, ExitCode.INTERRUPTED),
    (BrokenPipeError, ExitCode.INTERRUPTED),
    (OSError, ExitCode.UNAVAILABLE),
)


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the exit code for an error that ended a command."""
    if isinstance(error, StartRefused):
        error = error.reason  # As for a single start.
    return next((code for kinds, code in _CODES if isinstance(error, kinds)), ExitCode.INTERNAL)


def message_of(error: BaseException, invocation: Invocation = _NO_OPTIONS) -> str:
    """Return the message for an error that ended a command."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if exit_code_of(error) is ExitCode.INTERNAL:
        return f"this is a mistake of afl-stream itself: {exception_line(error)} (-v shows where)"
    if isinstance(error, TopicMissing | UnknownTopic):
        # With the options of this call, or it would look elsewhere.
        remedy = invocation.command_line("topics", "apply")
        if isinstance(error, TopicMissing):
            return error.message_with(remedy)
        return f"topic {error.topic} does not exist; create it with: {remedy}"
    if isinstance(error, WorkflowTopicMissing):
        context = click.get_current_context(silent=True)
        workflow = None if context is None else context.params.get("workflow")
        return error.message_with(invocation.command_line("pubsub", "topics", workflow or "MODULE:WORKFLOW", "--apply"))
    if isinstance(error, IdRefused) and error.kind == STEP_ID:
        # A run's id, nearly always.
        run = "WORKFLOW_ID" if ":" in str(error.found) else str(error.found)
        return f"{error}; the ids of a run's steps are shown by: {invocation.command_line('status', run)}"
    if isinstance(error, NotAuthorized):
        return f"{error}; rights are shown, and given, by: {invocation.command_line('topics', 'acls', '--role')} ROLE"
    if isinstance(error, WrongStore):
        return error.message_with(invocation.command_line("evaluator", "--new-store"))
    if isinstance(error, OSError) and error.filename is not None and not isinstance(error, AFLError):
        return _text_of_file(error)
    return exception_text(error)


def _text_of_file(error: OSError) -> str:
    text = f"{error.filename}: {error.strerror}"
    if not isinstance(error, PermissionError):
        return text
    path = Path(os.fsdecode(error.filename))
    other = "; --data-dir names another folder for log and store" if OWN_FOLDER in path.parts else ""
    return f"{text}: {denied_text(path)}{other}"


def report(error: BaseException, invocation: Invocation) -> ExitCode:
    """Print what ended a command, and return its exit code."""
    code = exit_code_of(error)
    terminal = invocation.terminal()
    message = invocation.secrets.masked(message_of(error, invocation))
    if invocation.verbosity or code is ExitCode.INTERNAL:
        level = logging.ERROR if invocation.verbosity else logging.DEBUG
        _log.log(level, "what ended the command\n%s", exception_traceback(error))
    if terminal.as_json:
        # The reader asks for the reason of a refusal, not for its sender.
        kind = error.reason.type if isinstance(error, RefusedByEvaluator) else exception_class(error)
        facts = {"type": kind, "message": message, "exit_code": int(code)}
        terminal.document({"error": facts})
    if isinstance(error, CommandRefused) and error.is_rendered:
        terminal.rendered(message)
    elif isinstance(error, CompileError):
        terminal.rendered(f"Error: {printable_lines(message)}")
    else:
        terminal.warn(f"Error: {message}")
    return code
