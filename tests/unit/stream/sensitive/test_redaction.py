"""What is shown of values: by marks, headers and patterns, in every kind of record that has values."""

from __future__ import annotations

from typing import Any

import pytest

from afl.core.sensitive import SensitivePatterns
from afl_stream.errors import ConfigError
from afl_stream.sensitive.marks import mark_headers, marked_names
from afl_stream.sensitive.redaction import Redaction
from afl_stream.settings.config import StreamConfig
from afl_stream.settings.sensitive import SensitiveSettings
from afl_stream.wire.messages import (
    ContinueAsNew,
    Event,
    ExternalEvent,
    Lifecycle,
    Message,
    StartWorkflow,
    StepContinue,
    StepUpdate,
)

VALUES = {"card": "4111", "cents": 5}
EVENT: dict[str, Any] = {
    "id": "w1:a1#1", "workflow_id": "w1", "execution_id": "w1/1", "step_id": "w1:a1", "state": "Created", "attempt": 1,
    "created_at": 1,
}  # fmt: skip
RECORDS: dict[str, Message] = {
    "event": Event(**EVENT, event_type="shop.Charge", payload=VALUES),
    "answer": StepContinue(step_id="w1:a1", result=VALUES),
    "update": StepUpdate(step_id="w1:a1", partial=VALUES),
    "start": StartWorkflow(workflow_id="w1", workflow="shop.Charge", inputs=VALUES),
    "continue": ContinueAsNew(workflow_id="w1", inputs=VALUES),
    "outputs": Lifecycle(workflow_id="w1", kind="workflow.completed", at=1, workflow="shop.Charge", outputs=VALUES),
    "step": Lifecycle(
        workflow_id="w1",
        kind="step.completed",
        at=1,
        workflow="shop.W",
        step_id="w1:a1",
        facet="shop.Charge",
        outputs=VALUES,
    ),
    "external": ExternalEvent(workflow_id="w1", name="shop.Charge", value=VALUES),
}


@pytest.mark.parametrize("message", RECORDS.values(), ids=RECORDS)
def test_a_pattern_hides_a_value_in_every_record(message: Message) -> None:
    shown = repr(Redaction(SensitivePatterns(["shop.Charge.card"])).message(message))

    assert "4111" not in shown
    assert "'card': '[sensitive]', 'cents': 5" in shown


@pytest.mark.parametrize("name", [name for name in RECORDS if name != "external"])
def test_a_header_hides_a_value(name: str) -> None:
    assert "4111" not in repr(Redaction().message(RECORDS[name], mark_headers({"card"})))


@pytest.mark.parametrize("message", RECORDS.values(), ids=RECORDS)
def test_without_marks_a_record_is_the_same_object(message: Message) -> None:
    assert Redaction().message(message) is message
    assert Redaction(SensitivePatterns(["shop.Charge.pin"])).message(message) is message


def test_where_the_owner_is_unknown_a_pattern_of_any_owner_hides() -> None:
    assert Redaction(SensitivePatterns(["other.Facet.card"])).of(None, VALUES) == {"card": "[sensitive]", "cents": 5}
    assert Redaction(SensitivePatterns(["other.Facet.card"])).of("shop.Charge", VALUES) is VALUES


def test_encrypted_and_erased_values_say_so_at_every_depth() -> None:
    sealed, erased = "afl-sealed:1:ab:QUJD", "afl-sealed:erased"

    shown = Redaction(reveals=True).of(
        "f", {"a": sealed, "b": [erased, {"c": sealed}], "d": {"e": {"f": erased}}, "g": 1}
    )

    assert shown == {"a": "[encrypted]", "b": ["[erased]", {"c": "[encrypted]"}], "d": {"e": {"f": "[erased]"}}, "g": 1}


def test_those_who_may_see_everything_do() -> None:
    assert Redaction(SensitivePatterns(["card"]), reveals=True).of("f", VALUES, {"cents"}) is VALUES


@pytest.mark.parametrize(
    ("pattern", "owner", "name", "takes"),
    [
        ("card", "a.b.F", "card", True),
        ("card", "a.b.F", "cards", False),
        ("a.F.card", "a.F", "card", True),
        ("a.F.card", "a.FF", "card", False),
        ("*.card", "x.F", "card", True),
        ("a.*.pass*", "a.b.F", "password", True),
        ("a.?.card", "a.F", "card", True),
        ("a.?.card", "a.FF", "card", False),
    ],
)
def test_what_patterns_take(pattern: str, owner: str, name: str, takes: bool) -> None:
    assert SensitivePatterns([pattern]).takes(owner, name) is takes


def test_a_pattern_that_can_be_none_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"sensitive.fields: found 'shop/Charge', expected names like"):
        StreamConfig(sensitive=SensitiveSettings(fields="card, shop/Charge"))


def test_headers_name_what_they_were_given() -> None:
    headers = mark_headers({"b", "a"}, {"r"})

    assert dict(headers) == {"afl_sensitive": b"a,b", "afl_sensitive_returns": b"r"}
    assert marked_names(headers) == {"a", "b"}
    assert mark_headers(()) == ()
    assert marked_names(()) == frozenset()
