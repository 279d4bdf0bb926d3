"""The front door of event-driven workflows: what it gives, and what its users do not have to load."""

import json
import subprocess
import sys
from collections.abc import Collection

import pytest

import afl_stream.pubsub
import afl_stream.pubsub.errors

#: What only a store, a transport, a language model, tracing or the other side of the system needs.
HEAVY_LIBRARIES = ("anthropic", "confluent_kafka", "fastavro", "opentelemetry", "pymongo", "sqlite3")
HEAVY = ("afl.claude", "afl.compiled", "afl.engine", "afl.evaluation", "afl.grammar", "afl.parser", "afl.stores")
#: Names that stand for a library, and the library.
NAMED_AFTER = {"MongoEventStore": "pymongo", "SQLiteEventStore": "sqlite3"}
#: Names that the specification has for what is called otherwise here.
OTHER_NAMES = {"TopicBase": "Topic"}

RUN_ONE = """
import asyncio
from afl_stream.pubsub import EventDrivenWorkflow, InputTopic, InvokeContext, NodeBuilder, OutputTopic, Topic

asked, halves, answers = InputTopic("asked"), Topic("halves"), OutputTopic("answers")
workflow = (
    EventDrivenWorkflow.builder()
    .node(NodeBuilder().name("halve").command(lambda _, events: events[0].data / 2).subscribe(asked).publish_to(halves))
    .node(NodeBuilder().name("add").command(lambda _, events: sum(event.data for event in events))
          .subscribe("halves & asked").publish_to(answers))
    .build()
)


async def run():
    return [event.data async for event in workflow.invoke(InvokeContext(assistant_request_id="one"), 8)]


assert asyncio.run(run()) == [12.0]
"""


def loaded_by(script: str) -> list[str]:
    """Return the modules that a process has loaded after this."""
    script = f"{script}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    modules: list[str] = json.loads(shown)
    return modules


def heavy_in(modules: Collection[str]) -> list[str]:
    return [name for name in modules if name.startswith(HEAVY) or name.split(".")[0] in HEAVY_LIBRARIES]


def test_the_package_itself_loads_nothing_of_ours_but_what_loads_its_names() -> None:
    loaded = loaded_by("import afl_stream.pubsub")

    assert [name for name in loaded if name.startswith("afl_stream.")] == ["afl_stream.pubsub"]
    assert heavy_in(loaded) == []


def test_a_workflow_that_is_built_and_run_in_process_loads_no_broker_no_database_no_model_and_no_engine() -> None:
    loaded = loaded_by(RUN_ONE)

    assert heavy_in(loaded) == []
    # The count is what an image and a start pay for: about 60.
    assert len([name for name in loaded if name.startswith(("afl.", "afl_stream."))]) < 80


def test_the_names_together_load_no_broker_no_model_no_tracing_and_no_engine() -> None:
    names = [name for name in afl_stream.pubsub.__all__ if name not in NAMED_AFTER]
    loaded = loaded_by(f"from afl_stream.pubsub import {', '.join(names)}")

    # Records are Avro: whoever hosts a workflow reads and writes them.
    assert {name.split(".")[0] for name in heavy_in(loaded)} <= {"fastavro"}


@pytest.mark.parametrize("name", sorted(set(NAMED_AFTER) & set(afl_stream.pubsub.__all__)))
def test_a_store_loads_its_own_library_and_no_other(name: str) -> None:
    loaded = loaded_by(f"from afl_stream.pubsub import {name}")

    assert {module.split(".")[0] for module in heavy_in(loaded)} - {"fastavro"} == {NAMED_AFTER[name]}


def test_every_name_of_the_front_door_is_there_and_is_what_it_is_called() -> None:
    names = set(afl_stream.pubsub.__all__)

    assert {name: getattr(afl_stream.pubsub, name).__name__ for name in names} == {
        name: OTHER_NAMES.get(name, name) for name in names
    }
    assert names <= set(dir(afl_stream.pubsub))
    assert list(afl_stream.pubsub.__all__) == sorted(names)


def test_the_names_of_the_specification_are_there() -> None:
    assert {
        "AsyncNodeTracker",
        "AsyncOutputQueue",
        "ConsumeFromTopicEvent",
        "EventDrivenWorkflow",
        "InputTopic",
        "InvokeContext",
        "MergeIdleQueue",
        "Node",
        "OpenInferenceSpanKindValues",
        "OutputTopic",
        "OutputTopicEvent",
        "PublishToTopicEvent",
        "TopicBase",
        "WorkflowBuilder",
        "extract_topics",
    } <= set(afl_stream.pubsub.__all__)


def test_every_error_that_a_caller_may_catch_is_there() -> None:
    raised = afl_stream.pubsub.errors
    errors = {error.__name__ for error in vars(raised).values() if getattr(error, "__module__", "") == raised.__name__}

    assert errors - {"listed_faults"} <= set(afl_stream.pubsub.__all__)


def test_another_name_is_an_attribute_error_that_says_so() -> None:
    with pytest.raises(AttributeError, match=r"module 'afl_stream\.pubsub' has no attribute 'Nothing'"):
        afl_stream.pubsub.Nothing  # type: ignore[attr-defined]  # noqa: B018 - asking for it is the test
