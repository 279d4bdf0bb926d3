"""`afl-stream pubsub`, command by command: what it says, refuses, and brings about."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.scenarios.command_lines import Called, CommandLine

#: Small orders are approved by a rule, large ones by a person.
REVIEW = """
from afl_stream.pubsub import (
    EventDrivenWorkflow, InWorkflowInputTopic, InWorkflowOutputTopic, InputTopic, Node, OutputTopic
)

orders, decisions = InputTopic("orders"), OutputTopic("decisions")
ask, said = InWorkflowOutputTopic("ask", reply_to="said"), InWorkflowInputTopic("said")


def check(context, events):
    for event in events:
        yield event.data["order"]


def is_small(order):
    return order <= 10


def is_large(order):
    return order > 10


def rule(context, events):
    return {"approved": True, "by": "rule"}


def question(context, events):
    return f"is {events[0].data} too much?"


def person(context, events):
    return {"approved": events[0].data, "by": "person"}


review = (
    EventDrivenWorkflow.builder()
    .name("review")
    .node(Node.builder().name("check").command(check).subscribe(orders)
          .publish_to("small", when=is_small).publish_to("large", when=is_large))
    .node(Node.builder().name("rule").command(rule).subscribe("small").publish_to(decisions))
    .node(Node.builder().name("question").command(question).subscribe("large").publish_to(ask))
    .node(Node.builder().name("person").command(person).subscribe(said).publish_to(decisions))
    .build()
)


def made():
    return review


number = 7
"""
FAULTY = """
from afl_stream.pubsub import EventDrivenWorkflow, InputTopic, Node

builder = EventDrivenWorkflow.builder().name("faulty").node(
    Node.builder().name("read").command(lambda context, events: 1).subscribe(InputTopic("files")).publish_to("lines")
)
"""


class Shop:
    """The commands of `pubsub` about one workflow."""

    def __init__(self, cli: CommandLine) -> None:
        self.cli = cli
        self.module = cli.file("reviewing.py", REVIEW)
        self.workflow = f"{self.module}:review"

    def __call__(self, command: str, *words: str, workflow: str | None = None) -> Called:
        return self.cli("pubsub", command, self.workflow if workflow is None else workflow, *words)


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    # Tables as on a screen.
    monkeypatch.setenv("COLUMNS", "200")
    return Shop(CommandLine(tmp_path, capsys))


# --- which workflow -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [":review", ":made", ""])
def test_a_workflow_is_named_by_its_module_and_its_name_where_that_is_needed(shop: Shop, name: str) -> None:
    assert shop("check", "--json", workflow=f"{shop.module}{name}").document["name"] == "review"


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("reviewing.py:revew", "module reviewing.py has no revew; did you mean review?"),
        ("reviewing.py:number", "reviewing.py:number is a int; it names an EventDrivenWorkflow"),
        ("reviewing.py:Node", "reviewing.py:Node is the class Node; it names an EventDrivenWorkflow"),
        ("reviewing.py:is_small", "reviewing.py:is_small raised TypeError"),
        ("nowhere:review", "module nowhere: there is no module nowhere"),
        ("broken.py:review", "module broken.py: it raised NameError"),
        ("empty.py", "name the workflow: empty.py:WORKFLOW; it holds no workflow"),
    ],
)
def test_what_is_no_workflow_is_refused_with_what_would_be_one(shop: Shop, argument: str, said: str) -> None:
    shop.cli.file("broken.py", "review = missing\n")
    shop.cli.file("empty.py", "")
    called = shop("draw", workflow=argument)

    assert called.code == 2
    assert said in called.err


# --- check and draw -----------------------------------------------------------------------------------------------


def test_check_lists_nodes_and_topics(shop: Shop) -> None:
    called = shop("check")

    assert called.code == 0
    lines = [" ".join(line.split()) for line in called.out.splitlines()]
    assert lines[0] == "workflow review"
    assert "check orders small when is_small, large when is_large" in lines
    assert "person said decisions" in lines
    assert lines[-4:] == [
        "takes input on orders",
        "gives output on decisions, ask",
        "takes answers on said",
        "asks on ask, and is answered on said",
    ]


def test_check_tells_every_fault_and_ends_with_1(shop: Shop) -> None:
    faulty = f"{shop.cli.file('faulty.py', FAULTY)}:builder"
    called = shop("check", workflow=faulty)

    assert called.code == 1
    assert called.err.splitlines() == [
        "Error: workflow faulty:",
        "  * no node publishes to an OutputTopic, from which the caller takes the output; let one publish there",
        "  * node read publishes to topic lines, and no node is subscribed to it; subscribe a node to it, or make it "
        "an OutputTopic",
    ]
    assert len(shop("check", "--json", workflow=faulty).document["faults"]) == 2
    assert shop("draw", workflow=faulty).code == 2


def test_faults_that_a_module_raises_while_it_loads_are_told_too(shop: Shop) -> None:
    faulty = shop.cli.file("built.py", f"{FAULTY}\nworkflow = builder.build()\n")

    assert "  * no node publishes to an OutputTopic" in shop("check", workflow=faulty).err


def test_draw_writes_mermaid_or_svg(shop: Shop, tmp_path: Path) -> None:
    assert shop("draw").out.splitlines()[:4] == ["---", "title: review", "---", "flowchart TD"]
    assert shop("draw", "--mermaid").out == shop("draw").out

    called = shop("draw", "--svg", str(tmp_path / "review.svg"))

    assert (called.code, called.out) == (0, "")
    assert ElementTree.parse(tmp_path / "review.svg").getroot().tag.endswith("svg")
    assert shop("draw", "--svg", "-").out == (tmp_path / "review.svg").read_text()
    assert shop("draw", "--svg", "-", "--mermaid").code == 2
    assert shop("draw", "--json").document["format"] == "mermaid"


# --- invoke, requests, show -----------------------------------------------------------------------------------------


def test_invoke_shows_the_output_and_ends_with_0(shop: Shop) -> None:
    called = shop("invoke", '{"order": 3}', "--request", "r1")

    assert (called.code, called.out) == (0, 'decisions: {"approved": true, "by": "rule"}\n')
    assert "request r1 is finished" in called.err


def test_a_question_is_answered_by_a_second_call(shop: Shop) -> None:
    asked = shop("invoke", '{"order": 30}', "--request", "r1")

    assert (asked.code, asked.out) == (1, 'ask: "is 30 too much?"\n')
    assert "request r1 waits; answer it with: afl-stream pubsub invoke" in asked.err

    answered = shop("invoke", "true", "--request", "r1", "--topic", "said")

    assert (answered.code, answered.out) == (0, 'decisions: {"approved": true, "by": "person"}\n')


def test_invoke_as_json_is_one_document(shop: Shop) -> None:
    document = shop("invoke", '{"order": 30}', "--request", "r1", "--json").document

    assert document == {
        "request": "r1",
        "status": "waiting",
        "outputs": [{"topic": "ask", "data": "is 30 too much?"}],
    }


def test_an_input_may_come_from_a_file(shop: Shop) -> None:
    shop.cli.file("order.json", '{"order": 2}')

    assert shop("invoke", "@order.json").code == 0


def test_a_node_that_fails_ends_the_command_with_1_and_is_named(shop: Shop) -> None:
    called = shop("invoke", '{"no order": 3}', "--request", "r1")

    assert called.code == 1
    failure, shown, again = called.err.splitlines()[-3:]
    assert failure.endswith("workflow review, request r1: node check failed: KeyError: 'order'")
    assert shown.startswith(f"its events are stored: afl-stream pubsub show {shop.workflow} r1")
    assert f"afl-stream pubsub invoke {shop.workflow} --request r1" in again
    assert shop("requests", "--json").document[0]["status"] == "failed"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give INPUT, or --request ID"),
        (("{",), "INPUT: not JSON"),
        (("hello",), "a text has quotes of its own"),
        (("null",), "null is no input"),
        (("--request", "r1", "--topic", "said"), "--topic goes with INPUT"),
        (("1", "--topic", "sad"), "--topic sad: workflow review takes answers on said"),
    ],
)
def test_a_call_that_means_nothing_is_refused(shop: Shop, words: tuple[str, ...], said: str) -> None:
    called = shop("invoke", *words)

    assert called.code == 2
    assert said in called.err


def test_a_request_that_takes_too_long_ends_with_4_and_can_go_on(shop: Shop) -> None:
    slow = REVIEW.replace("def rule(context, events):", "async def rule(context, events):\n    await GATE.wait()")
    slow = slow.replace("orders, decisions =", "import asyncio\n\nGATE = asyncio.Event()\norders, decisions =")
    module = shop.cli.file("slow.py", slow)

    called = shop("invoke", '{"order": 3}', "--request", "r1", "--timeout", "0.2", workflow=module)

    assert called.code == 4
    assert "request r1: not answered in 0.2 s" in called.err
    assert f"go on with it: afl-stream pubsub invoke {module} --request r1" in called.err
    # The same store and name: a workflow whose rule does not wait goes on with it.
    assert shop("invoke", "--request", "r1").out == 'decisions: {"approved": true, "by": "rule"}\n'


def test_requests_are_listed_with_how_they_stand(shop: Shop) -> None:
    shop("invoke", '{"order": 3}', "--request", "small")
    shop("invoke", '{"order": 30}', "--request", "large")

    listed = [line.split()[:3] for line in shop("requests").out.splitlines()[2:]]
    assert [row[:2] for row in listed] == [["small", "finished"], ["large", "waiting"]]
    assert [each["request"] for each in shop("requests", "--status", "waiting", "--json").document] == ["large"]
    assert "no requests to review in these states" in shop("requests", "--status", "failed").err
    assert shop("requests", workflow="review").out == shop("requests").out


def test_show_tells_a_request_event_by_event(shop: Shop) -> None:
    shop("invoke", '{"order": 3}', "--request", "r1")

    rows = [" ".join(line.split()) for line in shop("show", "r1").out.splitlines()]
    assert rows[0].startswith("request r1 to review: finished; began ")
    assert 'published orders 0 review {"order": 3}' in rows
    assert "published small 0 check 3" in rows
    assert "finished with orders 0 check" in rows
    assert 'output decisions 0 rule {"approved": true, "by": "rule"}' in rows
    document = shop("show", "r1", "--json").document
    assert document["status"] == "finished"
    assert {event["type"] for event in document["events"]} == {
        "PublishToTopicEvent",
        "OutputTopicEvent",
        "ConsumeFromTopicEvent",
    }


def test_a_request_that_is_not_there_is_told_with_near_ids(shop: Shop) -> None:
    assert shop("show", "r1").code == 3
    shop("invoke", '{"order": 3}', "--request", "order-17")

    called = shop("show", "order-71")

    assert called.code == 3
    assert "there is no request to review order-71; did you mean order-17?" in called.err


def test_the_store_of_the_settings_counts(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFL_PUBSUB_STORE", str(tmp_path / "elsewhere" / "events.db"))

    called = shop("invoke", '{"order": 3}', "--request", "r1")

    assert "events.db, as pubsub.store says" in called.err
    assert (tmp_path / "elsewhere" / "events.db").exists()
    assert [each["request"] for each in shop("requests", "--json").document] == ["r1"]


# --- forget ---------------------------------------------------------------------------------------------------------


def test_a_forgotten_request_is_a_new_one_the_next_time(shop: Shop) -> None:
    shop("invoke", '{"order": 30}', "--request", "r1")
    shop("invoke", '{"order": 3}', "--request", "r2")

    forgotten = shop("forget", "r1")

    assert (forgotten.code, forgotten.err.splitlines()[-1]) == (0, "1 request is forgotten")
    assert [each["request"] for each in shop("requests", "--json").document] == ["r2"]
    assert shop("invoke", '{"order": 4}', "--request", "r1").out == 'decisions: {"approved": true, "by": "rule"}\n'


def test_requests_are_forgotten_by_their_age_and_only_those_of_the_workflow(shop: Shop) -> None:
    other = shop.cli.file("other.py", REVIEW.replace('.name("review")', '.name("other")'))
    shop("invoke", '{"order": 3}', "--request", "o1", workflow=other)
    for request_id, order in (("small", 3), ("large", 30)):
        shop("invoke", f'{{"order": {order}}}', "--request", request_id)

    assert shop("forget", "--finished-before", "1h", "--json").document["forgotten"] == 0
    assert shop("forget", "--finished-before", "0s", "--json").document == {
        "workflow": "review",
        "forgotten": 1,
        "kept": [],
    }
    assert [each["request"] for each in shop("requests", "--json").document] == ["large"]
    assert [each["request"] for each in shop("requests", "--json", workflow=other).document] == ["o1"]


def test_a_request_that_was_interrupted_is_kept_but_for_force(shop: Shop) -> None:
    slow = REVIEW.replace("def rule(context, events):", "async def rule(context, events):\n    await GATE.wait()")
    slow = slow.replace("orders, decisions =", "import asyncio\n\nGATE = asyncio.Event()\norders, decisions =")
    shop("invoke", '{"order": 3}', "--request", "r1", "--timeout", "0.2", workflow=shop.cli.file("slow.py", slow))

    kept = shop("forget", "r1")

    assert kept.code == 1
    assert "request r1 is at work, or was interrupted at it: kept, but for --force" in kept.err
    assert shop("forget", "r1", "--force").code == 0
    assert shop("requests", "--json").document == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "give the requests, or --finished-before"),
        (("r1", "--finished-before", "1d"), 2, "give the requests, or --finished-before"),
        (("--finished-before", "soon"), 2, "--finished-before soon: found no age; expected a time such as 30d"),
        (("r2",), 3, "there is no request to review r2"),
    ],
)
def test_what_cannot_be_forgotten_is_told(shop: Shop, words: tuple[str, ...], code: int, said: str) -> None:
    shop("invoke", '{"order": 3}', "--request", "r1")

    called = shop("forget", *words)

    assert called.code == code
    assert said in called.err


# --- topics -------------------------------------------------------------------------------------------------------


def test_topics_shows_what_is_missing_and_creates_it(shop: Shop) -> None:
    planned = shop("topics")
    assert planned.code == 0
    assert "afl.pubsub.review.orders" in planned.out
    assert "10 to create; do it with: afl-stream pubsub topics" in planned.err

    applied = shop("topics", "--apply", "--json")

    assert {plan["action"] for plan in json.loads(applied.out)} == {"create"}
    assert {plan["action"] for plan in shop("topics", "--json").document} == {"ok"}


def test_a_worker_without_topics_says_how_they_are_created(shop: Shop) -> None:
    called = shop("run")

    assert called.code == 3
    assert f"afl-stream pubsub topics {shop.workflow} --apply" in called.err


def test_a_worker_of_which_one_topic_is_missing_says_how_it_is_created(shop: Shop) -> None:
    shop("topics", "--apply", workflow=shop.cli.file("other.py", REVIEW.replace('.name("review")', '.name("other")')))

    called = shop("run")

    assert called.code == 3
    remedy = f"afl-stream pubsub topics {shop.workflow} --apply --data-dir"
    assert f"topic afl.pubsub.review.orders of workflow review does not exist; create it with: {remedy}" in called.err


def test_a_worker_ends_when_it_is_idle_and_says_what_waits(shop: Shop) -> None:
    shop("topics", "--apply")
    shop("invoke", '{"order": 30}', "--request", "large")

    called = shop("run", "--until-idle")

    assert called.code == 0
    assert f"1 request waits for an answer: afl-stream pubsub requests {shop.workflow} --status waiting" in called.err
    assert shop("run", "--until-idle", "--json").document["requests_waiting"] == 1


def test_a_request_that_waits_for_no_answer_is_not_said_to_wait_for_one(shop: Shop) -> None:
    both = REVIEW.replace('.subscribe("small")', '.subscribe("small & large")')
    module = shop.cli.file("both.py", both)

    called = shop("invoke", '{"order": 3}', "--request", "r1", workflow=module)

    assert called.code == 1
    assert (
        f"r1 waits for events that none of its nodes makes now; what there is: afl-stream pubsub show {module} r1"
        in (called.err)
    )
