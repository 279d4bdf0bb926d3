"""The context that the units of work of one evaluator share: store, engine workflows, codec, and definitions."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from afl.core.clock import Clock, MonotonicClock
from afl.core.probes import Probe, no_probe
from afl.core.text.warning_limits import LimitedLog
from afl.engine.execution.scripts import ScriptRunner
from afl.engine.workflow_cache import WorkflowCache
from afl.stores.public.persistence import EngineStore
from afl.telemetry.telemetry import Telemetry
from afl_stream.errors import TopicMissing
from afl_stream.evaluator.deployment_store import DeploymentStore
from afl_stream.evaluator.external.early_room import EarlyRoom
from afl_stream.evaluator.monitoring.observer import EvaluatorObserver
from afl_stream.evaluator.outbox import Lanes, OutboxDispatch
from afl_stream.evaluator.parked.parking_limits import ParkingRoom
from afl_stream.evaluator.parts.own_part import OwnPart
from afl_stream.evaluator.sensitive.outgoing import OutgoingValues
from afl_stream.programs.definitions import Definitions
from afl_stream.settings.answer_tokens import AnswerTokens
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import Topology
from afl_stream.tracing.evaluators import EvaluatorTracing
from afl_stream.wire.codec import Codec
from afl_stream.wire.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorContext:
    """The context that all units of work of one evaluator share."""

    config: StreamConfig
    store: EngineStore
    workflows: WorkflowCache
    dispatch: OutboxDispatch
    lanes: Lanes
    codec: Codec
    topology: Topology
    definitions: Definitions
    #: The claim of this evaluator's store, checked against the deployment's.
    store_claim: DeploymentStore
    tokens: AnswerTokens | None
    clock: Clock
    #: Seconds of work of the thread that asks, from some moment on: for the shares of a batch's time.
    busy_s: MonotonicClock
    parking: ParkingRoom
    early: EarlyRoom
    #: The topics among these that do not exist. Starting a workflow whose facet has no topic is refused.
    missing_topics: Callable[[frozenset[str]], list[str]]
    #: The error for a topic of these that is needed for something.
    topic_missing: Callable[[str, str], TopicMissing]
    #: Runs the scripts of workflows; None where scripts are not allowed.
    scripts: ScriptRunner | None = None
    #: What is told of each commit; None: nothing is.
    telemetry: Telemetry | None = None
    #: The maker of this evaluator's spans; None: tracing is off.
    tracing: EvaluatorTracing | None = None
    #: What is sensitive in what is sent; None: nothing is, as in tests of a part.
    sensitive: OutgoingValues | None = None
    #: The part of the store that this evaluator has; None: it has the whole store.
    part: OwnPart | None = None
    #: Takes notes for metrics; None: they are off.
    observer: EvaluatorObserver | None = None
    #: Called between two steps of external events, with their name: a crash test raises there.
    probe: Probe = no_probe
    #: Warnings that may repeat for one record after another.
    warnings: LimitedLog = field(
        default_factory=lambda: LimitedLog(logging.getLogger("afl_stream.evaluator.control_loop"))
    )

    @property
    def all_workflows(self) -> EngineStore:
        """The store that has every workflow of the deployment, for reading."""
        return self.store if self.part is None else self.part.everything

    def hiding_inputs(self, program: str, workflow: str) -> AbstractContextManager[None]:
        """Raise errors about a workflow's inputs from inside without the values of its sensitive ones."""
        return nullcontext() if self.sensitive is None else self.sensitive.hiding_inputs(program, workflow)

    def own(self, message: Message) -> Message:
        """Return a message that is for this evaluator's store. Raises OfAnotherPart for any other."""
        return message if self.part is None else self.part.own(message)
