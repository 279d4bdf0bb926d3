"""The programs of flows and of requests: read once, and the same in every layout of their sources."""

from __future__ import annotations

from dataclasses import replace

import pytest

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.engine.model.entities import FlowDefinition, SourceText
from afl.stores.memory.store import MemoryStore
from afl.workers.service.flow_programs import FlowNotRunnable, FlowPrograms
from afl.workers.service.requests import WorkflowIdTaken, request_workflow
from tests.unit.workers.runner_shop import Flows, flow_of

SUM = "namespace free { workflow Sum(a: Long, b: Long = 2) => (c: Long) andThen { yield Sum(c = $.a + $.b) } }"


def program(text: str = SUM) -> CompiledProgram:
    return CompiledProgram(compile_text(text).program_json)


def test_a_flow_is_read_once_while_its_texts_stay_the_same() -> None:
    text = SourceText("free.afl", SUM)
    programs = FlowPrograms(MemoryStore(), Flows(flow_of(text)))
    first = programs.load("f1")
    assert programs.load("f1") is first

    text.content = SUM.replace("$.a", "1 + $.a")

    changed = programs.load("f1")
    assert changed.fingerprint != first.fingerprint
    assert programs.load("f1") is changed


def test_flows_with_the_same_texts_share_a_program() -> None:
    class AnyFlow:
        def get_by_id(self, flow_id: str) -> FlowDefinition:
            return replace(flow_of(SourceText("free.afl", SUM)), uuid=flow_id)

    programs = FlowPrograms(MemoryStore(), AnyFlow())

    assert programs.load("f1") is programs.load("f2")


def test_programs_of_large_texts_are_not_all_kept() -> None:
    padding = f"// {'x' * 5_000_000}\n"
    texts = {"f1": padding + SUM, "f2": padding + SUM.replace("Sum", "Total")}

    class LargeFlows:
        def get_by_id(self, flow_id: str) -> FlowDefinition:
            return flow_of(SourceText("free.afl", texts[flow_id]))

    programs = FlowPrograms(MemoryStore(), LargeFlows())
    first = programs.load("f1")
    programs.load("f2")

    assert programs.load("f1") is not first


def test_a_program_that_the_store_keeps_is_read_once() -> None:
    store = MemoryStore()
    request_workflow(store, program(), "Sum", {"a": 1})
    programs = FlowPrograms(store)

    found = programs.load(program().fingerprint)

    assert found.tree == program().tree
    assert programs.load(program().fingerprint) is found


def test_a_flow_that_is_not_there_is_looked_for_each_time() -> None:
    store = MemoryStore()
    programs = FlowPrograms(store)
    with pytest.raises(FlowNotRunnable):
        programs.load(program().fingerprint)

    request_workflow(store, program(), "Sum", {"a": 1})

    assert programs.load(program().fingerprint).fingerprint == program().fingerprint


def test_a_request_is_the_same_in_every_layout_of_the_source() -> None:
    store = MemoryStore()
    asked = request_workflow(store, program(), "Sum", {"a": 1}, workflow_id="w1")

    again = request_workflow(store, program("// moved\n\n" + SUM), "Sum", {"a": 1}, workflow_id="w1")

    assert again.uuid == asked.uuid
    with pytest.raises(WorkflowIdTaken):
        request_workflow(store, program(SUM.replace("= 2", "= 3")), "Sum", {"a": 1}, workflow_id="w1")
