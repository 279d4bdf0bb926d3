"""A whole deployment in one process, on the embedded transport: evaluator, agents and audit, each on a thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from afl.compiled.program import CompiledProgram
from afl.core.clock import SkippingClock
from afl.core.process.private_files import make_private_folder, protect
from afl.core.process.stopping import StopFlag
from afl.core.text.exception_text import exception_traceback
from afl.engine.model.store import ENDED_STATUSES
from afl.engine.operations.unanswered import WaitingStep, waiting_steps
from afl_stream.agent.agent import Agent, AgentConfig
from afl_stream.agent.observer import AgentObserver
from afl_stream.agent.reloading import ReloadingAgent
from afl_stream.audit.audit import Audit, AuditConfig, AuditFile
from afl_stream.audit.following import follow
from afl_stream.client.client import Client, Milestones, drawn_id
from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.evaluator.monitoring.observer import EvaluatorObserver
from afl_stream.evaluator.runs import LONG_WAIT_S, Ending, ServiceEnded, check_same_start
from afl_stream.evaluator.sensitive.sealed_store import sealed
from afl_stream.evaluator.service import EvaluatorService
from afl_stream.evaluator.stores import open_configured_store
from afl_stream.holder.joining import hold
from afl_stream.holder.serving import HolderSocket
from afl_stream.sensitive.deployment import deployment_sealer
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import Topology
from afl_stream.transport import TopicPartition
from afl_stream.wire.command_answers import REFUSED, REJECTED, is_answer_to
from afl_stream.wire.headers import IfExists
from afl_stream.wire.messages import Lifecycle

_log = logging.getLogger(__name__)

#: How often a wait looks at the store and reports its progress. Too short for a person to notice.
_LOOK_INTERVAL_S = 0.1
#: How long nothing may move before a wait asks whether a handler here could answer the open events.
_QUIET_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The counts of a deployment since it was opened: events published, answers to them, and audit lines."""

    asked: int
    answered: int
    audited: int
    elapsed_s: float


class LocalDeployment:
    """Evaluator, agents and audit of one process, around one embedded broker and one store.

    Use it as a context manager. `handlers` are `--handlers` arguments; `set_up_agent` may register more. Without
    handlers there is no agent. `audit_path` None: no audit. `new_store` is EvaluatorService's. The services start with
    `run`; closing drains them: the agent first, then the evaluator, and the audit when it has read everything.
    """

    def __init__(
        self,
        config: StreamConfig,
        *,
        handlers: Sequence[str] = (),
        facets: Sequence[str] = (),
        set_up_agent: Callable[[Agent], object] | None = None,
        audit_path: Path | None = None,
        new_store: bool = False,
        clock: SkippingClock | None = None,
    ) -> None:
        """Open broker and store. With a clock, `wait` moves it over all that a run would wait for.

        Raises FileInUse, FileUnusable, SocketUnusable, the store's errors and HandlerModuleError.
        """
        # It stays in this process, also where the settings name a cluster: so does its store.
        self.config = config = replace(config, transport="embedded")
        self.topology = Topology(config)
        self.audit_path = audit_path
        self._new_store = new_store
        self._skipping = clock
        #: The flag of a wait; each service has its own, which `close` sets in order.
        self._stop = StopFlag()
        self._errors: list[Exception] = []
        self._threads: list[tuple[threading.Thread, Callable[[], None]]] = []
        self._started_s = time.monotonic()
        self._has_work_left = False
        #: The commands that started runs, and that the evaluator has not answered yet.
        self._unanswered: dict[str, str] = {}
        #: Runs that had ended before they were asked for.
        self._were_over: set[str] = set()
        #: By program: whether all of its events are answered here.
        self._answered: dict[str, bool] = {}
        make_private_folder(config.data_dir)
        #: The evaluator, once `run` has started it; and what takes notes for metrics, where the settings have them.
        self.evaluator: EvaluatorService | None = None
        self.observer = EvaluatorObserver(self.topology.facets_of) if config.metrics.are_on else None
        self.audit: Audit | None = None
        self._milestones: Milestones | None = None
        self._base: tuple[int, int] = (0, 0)
        with ExitStack() as opened:
            self.broker = hold(config.log_path)
            opened.callback(self.broker.close)
            store = open_configured_store(config)
            opened.callback(store.close)
            # Closed before the store and the log, and after the services of this process: guests go on until then.
            self._socket = HolderSocket(self.broker, config.log_path)
            opened.callback(self._socket.close)
            self.store = sealed(store, deployment_sealer(config), config.sensitive.patterns)
            self.agent = self._make_agent(handlers, facets, set_up_agent)
            self.transport = EmbeddedTransport(self.broker)
            self.client = Client(config, self.transport)
            opened.callback(self.client.close)
            self._reader = self.transport.consumer(None)
            opened.callback(self._reader.close)
            self._opened = opened.pop_all()

    def __enter__(self) -> LocalDeployment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # --- programs and runs --------------------------------------------------------------------------------------

    def deploy(self, *programs: CompiledProgram) -> None:
        """Create the topics that every deployment has, and those of these programs, and publish the programs."""
        self.client.apply_topics(programs)
        for program in programs:
            self.client.deploy(program)

    @contextmanager
    def opened_transport(self) -> Iterator[EmbeddedTransport]:
        """Open one more view of the log, for another part of this process."""
        transport = EmbeddedTransport(self.broker)
        try:
            yield transport
        finally:
            transport.close()

    @property
    def socket_path(self) -> Path:
        """The socket by which other processes use the log."""
        return self._socket.path

    def run(self) -> None:
        """Start the services. The topics must exist.

        Raises what keeps evaluator or agent from starting: TopicMissing, TopicTooSmall, NoSuchFacet, ...
        """
        self._base = self._high_marks()
        self._milestones = self.client.milestones()
        self._opened.callback(self._milestones.close)
        if self.agent is not None:
            self.agent.start()
        if self.audit_path is not None:
            self._start_audit(self.audit_path)
        stop_evaluator, is_ready = threading.Event(), threading.Event()
        self._spawn("evaluator", lambda: self._run_evaluator(stop_evaluator, is_ready), stop_evaluator.set)
        is_ready.wait()
        self.check()
        if self.agent is not None:
            self._spawn("agent", self._run_agent, self.agent.stop)
        self._started_s = time.monotonic()

    def start(
        self,
        workflow: str,
        inputs: Mapping[str, object],
        *,
        workflow_id: str | None = None,
        if_exists: IfExists | None = None,
    ) -> str:
        """Start a run and return its id; the same id, program and inputs again are the same run.

        `if_exists` is as in Client.start. Raises AlreadyExists and IdInUse when the id is taken, and what that raises.
        """
        if workflow_id is not None:
            program, name = self.client.definitions.find(workflow)
            patterns = self.config.sensitive.patterns
            check_same_start(self.store, workflow_id, name, program, inputs, patterns, if_exists)
        drawn, start = drawn_id(), self.client.start
        workflow_id = start(workflow, inputs, workflow_id=workflow_id, command_id=drawn, if_exists=if_exists)
        self._unanswered[workflow_id] = drawn
        return workflow_id

    def wait(
        self,
        workflow_id: str,
        *,
        timeout_s: float | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        on_long_wait: Callable[[], None] | None = None,
        on_deferred: Callable[[Sequence[WaitingStep]], None] | None = None,
        long_wait_s: float = LONG_WAIT_S,
    ) -> Ending | None:
        """Wait until a run has ended or can go no further; return None when `timeout_s` is over.

        `on_long_wait` is called once, after `long_wait_s`; `on_deferred` with the steps whose handlers have left their
        answer to others, when nothing else moves. Raises the error that ended a service.
        """
        assert self._milestones is not None, "run() comes first"
        began_s = time.monotonic()
        deadline_s = None if timeout_s is None else began_s + timeout_s
        last, quiet_since_s, deferred = self.progress(), time.monotonic(), 0
        while not self._stop.is_set():
            self.check()
            for milestone in self._milestones.read(_LOOK_INTERVAL_S):
                if (refused := self._take(milestone)) is not None and refused.workflow_id == workflow_id:
                    return refused
            now_s, current = time.monotonic(), self.progress()
            if on_progress is not None:
                on_progress(current)
            if (current.asked, current.answered) != (last.asked, last.answered):
                last, quiet_since_s = current, now_s
            is_quiet = now_s - quiet_since_s >= _QUIET_S
            ending = self._ending(workflow_id, is_quiet=is_quiet)
            if ending is not None:
                return ending
            if on_deferred is not None and is_quiet and self._has_deferred(deferred):
                deferred = self._deferred()
                on_deferred(self.at_work(workflow_id))
            if deadline_s is not None and now_s >= deadline_s:
                return None
            if on_long_wait is not None and now_s - began_s >= long_wait_s:
                on_long_wait()
                on_long_wait = None
        self.check()
        return Ending(workflow_id=workflow_id)

    def _deferred(self) -> int:
        """Return how many events handlers of this process have left to others to answer."""
        return 0 if self.agent is None else self.agent.counts.deferred

    def _has_deferred(self, known: int) -> bool:
        """Return whether there are more such events than those known, and no handler is at work."""
        return self._deferred() > known and self.agent is not None and not self.agent.has_work

    def _take(self, milestone: Lifecycle) -> Ending | None:
        """Take in a milestone, and return the end of a run whose start it refuses."""
        workflow_id = milestone.workflow_id
        command_id = self._unanswered.get(workflow_id)
        if command_id is None or not is_answer_to(command_id, milestone):
            return None
        del self._unanswered[workflow_id]
        if milestone.kind in (REJECTED, REFUSED):
            return Ending(workflow_id=workflow_id, rejected=milestone.error)
        if milestone.status in ENDED_STATUSES:
            self._were_over.add(workflow_id)
        return None

    def _ending(self, workflow_id: str, *, is_quiet: bool) -> Ending | None:
        # Until the evaluator has answered, a run of that id may be another one: an older command can be read first.
        row = None if workflow_id in self._unanswered else self.store.load_workflow(workflow_id)
        if row is None:
            return None
        if row.status in ENDED_STATUSES:
            return Ending(workflow_id=workflow_id, row=row, was_over=workflow_id in self._were_over)
        if row.runnable:
            return None
        if self._skipping is not None:
            self._skip(self._skipping, workflow_id)
        if is_quiet and not self._answers_all_of(row.program):
            waiting = waiting_steps(self.store, workflow_id)
            if waiting and not any(self._goes_on(step) for step in waiting):
                return Ending(workflow_id=workflow_id, row=row, waiting=waiting)
        return None

    def _skip(self, clock: SkippingClock, workflow_id: str) -> None:
        """Move the clock to the next time that a run waits for, unless an agent of this process is at work for it.

        Both are of one look at its steps: a deadline of an event that was sent since must not be jumped over.
        """
        waiting = waiting_steps(self.store, workflow_id)
        times = [step.until_ms for step in waiting if step.until_ms is not None]
        if times and not any(self._is_at_work(step) for step in waiting):
            clock.skip_to(min(times))

    def _goes_on(self, step: WaitingStep) -> bool:
        """Return whether what a step waits for comes by itself: an answer of this process, or a time."""
        is_timed = step.until_ms is not None and (step.asks_nobody or self._skipping is not None)
        return is_timed or self._is_at_work(step)

    def _is_at_work(self, step: WaitingStep) -> bool:
        return not step.asks_nobody and self.handles(step.facet)

    def unhandled(self, workflow_id: str) -> tuple[WaitingStep, ...]:
        """Return the steps of a run that wait, and not for an answer of an agent of this process."""
        return tuple(step for step in waiting_steps(self.store, workflow_id) if not self._is_at_work(step))

    def at_work(self, workflow_id: str) -> tuple[WaitingStep, ...]:
        """Return the steps of a run that wait for an answer of an agent of this process."""
        return tuple(step for step in waiting_steps(self.store, workflow_id) if self._is_at_work(step))

    def _answers_all_of(self, fingerprint: str) -> bool:
        """Return whether an agent of this process answers every event of a stored program."""
        if fingerprint not in self._answered:
            text = self.store.load_program(fingerprint)
            program = None if text is None else CompiledProgram.from_text(text)
            self._answered[fingerprint] = (
                program is not None
                # An external event may never come.
                and not any(declared.is_library for declared in program.declarations.values())
                and all(self.handles(facet.qualified_name) for facet in program.event_facets())
            )
        return self._answered[fingerprint]

    def handles(self, facet: str) -> bool:
        """Return whether an agent of this process answers a facet's events."""
        names = () if self.agent is None else self.agent.registered_names()
        return facet in names or facet.rpartition(".")[2] in names

    def progress(self) -> Progress:
        """Return the counts up to now. Any thread may call this that does not wait meanwhile."""
        asked, answered = self._high_marks()
        return Progress(
            asked=asked - self._base[0],
            answered=answered - self._base[1],
            audited=self.audit.counts.written if self.audit is not None else 0,
            elapsed_s=time.monotonic() - self._started_s,
        )

    def _high_marks(self) -> tuple[int, int]:
        """Return how many records all facets' topics, and the control topic, have had."""
        asked = answered = 0
        control = self.topology.control()
        for topic, found in self.broker.topics().items():
            if topic != control and not self.topology.is_facet_topic(topic):
                continue
            marks = [self._reader.watermarks(TopicPartition(topic, n)).high for n in range(found.partitions)]
            if topic == control:
                answered += sum(marks)
            else:
                asked += sum(marks)
        return asked, answered

    # --- services -----------------------------------------------------------------------------------------------

    def _make_agent(
        self, handlers: Sequence[str], facets: Sequence[str], set_up_agent: Callable[[Agent], object] | None
    ) -> ReloadingAgent | None:
        observer = AgentObserver() if self.config.metrics.are_on else None
        settings = AgentConfig(stream=self.config, facets=tuple(facets), observer=observer)
        agent = ReloadingAgent(settings, EmbeddedTransport(self.broker))
        for argument in handlers:
            agent.load_handlers(argument)
        if set_up_agent is not None:
            set_up_agent(agent)
        return agent if agent.registered_names() else None

    def _run_evaluator(self, stop: threading.Event, is_ready: threading.Event) -> None:
        try:
            # Made here: consumers belong to the thread that polls them.
            service = self.evaluator = EvaluatorService(
                self.config,
                EmbeddedTransport(self.broker),
                self.store,
                clock=self._skipping,
                new_store=self._new_store,
                observer=self.observer,
            )
        except Exception as error:
            # Noted before `run` looks, and again by the guard of this thread.
            self._errors.append(error)
            raise
        finally:
            is_ready.set()
        service.run(stop)

    def _run_agent(self) -> None:
        assert self.agent is not None
        self._has_work_left = self.agent.run() != 0

    def _start_audit(self, path: Path) -> None:
        protect(path, self.config.data_dir)
        config = AuditConfig(
            stream=self.config,
            # A group of its own: `afl-stream audit` must not miss the records that are read here.
            group=f"{self.config.prefix}audit.dev",
            commands=True,
            external=True,
            lifecycle=True,
            dead_letters=True,
        )
        audit = Audit(config, EmbeddedTransport(self.broker), AuditFile(path))
        self.audit = audit
        stop = threading.Event()
        self._spawn("audit", lambda: follow(audit, stop.is_set), stop.set)

    def _spawn(self, name: str, work: Callable[[], object], stop: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - the one place of this thread; `check` raises it
                _log.debug("the %s ended\n%s", name, exception_traceback(error))
                self._errors.append(error if isinstance(error, Exception) else ServiceEnded(name, error))
                self._stop.set()

        thread = threading.Thread(target=guarded, name=f"local-{name}", daemon=True)
        self._threads.append((thread, stop))
        thread.start()

    def check(self) -> None:
        """Raise the error that ended a service."""
        if self._errors:
            raise self._errors[0]

    def remaining(self) -> str:
        """Describe the work left before it has drained. Takes no lock, because a signal handler calls it."""
        return "" if self.agent is None else self.agent.remaining()

    def stop(self) -> None:
        """Ask it to end: a wait returns. Safe in a signal handler."""
        self._stop.set()

    @property
    def is_stopping(self) -> bool:
        """Return whether `stop` was called."""
        return self._stop.is_set()

    @property
    def has_work_left(self) -> bool:
        """Whether, once closed, a handler was still running at the end of the grace period."""
        return self._has_work_left

    def wait_for_stop(self, timeout_s: float) -> bool:
        """Wait for `stop`, and return whether it was called. Raises the error that ended a service."""
        stopped = self._stop.wait(timeout_s)
        self.check()
        return stopped

    def close(self) -> None:
        """Drain and end the services, and close everything. `check` raises what went wrong meanwhile."""
        # In reverse order: the audit was started first, and reads what the others still write.
        for thread, stop in reversed(self._threads):
            stop()
            thread.join()
        self._threads.clear()
        self._opened.close()
