"""The evaluator as a service: its parts, the checks before it starts, and the loop that runs it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Final

from afl.core.backoff import Backoff, FailedAttempts
from afl.core.clock import Clock, MonotonicClock, SkippingClock, SystemClock, monotonic_s, thread_s
from afl.core.monitoring.health import Turns
from afl.core.probes import Probe, no_probe
from afl.core.process.collector import tune_collector as tune_collector
from afl.core.process.stopping import Stop
from afl.core.text.warning_limits import LimitedLog
from afl.engine.execution.ports import FailureText, Trace
from afl.engine.execution.run_bounds import RunLimits
from afl.engine.execution.scripts import ScriptRunner
from afl.engine.workflow_cache import WorkflowCache
from afl.scripts.isolation import ASPECTS
from afl.scripts.limits import MEBIBYTE, ScriptLimits
from afl.scripts.pool import ScriptPool
from afl.stores.public.persistence import EngineStore
from afl.telemetry.telemetry import Telemetry
from afl.telemetry.tracing import TelemetryTrace
from afl_stream.acls import not_listed
from afl_stream.errors import ConfigError, SchemaUnavailable, TopicMissing
from afl_stream.evaluator.context import EvaluatorContext
from afl_stream.evaluator.control_loop import ControlLoop, ControlStats
from afl_stream.evaluator.deployment_store import DeploymentStore
from afl_stream.evaluator.dispatch_modes import DispatchByMode
from afl_stream.evaluator.external.early_room import EarlyRoom
from afl_stream.evaluator.monitoring.observer import EvaluatorObserver
from afl_stream.evaluator.outbox import Lanes, OutboxDispatch
from afl_stream.evaluator.parked.parking_limits import ParkingRoom
from afl_stream.evaluator.parts.own_part import OwnPart
from afl_stream.evaluator.sensitive.outgoing import OutgoingValues
from afl_stream.evaluator.sensitive.program_marks import ProgramMarks
from afl_stream.evaluator.sensitive.sealed_store import sealed
from afl_stream.evaluator.step_milestones import StepMilestones
from afl_stream.evaluator.telemetry_sinks import SERVICE_NAME, open_telemetry
from afl_stream.programs.definitions import Definitions
from afl_stream.reading.lag import LagWatch
from afl_stream.reading.watchdog import Health, Watchdog
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.sensitive.deployment import deployment_sealer
from afl_stream.settings.answer_tokens import AnswerTokens, answer_tokens
from afl_stream.settings.config import EvaluatorSettings, StreamConfig
from afl_stream.settings.deadlines import deadlines_of
from afl_stream.settings.sections import ScriptSettings
from afl_stream.topics.declared import Topology
from afl_stream.topics.policies import unsafe_policies
from afl_stream.tracing.evaluators import EvaluatorTracing
from afl_stream.tracing.opening import open_tracer
from afl_stream.tracing.tracer import Tracer
from afl_stream.transport import BrokerUnavailable, Transport
from afl_stream.wire.codec import Codec
from afl_stream.wire.messages import STORE_KEY

_log = logging.getLogger(__name__)

#: Poll time of an idle loop. A record wakes it at once; this is how soon it notices that it should stop.
_IDLE_POLL_S = 0.2
#: Waits between attempts while a schema cannot be looked up.
_BACKOFF: Final = Backoff(first_s=0.1, longest_s=5.0)


def open_script_pool(settings: ScriptSettings) -> ScriptPool:
    """Start the workers.

    Raises ConfigError for a name in `scripts.accept_missing` that is none, ScriptsNotIsolated where this platform does
    not shut scripts off from something that is not accepted there, and ScriptWorkerUnavailable.
    """
    accepted = {name.strip() for name in (settings.accept_missing or "").split(",") if name.strip()}
    if not accepted <= ASPECTS:
        expected = f"some of {', '.join(sorted(ASPECTS))}, separated by commas"
        raise ConfigError("scripts", "accept_missing", settings.accept_missing, expected)
    limits = ScriptLimits(
        wall_s=settings.wall_s,
        cpu_s=settings.cpu_s,
        memory_bytes=settings.memory_mib * MEBIBYTE,
        output_bytes=settings.output_bytes,
        printed_bytes=settings.printed_bytes,
        idle_bytes=settings.idle_mib * MEBIBYTE,
    )
    return ScriptPool(limits, settings.workers, accept_missing=accepted)


class EvaluatorService:
    """One evaluator: a member of the evaluators' group. Created, run and closed by one thread."""

    _pool: ScriptPool | None = None
    _telemetry: Telemetry | None = None
    _tracer: Tracer | None = None
    #: The schema that cannot be looked up now, in words; None: there is no wait.
    _waiting_for: str | None = None

    def __init__(  # noqa: PLR0913 - a public signature, settings by name
        self,
        config: StreamConfig,
        transport: Transport,
        store: EngineStore,
        *,
        clock: Clock | None = None,
        telemetry: Telemetry | None = None,
        probe: Probe = no_probe,
        monotonic_s: MonotonicClock = monotonic_s,
        scripts: ScriptRunner | None = None,
        new_store: bool = False,
        part: OwnPart | None = None,
        tracer: Tracer | None = None,
        observer: EvaluatorObserver | None = None,
    ) -> None:
        """Check the topics and join the group.

        `telemetry` sees every transition and iteration; without it the settings of that name decide. `monotonic_s`
        measures how long an outage lasts. `scripts` runs scripts, where `evaluator.allow_scripts` says so, in place of
        a pool of this service's own. `new_store` gives the deployment this store where it has another one, or where
        that is not known. With a `part` the store is that part of the deployment's, with the part's partitions.
        `tracer` takes the spans, and the caller closes it; without it the settings decide.
        `observer` takes notes for metrics.

        Raises TopicMissing, TopicTooSmall or PartitionsDiffer with the command that corrects it, WrongCluster when the
        store belongs to another cluster, WrongStore when the deployment has another store, and what `open_script_pool`
        and `open_telemetry` raise.
        """
        self._config, self._transport = config, transport
        self._topology = Topology(config)
        self._existing = self._checked_topics()
        sealer = deployment_sealer(config)
        store = sealed(store, sealer, config.sensitive.patterns)
        self._schemas = DeploymentCodec(config, transport, self._topology, sealer)
        codec = self._schemas.codec
        definitions = self._definitions = _definitions(transport, codec, self._topology, store, part)
        lanes = Lanes(config.topics.control_partitions)
        try:
            #: The telemetry of the settings, unless the caller has passed one, which the caller closes.
            self._telemetry = open_telemetry(config.telemetry) if telemetry is None else None
            watching = _enabled(telemetry or self._telemetry)
            tokens = answer_tokens(config.answers)
            #: The tracer of the settings, unless the caller has passed one, which the caller closes.
            self._tracer = open_tracer(config.tracing, SERVICE_NAME) if tracer is None else None
            tracing = self._tracing(tracer or self._tracer, watching)
            values = OutgoingValues(ProgramMarks(store, config.sensitive.patterns), sealer, config.sensitive)
            dispatch = self._dispatch(lanes, tokens, watching, tracing, values)
            trace = partial(TelemetryTrace, watching, values.shown_outputs) if watching is not None else None
            workflows = _workflows(config.evaluator, store, _outgoing(config, dispatch), trace, values.failure_text)
            clock = clock or SystemClock()
            claim = DeploymentStore(
                store, definitions, transport, self._topology, clock, codec.keep_announced, probe, monotonic_s, part
            )
            self._warnings = LimitedLog(_log)
            self._watchdog = Watchdog(config.kafka, f"group {config.evaluator_group}", monotonic_s)
            self.turns, self.lag = Turns(monotonic_s), LagWatch(monotonic_s)
            # Agents and others need no right to announce anything.
            self._schemas.announce_shipped()
            context = EvaluatorContext(
                config=config, store=store, workflows=workflows, dispatch=dispatch, lanes=lanes, codec=codec,
                topology=self._topology, definitions=definitions, store_claim=claim, tokens=tokens, clock=clock,
                busy_s=_busy_clock(clock), parking=ParkingRoom(store, config.evaluator),
                early=EarlyRoom(store, config.evaluator), probe=probe, missing_topics=self._missing_topics,
                topic_missing=self._topic_missing,
                scripts=self._runner(scripts), telemetry=watching, tracing=tracing, sensitive=values, part=part,
                observer=observer,
            )  # fmt: skip
            self.loop = ControlLoop(context, transport, probe, new_store=new_store)
        except BaseException:
            self._release()
            raise

    def _dispatch(
        self,
        lanes: Lanes,
        tokens: AnswerTokens | None,
        watching: Telemetry | None,
        tracing: EvaluatorTracing | None,
        values: OutgoingValues,
    ) -> OutboxDispatch:
        traceparent = _traceparent_of(watching)
        return OutboxDispatch(
            self._schemas.codec, self._topology, lanes, tokens,
            traceparent=traceparent, tracing=tracing, sensitive=values,
        )  # fmt: skip

    def _tracing(self, tracer: Tracer | None, watching: Telemetry | None) -> EvaluatorTracing | None:
        if tracer is None:
            return None
        has_run_spans = watching is not None and watching.makes_spans
        group, commands = self._config.evaluator_group, self._topology.commands()
        topology = self._topology
        others = {topology.control(), topology.external(), topology.lifecycle()}

        def passes_on(topic: str) -> bool:
            return topic in others or topology.is_dead_letters(topic)

        return EvaluatorTracing(tracer, group, commands, passes_on=passes_on, has_run_spans=has_run_spans)

    def _runner(self, given: ScriptRunner | None) -> ScriptRunner | None:
        """Return what runs scripts: what was given, or else a pool of this service; None where they are not allowed."""
        if not self._config.evaluator.allow_scripts:
            return None
        if given is not None:
            return given
        self._pool = open_script_pool(self._config.scripts)
        return self._pool

    def run(
        self,
        stop: Stop,
        on_batch: Callable[[ControlStats], None] | None = None,
        on_idle: Callable[[], None] | None = None,
    ) -> None:
        """Run until `stop` is set, then finish cleanly.

        `on_batch` is called after each batch, also one of turns without a record. `on_idle` is called after each read
        that returned nothing while no work is left; it may set `stop`.

        A schema that cannot be looked up is waited for, with backoff, and so are brokers that do not answer, for
        `kafka.outage_timeout_s` at most. Every other error ends the service: nothing is lost by it, the next one
        continues from the store.
        """
        try:
            self._run(stop, on_batch, on_idle)
        except BaseException:
            # The other members take over the partitions at once, not after this session's time-out.
            try:
                self.loop.leave()
            finally:
                self._release()
            raise
        self.close()

    def _run(
        self,
        stop: Stop,
        on_batch: Callable[[ControlStats], None] | None,
        on_idle: Callable[[], None] | None,
    ) -> None:
        failures = FailedAttempts(_BACKOFF)
        while not stop.is_set():
            batches = self.loop.batches
            self.turns.turned()
            self.lag.look(self.loop.consumer, self.loop.next_offset)
            try:
                handled = self.loop.run_once(_IDLE_POLL_S)
                self._watchdog.read(self.loop.consumer, handled)
            except SchemaUnavailable as error:
                self._waiting_for = str(error)
                self._watchdog.read(self.loop.consumer, 0, is_reading=False)
                wait_s = failures.next_wait_s()
                self._warnings.warning("waits for schemas", "waiting %.1f s: %s", wait_s, error)
                stop.wait(wait_s)
                continue
            except BrokerUnavailable as error:
                stop.wait(self._watchdog.failed(error))
                continue
            self._waiting_for = None
            failures.reset()
            if on_batch is not None and self.loop.batches != batches:
                on_batch(self.loop.stats())
            elif not handled and on_idle is not None and self.loop.is_idle():
                on_idle()

    @property
    def has_read_all(self) -> bool:
        """Return whether the broker says that no record is left to read. For the thread that calls `run`."""
        return self._watchdog.has_read_all(self.loop.consumer)

    def health(self) -> Health:
        """Return whether the evaluator makes progress. Any thread may call this."""
        found = (self._watchdog.problem, self._waiting_for)
        paused = (f"{p.topic}[{p.partition}]: {why}" for p, why in self.loop.stats().paused.items())
        reasons = (*(reason for reason in found if reason is not None), *paused)
        return Health(ready=not reasons, reasons=reasons)

    def remaining(self) -> str:
        """Describe the work left before it has drained. Takes no lock, because a signal handler calls it."""
        left = self.loop.unacknowledged
        return f"{left} outbox records to be acknowledged by the broker" if left else ""

    def close(self) -> None:
        """Finish the current work and leave the group.

        Running scripts are ended: the next owners of their partitions run them again.
        """
        try:
            self.loop.close()
        finally:
            self._release()

    def _release(self) -> None:
        with ExitStack() as closing:
            # The last first, and each of them also when another one fails to close.
            for part in (self._tracer, self._telemetry, self._pool, self._schemas, self._definitions):
                if part is not None:
                    closing.callback(part.close)

    def _checked_topics(self) -> frozenset[str]:
        """Return the topics that every deployment has, after a check of each.

        Logs settings by which they may lose records.
        """
        admin, names = self._transport.admin(), self._topology.names(())
        existing = admin.topics(names)
        try:
            self._topology.require((), existing)
        except TopicMissing as error:
            raise self._topic_missing(error.topic, error.needed_for) from None
        for finding in unsafe_policies(self._topology, existing, self._config.kafka.bootstrap):
            _log.error("%s", finding)
        return frozenset(existing)

    def _topic_missing(self, topic: str, needed_for: str) -> TopicMissing:
        return not_listed(self._transport.admin(), topic, needed_for, "--role evaluator")

    def _missing_topics(self, wanted: frozenset[str]) -> list[str]:
        """Return the topics that do not exist; the broker is asked again before one is reported missing."""
        if not wanted <= self._existing:
            self._existing = self._transport.admin().topic_names()
        return sorted(wanted - self._existing)


def _enabled(telemetry: Telemetry | None) -> Telemetry | None:
    """Return telemetry that is on; None for any other."""
    return telemetry if telemetry is not None and telemetry.enabled else None


def _traceparent_of(telemetry: Telemetry | None) -> Callable[[str, str], str | None] | None:
    return telemetry.traceparent if telemetry is not None else None


def _busy_clock(clock: Clock) -> MonotonicClock:
    # A clock of a test stands for both: it says what time passes, and what work takes.
    return thread_s if isinstance(clock, SystemClock | SkippingClock) else clock.monotonic_s


def _definitions(
    transport: Transport, codec: Codec, topology: Topology, store: EngineStore, part: OwnPart | None
) -> Definitions:
    """Return the deployed programs; the store replaces those that the topic has lost."""
    return Definitions(
        transport,
        codec,
        topology.definitions(),
        store.load_program,
        store.load_annotations,
        is_keeper=True,
        claim_key=STORE_KEY if part is None else part.claim_key,
    )


def _outgoing(config: StreamConfig, outbox: OutboxDispatch) -> DispatchByMode | StepMilestones:
    by_mode = DispatchByMode(outbox, config.dispatch)
    if config.lifecycle.steps == "off":
        return by_mode
    return StepMilestones(by_mode, outbox, with_results=config.lifecycle.steps == "results")


def _workflows(
    settings: EvaluatorSettings,
    store: EngineStore,
    outgoing: DispatchByMode | StepMilestones,
    trace: Callable[[], Trace] | None,
    failure_text: FailureText,
) -> WorkflowCache:
    return WorkflowCache(
        store,
        outgoing,
        trace=trace,
        prepare=outgoing.prepare,
        hot_steps=settings.hot_steps,
        max_open_events=settings.max_unanswered_events,
        runs_scripts=settings.allow_scripts,
        deadlines=_deadlines(settings),
        failure_text=failure_text,
        run_limits=RunLimits(
            max_steps=settings.max_workflow_steps,
            max_payload_bytes=settings.max_payload_bytes,
            max_value_bytes=settings.max_value_bytes,
            max_state_bytes=settings.max_state_bytes,
        ),
    )


def _deadlines(settings: EvaluatorSettings) -> Callable[[str], int | None] | None:
    """Return the function that gives the time for a facet's events; None where no facet has one by the settings."""
    found = deadlines_of(settings.deadlines or "")
    return found.of if found else None
