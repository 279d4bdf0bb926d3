"""Entities become dictionaries, and share nothing."""

from __future__ import annotations

import dataclasses
from inspect import Parameter

from afl.runtime import entities
from tests.unit.surface.shapes import default_of


def test_every_entity_becomes_a_dictionary() -> None:
    kinds = [cls for cls in vars(entities).values() if isinstance(cls, type) and dataclasses.is_dataclass(cls)]
    for cls in kinds:
        needed = {field.name: field.name for field in dataclasses.fields(cls) if default_of(field) is Parameter.empty}

        assert dataclasses.asdict(cls(**needed)).items() >= needed.items(), cls
    assert len(kinds) >= 31


def test_entities_inside_entities_become_dictionaries_too() -> None:
    flow = entities.FlowDefinition("u", entities.FlowIdentity("n", "p", "i"))
    flow.compiled_sources.append(entities.SourceText("a", "text"))
    lock = entities.LockDefinition("k", meta=entities.LockMetaData(topic="t"))

    assert dataclasses.asdict(flow)["name"] == {"name": "n", "path": "p", "uuid": "i"}
    assert dataclasses.asdict(flow)["compiled_sources"] == [{"name": "a", "content": "text", "language": "afl"}]
    assert dataclasses.asdict(lock)["meta"] == {"topic": "t", "handler": None, "step_name": None, "step_id": None}


def test_two_entities_share_no_list() -> None:
    first, second = (entities.ServerDefinition("u", "g", "s", "n") for _ in range(2))
    first.topics.append("t")

    assert second.topics == []
