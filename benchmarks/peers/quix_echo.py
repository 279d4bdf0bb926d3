"""The agent in Quix Streams: `python -m benchmarks.peers.quix_echo`, told by its environment what to do.

A checkpoint flushes the producer before it commits, so that offsets follow acknowledgements without more being said.
"""

from typing import Any

from quixstreams import Application
from quixstreams.models import Deserializer, SerializationContext, Serializer

from benchmarks.peers.answers import (
    ANSWERS,
    BOOTSTRAP,
    COMMIT_INTERVAL_S,
    EVENTS,
    GROUP,
    IS_ANSWERING,
    Answering,
    answering,
)


class EventDeserializer(Deserializer):  # type: ignore[misc]  # its library is not here
    """Reads events."""

    def __init__(self, answerer: Answering) -> None:
        super().__init__()
        self._answerer = answerer

    def __call__(self, value: bytes, ctx: SerializationContext) -> dict[str, Any]:
        return self._answerer.event_of(value)


class AnswerSerializer(Serializer):  # type: ignore[misc]  # its library is not here
    """Writes what is to be sent, which is bytes already."""

    def __call__(self, value: dict[str, Any], ctx: SerializationContext) -> bytes:
        answer: bytes = value["answer"]
        return answer


def main() -> None:
    """Answer what comes, or send it on, until SIGTERM."""
    app = Application(
        broker_address=BOOTSTRAP,
        consumer_group=GROUP,
        auto_offset_reset="earliest",
        commit_interval=COMMIT_INTERVAL_S,
        processing_guarantee="at-least-once",
        auto_create_topics=False,
        producer_extra_config={"partitioner": "murmur2_random"},
        loglevel="WARNING",
    )
    if IS_ANSWERING:
        answerer = answering()
        events = app.topic(EVENTS, key_deserializer="bytes", value_deserializer=EventDeserializer(answerer))
        answers = app.topic(ANSWERS, key_serializer="bytes", value_serializer=AnswerSerializer())
        frame = app.dataframe(events)
        frame = frame.apply(lambda event: {"key": event["workflow_id"].encode(), "answer": answerer.answer_to(event)})
        frame.to_topic(answers, key=lambda answer: answer["key"])
    else:
        events = app.topic(EVENTS, key_deserializer="bytes", value_deserializer="bytes")
        answers = app.topic(ANSWERS, key_serializer="bytes", value_serializer="bytes")
        app.dataframe(events).to_topic(answers)
    app.run()


if __name__ == "__main__":
    main()
