"""What comes into a request: its input, answers to questions in the middle, the next input, and events from outside.

The rules, for an input that `invoke` gets:
  1. Nothing is stored of the request: it is published to the input topics.
  2. The call has an `invoke_id` that this request has seen: the call is repeated, and publishes nothing.
  3. It is a dict whose keys are all names of topics for answers: each value is the answer on that topic. A question
     has to be open there (NoOpenQuestion), but for the same answer again to a request that has not ended.
  4. The request has not ended, and the input equals the last one: the call is repeated, and publishes nothing.
  5. Questions are open: it is the answer. Raises AmbiguousAnswer when they wait on different topics.
  6. A node still has something to do: RequestUnfinished.
  7. Otherwise the request is finished, or waits for what no caller can give: the input is its next one.

A request has not ended while the store says that it runs or has failed: no caller was told an end. A caller that may
repeat a call later gives it an `invoke_id`.

A question is open while its `reply_to` topic has had fewer events than questions were asked. An answer that comes from
outside before its question counts, and the question is then not open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from afl.core.text.exception_text import exception_line
from afl.core.values import ValueRefused, describe_value, plain_value, plain_values
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import EventIds
from afl_stream.pubsub.model.topics import InWorkflowOutputTopic, Topic
from afl_stream.pubsub.running.errors import (
    AmbiguousAnswer,
    BadContext,
    ConditionFailed,
    InputMissing,
    InputRefused,
    NoOpenQuestion,
    RequestUnfinished,
    UnknownTopic,
)

if TYPE_CHECKING:
    from afl_stream.pubsub.running.run import WorkflowRun

_NOTHING: Final = object()


def check_context(workflow: str, context: InvokeContext) -> None:
    """Raise BadContext for a context that no store can keep."""
    for field in ("assistant_request_id", "conversation_id", "invoke_id", "user_id"):
        try:
            plain = plain_value(getattr(context, field), field)
        except ValueRefused as refused:
            raise BadContext(workflow, field, str(refused)) from None
        if not isinstance(plain, str):
            raise BadContext(workflow, field, f"a text was expected, found {describe_value(plain)}")
    if not context.assistant_request_id:
        raise BadContext(workflow, "assistant_request_id", "a request needs a name, and this one is empty")
    try:
        plain_values(context.attributes, "attributes")
    except ValueRefused as refused:
        raise BadContext(workflow, "attributes", str(refused)) from None


def open_questions(run: WorkflowRun) -> dict[str, int]:
    """Return how many questions wait for an answer, by the topic that the answer goes to."""
    asked: dict[str, int] = {}
    for log in run.logs.values():
        if isinstance(log.topic, InWorkflowOutputTopic):
            asked[log.topic.reply_to] = asked.get(log.topic.reply_to, 0) + log.end
    return {topic: count - run.logs[topic].end for topic, count in asked.items() if count > run.logs[topic].end}


def is_taken(topic: Topic, data: object, workflow: str, request_id: str) -> bool:
    """Return whether a topic takes data from outside. Raises ConditionFailed: people and programs send anything."""
    try:
        return topic.accepts(data)
    except Exception as error:
        raise ConditionFailed(workflow, request_id, topic.name, exception_line(error)) from error


async def give_input(run: WorkflowRun, given: object) -> None:
    """Publish what the caller gives to the topics that it is for, by the rules of this module. None gives nothing."""
    name, request_id = run.definition.name, run.request_id
    if given is None:
        if run.is_fresh:
            raise InputMissing(name, request_id)
        return
    data = run.given = plain_value(given, "input")
    inputs = [topic.name for topic in run.definition.input_topics]
    answers = [topic.name for topic in run.definition.in_workflow_input_topics]
    if run.is_fresh:
        await _publish(run, dict.fromkeys(inputs, data))
    elif not _was_seen(run, [*inputs, *answers]):
        if isinstance(data, dict) and data and set(data) <= set(answers):
            await _answer(run, data)
        elif _has_not_ended(run) and data in run.last_inputs.values():
            return
        elif waiting := open_questions(run):
            if len(waiting) > 1:
                raise AmbiguousAnswer(name, request_id, list(waiting))
            await _publish(run, dict.fromkeys(waiting, data))
        elif run.can_move():
            raise RequestUnfinished(name, request_id)
        else:
            await _publish(run, dict.fromkeys(inputs, data))


async def publish_external(
    run: WorkflowRun,
    topic: str,
    data: object,
    *,
    event_id: str | None,
    publisher: str,
    publisher_type: str,
) -> bool:
    """Publish an event from outside, as WorkflowRun.publish_external says."""
    if topic not in run.logs:
        raise UnknownTopic(run.definition.name, run.request_id, topic, tuple(run.logs))
    log, scheduler = run.logs[topic], run.scheduler
    plain = plain_value(data, f"the event for {topic}")
    if not is_taken(log.topic, plain, run.definition.name, run.request_id):
        return False
    scheduler.at_work += 1
    try:
        if scheduler.is_started and log.is_full() and event_id not in run.external_ids:
            await run.room_for(log)
        run.raise_failure()
        # By its place on the topic, which is known only now.
        event_id = event_id or EventIds(run.request_id, publisher, (), log.end).next_id(topic)
        is_new = event_id not in run.external_ids
        if is_new:
            run.external_ids.add(event_id)
            run.publish(log, event_id, plain, publisher, publisher_type, ())
        # What is known may be on its way to the store.
        await run.until_stored()
        return is_new
    finally:
        scheduler.at_work -= 1
        scheduler.rooms.grant_free()
        run.settle()


async def _answer(run: WorkflowRun, answers: Mapping[str, object]) -> None:
    """Publish answers that name their topics."""
    waiting = open_questions(run)
    fresh = {topic: data for topic, data in answers.items() if topic in waiting}
    for topic, data in answers.items():
        if topic not in fresh and not (_has_not_ended(run) and run.last_inputs.get(topic, _NOTHING) == data):
            raise NoOpenQuestion(run.definition.name, run.request_id, topic, list(waiting))
    if fresh:
        await _publish(run, fresh)


def _has_not_ended(run: WorkflowRun) -> bool:
    return run.was_unfinished or run.can_move()


def _was_seen(run: WorkflowRun, topics: Sequence[str]) -> bool:
    """Say whether this call has published its input before."""
    return bool(run.context.invoke_id) and any(_input_id(run, topic) in run.external_ids for topic in topics)


def _input_id(run: WorkflowRun, topic: str) -> str:
    """Return the id of an input: by the caller's id of the call, or by its number on the topic."""
    call = run.context.invoke_id
    ids = EventIds(run.request_id, run.definition.name, (call,) if call else (), 0 if call else run.logs[topic].end)
    return ids.next_id(topic)


async def _publish(run: WorkflowRun, data: Mapping[str, object]) -> None:
    """Publish to these topics, all in one append."""
    name, request_id = run.definition.name, run.request_id
    taking = {topic: value for topic, value in data.items() if is_taken(run.logs[topic].topic, value, name, request_id)}
    if not taking:
        raise InputRefused(name, request_id, list(data))
    run.last_inputs = dict(taking)
    for topic, value in taking.items():
        run.publish_input(topic, _input_id(run, topic), value)
    await run.until_stored()
