"""An event in each of its forms: its bytes, and the CPU that writing and reading it take.

    python -m benchmarks.event_forms [--events 5000] [--rounds 5]

The last line is one JSON object. `confluent` differs from `avro` in five bytes of framing, and in no time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any, Final

from afl.core.declared_returns import DeclaredReturns
from afl_stream.wire.codec import Codec, single_object_codec
from afl_stream.wire.event_writers import EventForm
from afl_stream.wire.messages import Event
from afl_stream.wire.schema_source import InMemorySchemaLog

_PARAMS: Final[list[dict[str, Any]]] = [
    {"name": "order", "type": "String"},
    {"name": "amount", "type": "Double"},
    {"name": "count", "type": "Long"},
    {"name": "express", "type": "Boolean"},
    {"name": "tags", "type": {"type": "ArrayType", "elementType": "String"}},
]
_PAYLOAD: Final = {"order": "order-17", "amount": 12.5, "count": 3, "express": True, "tags": ["new", "gift"]}
_EVENT: Final = Event(
    id="order-17:d8b0150fe744575dcaee686c#1", workflow_id="order-17", execution_id="order-17/1",
    step_id="order-17:d8b0150fe744575dcaee686c", event_type="shop.Charge", state="Created", payload=_PAYLOAD,
    attempt=1, created_at=1_764_000_000_000,
)  # fmt: skip
_FORMS: Final = (EventForm.AVRO, EventForm.JSON, EventForm.CLOUDEVENTS)


def measured(form: EventForm, events: int, rounds: int) -> dict[str, Any]:
    """Return the bytes of an event in a form, and the microseconds of CPU that each way takes."""
    codec: Codec = single_object_codec(InMemorySchemaLog(), event_form=lambda _facet: form)
    writer = codec.event_writer("shop.Charge", _PARAMS, returns=DeclaredReturns(("receipt",)), source="/afl-stream")
    value = writer.encode(_EVENT)
    assert codec.decode(value, json_allowed=True) == _EVENT
    return {
        "bytes": len(value),
        "write_us": _least(lambda: writer.encode(_EVENT), events, rounds),
        "read_us": _least(lambda: codec.decode(value, json_allowed=True), events, rounds),
    }


def _least(call: Callable[[], object], events: int, rounds: int) -> float:
    found = []
    for _ in range(rounds):
        begun_s = time.process_time()
        for _ in range(events):
            call()
        found.append((time.process_time() - begun_s) / events)
    return round(min(found) * 1e6, 1)


def main() -> None:
    """Measure each form and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    found = {form.value: measured(form, given.events, given.rounds) for form in _FORMS}
    for form, figures in found.items():
        print(f"{form:12} {figures['bytes']:5} bytes  write {figures['write_us']:6} us  read {figures['read_us']:6} us")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
