"""Workflows as they are declared: what they hold, and every fault by a sentence."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from afl_stream.pubsub import (
    EventDrivenWorkflow,
    InputTopic,
    InWorkflowInputTopic,
    InWorkflowOutputTopic,
    Node,
    On,
    OpenInferenceSpanKindValues,
    OutputTopic,
    Topic,
    WorkflowBuilder,
)
from afl_stream.pubsub.errors import WorkflowInvalid
from afl_stream.pubsub.model.definition import WorkflowDefinition
from afl_stream.pubsub.model.expressions import TopicExpression
from afl_stream.pubsub.model.function_calling import link_functions
from afl_stream.pubsub.model.function_command import FunctionCommand
from afl_stream.pubsub.model.topics import Condition

IN, OUT = InputTopic("in"), OutputTopic("out")
A, B, C = Topic("a"), Topic("b"), Topic("c")


def nothing(context: object, events: object) -> None:
    return None


def is_final(data: object) -> bool:
    return data == "final"


def node(
    name: str, subscription: TopicExpression | Topic | str, *destinations: Topic | tuple[Topic, Condition]
) -> Node:
    builder = Node.builder().name(name).command(nothing).subscribe(subscription)
    for to in destinations:
        if isinstance(to, tuple):
            builder.publish_to(to[0], when=to[1])
        else:
            builder.publish_to(to)
    return builder.build()


def faults_of(nodes: Iterable[Node], **settings: Any) -> list[str]:
    with pytest.raises(WorkflowInvalid) as raised:
        WorkflowDefinition.of(nodes=nodes, **settings)
    error = raised.value
    assert str(error).startswith(f"workflow {error.workflow}:")
    assert all(fault in str(error) for fault in error.faults)
    return list(error.faults)


def is_sound(nodes: Iterable[Node], **settings: Any) -> bool:
    return bool(WorkflowDefinition.of(nodes=nodes, **settings).nodes)


# --- what a definition holds --------------------------------------------------------------------------------------


def test_a_definition_has_nodes_topics_and_subscribers() -> None:
    definition = WorkflowDefinition.of(nodes=[node("n", IN, A, B), node("m", A & B, OUT), node("k", IN & A, B)][:2])

    assert list(definition.nodes) == ["n", "m"]
    assert definition.topics == {"in": IN, "a": A, "b": B, "out": OUT}
    assert definition.topic_nodes == {"in": ("n",), "a": ("m",), "b": ("m",), "out": ()}
    assert definition.input_topics == (IN,)
    assert definition.output_topics == (OUT,)
    assert (definition.name, definition.type) == ("EventDrivenWorkflow", "EventDrivenWorkflow")
    assert definition.oi_span_type is OpenInferenceSpanKindValues.AGENT


def test_topics_named_in_texts_are_those_that_other_nodes_declare() -> None:
    texts = [
        Node.builder().name("n").command(nothing).subscribe("in").publish_to("a").publish_to("b").build(),
        Node.builder().name("m").command(nothing).subscribe("a & b").publish_to("out").build(),
    ]

    definition = WorkflowDefinition.of(nodes=texts, topics=[IN, OUT])

    assert definition.topics == {"in": IN, "out": OUT, "a": A, "b": B}
    assert definition.nodes["n"].subscription == On(IN)
    assert definition.nodes["m"].destinations[0].topic == OUT


def test_a_definition_is_json() -> None:
    ask, reply = InWorkflowOutputTopic("ask", reply_to="reply"), InWorkflowInputTopic("reply")
    definition = WorkflowDefinition.of(
        name="help", nodes=[node("n", IN | reply, (OUT, is_final), ask)], max_buffered_events=7
    )

    told = json.loads(json.dumps(definition.to_dict()))

    assert told == {
        "name": "help",
        "type": "EventDrivenWorkflow",
        "oi_span_type": "AGENT",
        "max_buffered_events": 7,
        "nodes": {
            "n": {
                "name": "n",
                "type": "Node",
                "oi_span_type": "CHAIN",
                "command": "nothing",
                "subscription": {"text": "in | reply", "topics": ["in", "reply"]},
                "publish_to": [
                    {"topic": "out", "condition": "is_final"},
                    {"topic": "ask", "condition": None},
                ],
                "max_events": None,
                "retry": None,
            }
        },
        "topics": {
            "in": {"name": "in", "type": "InputTopic", "condition": None},
            "reply": {"name": "reply", "type": "InWorkflowInputTopic", "condition": None},
            "out": {"name": "out", "type": "OutputTopic", "condition": None},
            "ask": {"name": "ask", "type": "InWorkflowOutputTopic", "condition": None, "reply_to": "reply"},
        },
        "topic_nodes": {"in": ["n"], "reply": ["n"], "out": [], "ask": []},
    }


def test_a_builder_hands_the_definition_and_the_store_to_its_constructor() -> None:
    class Built:
        def __init__(self, definition: WorkflowDefinition, *, event_store: str | None) -> None:
            self.definition = definition
            self.event_store = event_store

    builder: WorkflowBuilder[Built, str] = WorkflowBuilder(Built, type="Mine")
    built = (
        builder.name("w")
        .oi_span_type(OpenInferenceSpanKindValues.CHAIN)
        .node(node("n", "in", A))
        .node(Node.builder().name("m").command(nothing).subscribe(A).publish_to(OUT))
        .topic(IN)
        .event_store("a store")
        .max_buffered_events(5)
        .build()
    )

    assert built.event_store == "a store"
    assert built.definition == WorkflowDefinition.of(
        name="w",
        type="Mine",
        oi_span_type=OpenInferenceSpanKindValues.CHAIN,
        nodes=built.definition.nodes.values(),
        topics=[IN],
        max_buffered_events=5,
    )


# --- faults, one by one -------------------------------------------------------------------------------------------


def test_a_workflow_has_a_node() -> None:
    assert faults_of([]) == ["it has no node; node(...) adds one"]


def test_a_workflow_has_an_input_topic() -> None:
    (fault,) = faults_of([node("n", InWorkflowInputTopic("said"), OUT)])

    assert fault.startswith("no node is subscribed to an InputTopic")


def test_a_workflow_has_an_output_topic() -> None:
    (fault,) = faults_of([node("n", IN)])

    assert fault.startswith("no node publishes to an OutputTopic")


def test_nodes_have_different_names() -> None:
    assert "2 nodes have the name n; each node has a name of its own" in faults_of([node("n", IN, OUT)] * 2)


def test_no_node_has_the_workflows_name() -> None:
    (fault,) = faults_of([node("w", IN, OUT)], name="w")

    assert fault.startswith("node w has the workflow's name, under which the caller takes output")


def test_a_node_that_was_made_without_a_builder_is_checked_too() -> None:
    made = Node(name="a\nb", command=nothing, subscription=On(IN), max_events=0)  # type: ignore[arg-type]  # no command

    assert faults_of([made, node("n", IN, OUT)]) == [
        "a node has the name 'a\\nb'; use a text of 1 to 249 characters on one line",
        "node a\nb has a function as command; FunctionCommand(...) makes a command of a function",
        "node a\nb has max_events 0; a run takes 1 event of each topic or more",
    ]


def test_a_topic_is_declared_once() -> None:
    (fault,) = faults_of([node("n", IN, A), node("m", Topic("a", is_final), OUT)])

    assert fault == (
        "topic a is declared twice, as Topic and as Topic with the condition is_final; one object, or another name, "
        "is right"
    )


def test_topics_differ_in_more_than_what_kafka_folds() -> None:
    one, other = Topic("a.b"), Topic("a_b")
    (fault,) = faults_of([node("n", IN, one, other), node("m", one & other, OUT)])

    assert fault == "topics a.b and a_b are one for Kafka, which folds '.' and '_'; rename one of them"


@pytest.mark.parametrize("name", ["state", "status"])
def test_a_topic_has_no_name_of_the_runtime(name: str) -> None:
    assert faults_of([node("n", IN, Topic(name)), node("m", Topic(name), OUT)]) == [
        f"topic {name} has the name of a topic of the runtime; use another one"
    ]


def test_the_names_of_workflow_and_topic_fit_together_into_a_name_on_kafka() -> None:
    long = Topic("t" * 240)
    nodes = [node("n", IN, long), node("m", long, OUT)]

    assert is_sound(nodes, name="w")
    (fault,) = faults_of(nodes, name="w" * 9)
    assert "has a name of 240 characters; on Kafka it is pubsub.<workflow>.<topic> behind a prefix" in fault


@pytest.mark.parametrize("name", ["", "my workflow", "a/b", "é", "a.b"])
def test_a_workflow_has_a_name_that_kafka_takes(name: str) -> None:
    (fault,) = faults_of([node("n", IN, OUT)], name=name)

    assert "cannot be part of a topic's name on Kafka: use 1 to 249 letters" in fault


@pytest.mark.parametrize("count", [0, -1, True, "many"])
def test_a_topic_holds_at_least_one_event(count: object) -> None:
    (fault,) = faults_of([node("n", IN, OUT)], max_buffered_events=count)

    assert fault.endswith("a topic holds 1 event or more for its consumers")


def test_a_node_publishes_to_a_topic_once() -> None:
    (fault,) = faults_of([node("n", IN, OUT, (OUT, is_final))])

    assert fault.startswith("node n publishes to topic out 2 times; one destination")


def test_only_the_caller_publishes_to_the_input() -> None:
    said = InWorkflowInputTopic("said")
    faults = faults_of([node("n", IN, OUT, (IN, is_final)), node("m", said, said, OUT)])

    assert [fault.partition(", to which")[0] for fault in faults] == [
        "node n publishes to the InputTopic in",
        "node m publishes to the InWorkflowInputTopic said",
    ]


def test_only_the_caller_takes_the_output() -> None:
    (fault,) = faults_of([node("n", IN, OUT), node("m", OUT)])

    assert fault.startswith("node m is subscribed to the OutputTopic out, from which only the caller takes")


def test_a_subscribed_topic_has_a_publisher() -> None:
    (fault,) = faults_of([node("n", IN | Topic("fcts"), OUT, Topic("facts")), node("m", Topic("facts"), OUT)])

    assert fault == "node n is subscribed to topic fcts, and no node publishes to it; did you mean facts?"


def test_a_published_topic_has_a_subscriber() -> None:
    (fault,) = faults_of([node("n", IN, A, OUT), node("m", IN, A, OUT)])

    assert fault == (
        "nodes n, m publish to topic a, and no node is subscribed to it; subscribe a node to it, or make it an "
        "OutputTopic"
    )


def test_a_declared_topic_is_used() -> None:
    assert faults_of([node("n", IN, OUT)], topics=[A]) == ["no node uses the Topic a; leave it out, or use it"]


@pytest.mark.parametrize(
    ("reply_to", "found"),
    [
        ("", "has no reply_to; name the InWorkflowInputTopic for the answers"),
        ("repli", "has reply_to repli, to which no node is subscribed; did you mean reply?"),
        ("in", "has reply_to in, which is of type InputTopic; name the InWorkflowInputTopic for the answers"),
    ],
)
def test_a_question_names_the_topic_of_its_answers(reply_to: str, found: str) -> None:
    ask, reply = InWorkflowOutputTopic("ask", reply_to=reply_to), InWorkflowInputTopic("reply")

    assert faults_of([node("n", IN | reply, OUT, ask)]) == [f"the InWorkflowOutputTopic ask {found}"]


# --- reachable nodes ----------------------------------------------------------------------------------------------


def test_a_node_is_unreachable_when_its_and_needs_a_topic_without_events() -> None:
    unknown, unreachable = faults_of([node("n", IN & A, B), node("m", B, OUT)])

    assert unknown == "node n is subscribed to topic a, and no node publishes to it; let a node publish to it"
    assert unreachable == (
        "node n is unreachable: its subscription in & a waits for topic a, without any event; so node m is behind; "
        "let a reachable node publish there"
    )


def test_nodes_that_wait_for_each_other_are_unreachable() -> None:
    (fault,) = faults_of([node("n", IN & A, (B, is_final)), node("m", B, A, C), node("k", IN | C, OUT)])

    assert fault == (
        "nodes n, m are unreachable: they wait for each other by topics a, b, and no input leads there; let a "
        "reachable node publish there"
    )


def test_a_node_is_reachable_when_one_side_of_its_or_is() -> None:
    assert is_sound([node("n", IN | B, A), node("m", A, (B, is_final), OUT)])


def test_an_and_over_a_cycle_is_reachable_when_the_cycle_is() -> None:
    assert is_sound([node("n", IN | B, A), node("m", A & IN, B, OUT)])


def test_answers_reach_a_node_when_the_question_is_asked() -> None:
    ask, reply = InWorkflowOutputTopic("ask", reply_to="reply"), InWorkflowInputTopic("reply")

    assert is_sound([node("n", IN, ask), node("m", reply, OUT)])
    assert any(
        "node m is unreachable" in fault for fault in faults_of([node("n", IN & A, ask), node("m", reply & A, OUT)])
    )


def test_what_is_said_without_a_question_may_come_at_any_time() -> None:
    assert is_sound([node("n", IN & InWorkflowInputTopic("said"), OUT)])


# --- cycles -------------------------------------------------------------------------------------------------------


def test_a_cycle_that_leads_nowhere_has_no_exit() -> None:
    (fault,) = faults_of([node("n", IN | B, A), node("m", A, B), node("k", IN, OUT)])

    assert fault == (
        "nodes n, m with topics a, b form a cycle without an exit; let one of the nodes publish to an output topic, or "
        "give one of the destinations a condition"
    )


def test_a_node_that_feeds_itself_is_a_cycle() -> None:
    (fault,) = faults_of([node("n", IN | A, A), node("k", IN, OUT)])

    assert fault.startswith("node n with topic a forms a cycle without an exit")


def test_a_react_loop_is_in_order() -> None:
    calls, results = Topic("calls"), Topic("results")

    assert is_sound([node("model", IN | results, (OUT, is_final), (calls, bool)), node("tools", calls, results)])


def test_a_cycle_may_be_left_by_nodes_behind_it_or_end_by_a_condition() -> None:
    assert is_sound([node("n", IN | A, A, B), node("k", B, OUT)])
    assert is_sound([node("n", IN | A, (A, is_final)), node("k", IN, OUT)])
    assert is_sound([node("n", IN | Topic("t", is_final), Topic("t", is_final)), node("k", IN, OUT)])


def test_each_cycle_is_a_fault_of_its_own() -> None:
    faults = faults_of([node("n", IN | A, A), node("m", IN | B, B), node("k", IN, OUT)])

    assert sorted(fault.partition(" with")[0] for fault in faults) == ["node m", "node n"]


# --- all at once --------------------------------------------------------------------------------------------------


def test_all_faults_are_told_at_once() -> None:
    faults = faults_of([node("n", A, A), node("n", B, C)], name="a b", max_buffered_events=0)

    assert [fault.split(";")[0] for fault in faults] == [
        "its name 'a b' cannot be part of a topic's name on Kafka: use 1 to 249 letters, digits, '_' and '-'",
        "max_buffered_events is 0",
        "2 nodes have the name n",
        "no node is subscribed to an InputTopic, to which the input of a request is published",
        "no node publishes to an OutputTopic, from which the caller takes the output",
        "node n is subscribed to topic b, and no node publishes to it",
        "node n publishes to topic c, and no node is subscribed to it",
        "node n with topic a forms a cycle without an exit",
    ]


def test_a_long_chain_is_checked_without_recursion() -> None:
    count = 5_000
    topics = [IN, *(Topic(f"t{number}") for number in range(count)), OUT]
    chain = [node(f"n{number}", topics[number], topics[number + 1]) for number in range(count + 1)]

    assert is_sound(chain)


# --- functions of models ------------------------------------------------------------------------------------------


class Model(FunctionCommand):
    def __init__(self) -> None:
        super().__init__(nothing)
        self.specs: list[Mapping[str, Any]] = []

    def add_function_specs(self, specs: Sequence[Mapping[str, Any]]) -> None:
        self.specs += specs


class Tools(FunctionCommand):
    def __init__(self, *names: str) -> None:
        super().__init__(nothing)
        self._names = names

    def function_specs(self) -> list[dict[str, str]]:
        return [{"name": name} for name in self._names]


def test_a_model_learns_the_functions_of_the_nodes_behind_it() -> None:
    model, other = Model(), Model()
    calls, results = Topic("calls"), Topic("results")
    nodes = [
        Node.builder().name("model").command(model).subscribe(IN | results).publish_to(calls).build(),
        Node.builder().name("other").command(other).subscribe(IN).publish_to(OUT).build(),
        Node.builder().name("sums").command(Tools("add", "subtract")).subscribe(calls).publish_to(results).build(),
        Node.builder().name("time").command(Tools("now")).subscribe(calls).publish_to(results).build(),
        Node.builder().name("plain").command(nothing).subscribe(calls).publish_to(OUT).build(),
        Node.builder().name("far").command(Tools("far")).subscribe(results).publish_to(OUT).build(),
    ]

    links = link_functions(nodes)

    assert links == {"model": ("sums", "time")}
    assert model.specs == [{"name": "add"}, {"name": "subtract"}, {"name": "now"}]
    assert other.specs == []


def test_a_builder_tells_what_is_neither_a_node_nor_a_topic() -> None:
    builder = EventDrivenWorkflow.builder().name("w").node(nothing).topic("a")  # type: ignore[arg-type]  # mistakes

    with pytest.raises(WorkflowInvalid) as raised:
        builder.build()

    assert raised.value.faults == (
        "node(...) is given a function; it takes a Node, or its builder",
        "topic(...) is given a str; it takes a Topic, InputTopic, OutputTopic",
    )
