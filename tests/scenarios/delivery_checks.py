"""What must hold of a deployment whatever crashed in it: nothing lost, nothing twice, no offset past its effects."""

from __future__ import annotations

from collections.abc import Iterable

from afl.runtime.persistence import COMPLETED
from afl.runtime.states import EventState, StepState
from afl_stream.embedded import EmbeddedTransport
from afl_stream.messages import Event, StartWorkflow, StepContinue, StepFailed
from afl_stream.transport import CommittedOffset, Record, TopicPartition
from tests.scenarios.loop_harness import Deployment, facets_with_events, unique_ids


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
    """Neither the stored positions, nor what the groups have committed, may lie behind unfinished work."""
    topology = deployment.topology
    stored = {
        TopicPartition(position.topic, position.partition): offset
        for position, offset in deployment.store.positions().items()
    }
    evaluators = _committed(deployment, deployment.config.evaluator_group, [topology.control(), topology.commands()])
    for topic in (topology.control(), topology.commands()):
        for record in deployment.records(topic):
            place = record.topic_partition
            if record.offset < stored.get(place, 0):
                assert _has_effect(deployment, record), f"{place} at {record.offset} has no effect in the store"
    for place, committed in evaluators.items():
        assert committed.offset <= stored.get(place, 0), f"{place} was committed past the stored position"
    answered = {
        message.step_id
        for message in deployment.messages(topology.control())
        if isinstance(message, StepContinue | StepFailed)
    }
    topics = [topology.facet(facet) for facet in facets_with_events(deployment.programs)]
    agents = _committed(deployment, "workers", topics)
    for topic in topics:
        for record in deployment.records(topic):
            committed_offset = agents.get(record.topic_partition)
            if committed_offset is not None and record.offset < committed_offset.offset:
                event = deployment.codec.decode(record.value, record.headers)
                assert isinstance(event, Event)
                assert event.step_id in answered, f"{event.id} was committed without an answer"


def _committed(deployment: Deployment, group: str, topics: list[str]) -> dict[TopicPartition, CommittedOffset]:
    described = deployment.broker.topics()
    places = [TopicPartition(topic, n) for topic in topics for n in range(described[topic].partitions)]
    reader = EmbeddedTransport(deployment.broker).consumer(group)
    found = reader.committed(places)
    reader.close()
    return found


def _has_effect(deployment: Deployment, record: Record) -> bool:
    message = deployment.codec.decode(record.value, record.headers)
    if isinstance(message, StartWorkflow):
        return deployment.store.load_workflow(message.workflow_id) is not None
    assert isinstance(message, StepContinue)
    (step,) = [s for s in deployment.steps(message.step_id.partition(":")[0]) if s.id == message.step_id]
    return step.event_state == EventState.COMPLETED
