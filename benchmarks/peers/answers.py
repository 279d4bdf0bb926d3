"""What the agents of other frameworks do with an event: read it with fastavro, and write its answer with fastavro.

Their environments have neither AFL Stream's codec nor its libraries. What is to be done comes from the environment.
"""

import json
import os
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.schema import fingerprint, to_parsing_canonical_form

BOOTSTRAP: Final = os.environ["DRAIN_BOOTSTRAP"]
GROUP: Final = os.environ["DRAIN_GROUP"]
EVENTS: Final = os.environ["DRAIN_EVENTS"]
ANSWERS: Final = os.environ["DRAIN_ANSWERS"]
COMMIT_INTERVAL_S: Final = float(os.environ["DRAIN_COMMIT_INTERVAL_S"])
#: Whether events are answered, or sent on as they came, which is less work.
IS_ANSWERING: Final = os.environ["DRAIN_MODE"] == "answer"

#: Avro's single-object encoding: two bytes, eight of the schema's fingerprint, the body.
_MARKER: Final = b"\xc3\x01"
_BODY: Final = 10


class Answering:
    """Answers events of one schema, as the handler of our agent does."""

    def __init__(self, event_schema: Path, answer_schema: Path) -> None:
        self._event = parse_schema(json.loads(event_schema.read_text()))
        answer = json.loads(answer_schema.read_text())
        digest = fingerprint(to_parsing_canonical_form(answer), "CRC-64-AVRO")
        self._head = _MARKER + bytes.fromhex(digest)
        self._answer = parse_schema(answer)

    def event_of(self, value: bytes) -> dict[str, Any]:
        """Return the event in a record."""
        body = BytesIO(value)
        body.seek(_BODY)
        event = schemaless_reader(body, self._event, None)
        assert isinstance(event, dict)
        return event

    def answer_to(self, event: dict[str, Any]) -> bytes:
        """Return the record that answers an event."""
        payload = event["payload"]
        result = {"count": payload["count"] + 1, "text": payload["text"], "share": payload["share"]}
        out = BytesIO()
        out.write(self._head)
        answer = {
            "step_id": event["step_id"],
            "workflow_id": event["workflow_id"],
            "event_id": event["id"],
            "attempt": event["attempt"],
            "result": {name: {"value": value} for name, value in result.items()},
            "agent": GROUP,
        }
        schemaless_writer(out, self._answer, answer)
        return out.getvalue()


def answering() -> Answering:
    """Return what answers the events of this run."""
    return Answering(Path(os.environ["DRAIN_EVENT_SCHEMA"]), Path(os.environ["DRAIN_ANSWER_SCHEMA"]))
