"""Checks of a deployment, whatever crashed in it: nothing lost, nothing twice, no offset past its effects."""

from __future__ import annotations

from collections.abc import Iterable

from afl.engine.model.store import COMPLETED
from afl.engine.states import EventState, StepState
from afl_stream.transport import Record, TopicPartition
from afl_stream.wire.messages import Event, ExternalEvent, StartWorkflow, StepContinue, StepFailed
from tests.worlds.deployment import Deployment, unique_ids
from tests.worlds.facets import facets_with_events


def assert_delivered(deployment: Deployment, workflow_ids: Iterable[str]) -> None:
    """Every workflow has completed, every step was made and every event asked and answered once."""
    asked: set[str] = set()
    for workflow_id in workflow_ids:
        assert deployment.workflow(workflow_id).status == COMPLETED
        steps = deployment.steps(workflow_id)
        assert [step.number for step in steps] == list(range(len(steps)))
        assert len({step.id for step in steps}) == len(steps)
        places = [(s.container_id, s.block_id, s.statement_id, s.foreach_index) for s in steps]
        assert len(set(places)) == len(places)
        assert {step.state for step in steps} == {StepState.STATEMENT_COMPLETE}
        for step in steps:
            if step.event_state:
                assert (step.attempt, step.event_state) == (1, EventState.COMPLETED)
                asked.add(f"{step.id}#1")
        kinds = [milestone.kind for milestone in deployment.milestones(workflow_id)]
        assert sorted(kinds) == ["workflow.completed", "workflow.started"]
    sent: list[str] = []
    for facet in facets_with_events(deployment.programs):
        sent += unique_ids(deployment.records(deployment.topology.facet(facet)))
    assert sorted(sent) == sorted(asked)
    assert deployment.store.outbox() == []
    assert deployment.store.parked() == []
    assert deployment.store.runnable_workflows() == []


def assert_no_offset_past_its_effect(deployment: Deployment) -> None:
    """Neither the stored positions, nor what the groups have committed, may lie behind unfinished work.

    Offsets are read before their effects, so that parties may be at work meanwhile.
    """
    topology = deployment.topology
    topics = [topology.facet(facet) for facet in facets_with_events(deployment.programs)]
    read = [topology.control(), topology.commands(), topology.external()]
    agents = deployment.committed(deployment.agent_group, topics)
    evaluators = deployment.committed(deployment.config.evaluator_group, read)
    stored = {
        TopicPartition(position.topic, position.partition): offset
        for position, offset in deployment.store.positions().items()
    }
    for place, committed in evaluators.items():
        assert committed.offset <= stored.get(place, 0), f"{place} was committed past the stored position"
    effects = _Effects(deployment)
    for topic in read:
        for record in deployment.records(topic):
            place = record.topic_partition
            if record.offset < stored.get(place, 0):
                assert effects.has(record), f"{place} at {record.offset} has no effect in the store"
    answered = {
        message.step_id
        for message in deployment.messages(topology.control())
        if isinstance(message, StepContinue | StepFailed)
    }
    for topic in topics:
        for record in deployment.records(topic):
            committed_offset = agents.get(record.topic_partition)
            if committed_offset is not None and record.offset < committed_offset.offset:
                event = deployment.codec.decode(record.value, record.headers)
                assert isinstance(event, Event)
                assert event.step_id in answered, f"{event.id} was committed without an answer"


class _Effects:
    """What records have come to in the store. Each workflow is read once: over a wire that takes its time."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._states: dict[str, dict[str, str]] = {}

    def has(self, record: Record) -> bool:
        message = self._deployment.codec.decode(record.value, record.headers, json_allowed=True)
        if isinstance(message, StartWorkflow):
            return self._deployment.store.load_workflow(message.workflow_id) is not None
        if isinstance(message, ExternalEvent):
            assert message.id is not None
            return bool(self._deployment.store.known_events([(message.workflow_id, message.id)]))
        assert isinstance(message, StepContinue)
        workflow_id = message.step_id.partition(":")[0]
        if workflow_id not in self._states:
            self._states[workflow_id] = {s.id: s.event_state for s in self._deployment.steps(workflow_id)}
        return self._states[workflow_id][message.step_id] == EventState.COMPLETED
