"""Drawings of event-driven workflows: what is in the graph, that it can be read, and its two forms."""

import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.graph.layering import reading_order
from afl.graph.layout import Box, Layout, Point, Way, layout
from afl.graph.picture import Graph
from afl_stream.pubsub import (
    EventDrivenWorkflow,
    InputTopic,
    InWorkflowInputTopic,
    InWorkflowOutputTopic,
    Node,
    On,
    OutputTopic,
    Topic,
)
from afl_stream.pubsub.drawing.graph import graph_of
from afl_stream.pubsub.drawing.mermaid import mermaid
from afl_stream.pubsub.drawing.svg import svg
from afl_stream.pubsub.model.definition import WorkflowDefinition
from afl_stream.pubsub.model.expressions import TopicExpression
from afl_stream.pubsub.model.topics import Condition

IN, OUT = InputTopic("in"), OutputTopic("out")


def think(context: object, events: object) -> None:
    return None


def is_final(data: object) -> bool:
    return data == "final"


def node(name: str, subscription: TopicExpression | Topic, *destinations: Topic | tuple[Topic, Condition]) -> Node:
    builder = Node.builder().name(name).command(think).subscribe(subscription)
    for to in destinations:
        topic, when = to if isinstance(to, tuple) else (to, None)
        builder.publish_to(topic, when)
    return builder.build()


CALLS, RESULTS = Topic("calls"), Topic("results")
REACT = WorkflowDefinition.of(
    name="react",
    nodes=[node("model", IN | RESULTS, (OUT, is_final), (CALLS, bool)), node("tools", CALLS, RESULTS)],
)


def random_workflow(seed: int) -> WorkflowDefinition:
    """Return a chain of nodes with random subscriptions to further topics and destinations, forward and back."""
    chance = random.Random(seed)
    count = chance.randint(1, 9)
    topics: list[Topic] = [IN, *(Topic(f"t{number}") for number in range(count))]
    nodes = []
    for number in range(count):
        subscription: TopicExpression = On(topics[number])
        for other in chance.sample(range(count + 1), min(2, count + 1)):
            if chance.random() < 0.4:
                subscription = subscription | (On(topics[other]) & topics[number])
        destinations: list[Topic | tuple[Topic, Condition]] = [topics[number + 1]]
        for other in chance.sample(range(1, count + 1), min(2, count)):
            if chance.random() < 0.4 and other != number + 1:
                destinations.append((topics[other], is_final))
        nodes.append(node(f"n{number}", subscription, *destinations))
    return WorkflowDefinition.of(name="random", nodes=[*nodes, node("last", topics[count], OUT)])


def arrows(graph: Graph) -> set[tuple[str, str, str]]:
    titles = {vertex.id: vertex.title for vertex in graph.vertices()}
    return {(titles[edge.source], edge.label or edge.kind, titles[edge.target]) for edge in graph.edges}


# --- the graph ----------------------------------------------------------------------------------------------------


def test_topics_stand_between_nodes_and_gates_before_them() -> None:
    graph = graph_of(REACT)

    assert {vertex.title: vertex.kind for vertex in graph.vertices()} == {
        "in": "input",
        "OR": "gate",
        "model": "node",
        "out": "output",
        "calls": "topic",
        "tools": "node",
        "results": "topic",
    }
    assert arrows(graph) == {
        ("in", "data", "OR"),
        ("results", "data", "OR"),
        ("OR", "data", "model"),
        ("model", "is_final", "out"),
        ("model", "bool", "calls"),
        ("calls", "data", "tools"),
        ("tools", "data", "results"),
    }
    assert (graph.name, graph.params, graph.returns) == ("react", "in", "out")


def test_each_and_and_or_of_an_expression_is_a_gate() -> None:
    a, b, c = Topic("a"), Topic("b"), Topic("c")
    graph = graph_of(WorkflowDefinition.of(nodes=[node("n", IN, a, b, c), node("m", a & (b | c & a), OUT)]))
    kinds = {vertex.id: vertex.title if vertex.kind == "gate" else vertex.id for vertex in graph.vertices()}

    assert sorted(vertex.title for vertex in graph.vertices() if vertex.kind == "gate") == ["AND", "AND", "OR"]
    assert sorted((kinds[edge.source], kinds[edge.target]) for edge in graph.edges if "gate" in edge.target) == [
        ("AND", "OR"),
        ("OR", "AND"),
        ("topic a", "AND"),
        ("topic a", "AND"),
        ("topic b", "OR"),
        ("topic c", "AND"),
    ]


def test_a_question_leads_to_the_topic_of_its_answers() -> None:
    ask, reply = InWorkflowOutputTopic("ask", reply_to="reply"), InWorkflowInputTopic("reply")
    graph = graph_of(WorkflowDefinition.of(nodes=[node("n", IN, ask), node("m", reply, OUT)]))

    assert ("ask", "reply", "reply") in arrows(graph)
    assert {vertex.kind for vertex in graph.vertices()} == {"input", "node", "question", "answer", "output"}


def test_a_condition_is_told_by_its_name() -> None:
    graph = graph_of(
        WorkflowDefinition.of(
            nodes=[
                node("n", IN, (Topic("a"), lambda data: True), Topic("b", is_final)),
                node("m", Topic("a") & Topic("b", is_final), OUT),
            ]
        )
    )

    assert ("n", "a condition", "a") in arrows(graph)
    assert ("n", "when", "b") in arrows(graph)
    assert [vertex.detail for vertex in graph.vertices() if vertex.title == "b"] == ["when is_final"]


def test_a_node_says_what_its_command_is_called_unless_that_is_a_lambda() -> None:
    nameless = Node.builder().name("n").command(lambda context, events: None).subscribe(IN).publish_to("a").build()
    graph = graph_of(WorkflowDefinition.of(nodes=[nameless, node("m", Topic("a"), OUT)]))

    assert {vertex.title: vertex.detail for vertex in graph.vertices() if vertex.kind == "node"} == {
        "n": "",
        "m": "think",
    }


# --- order and layout ---------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_in_reading_order_arrows_lead_on_where_there_is_no_cycle(pairs: list[tuple[int, int]]) -> None:
    keys = [str(number) for number in range(10)]
    acyclic = [(str(min(pair)), str(max(pair))) for pair in pairs if pair[0] != pair[1]]

    order = reading_order(keys[::-1], acyclic)

    assert sorted(order) == keys
    assert all(order.index(source) < order.index(target) for source, target in acyclic)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40))
def test_reading_order_holds_each_box_once_whatever_the_cycles(pairs: list[tuple[int, int]]) -> None:
    keys = [str(number) for number in range(10)]

    assert sorted(reading_order(keys, [(str(one), str(other)) for one, other in pairs])) == keys


def test_an_arrow_back_leads_to_the_beginning_of_its_cycle() -> None:
    graph = graph_of(REACT)
    found = layout(graph)
    titles = {vertex.id: vertex.title for vertex in graph.vertices()}

    assert [(titles[way.edge.source], titles[way.edge.target]) for way in found.ways if way.is_back] == [
        ("results", "OR")
    ]


def points_of(way: Way, *, is_down: bool) -> Iterator[Point]:
    """Yield points of an arrow as it is drawn: curves between its points."""
    for start, stop in zip(way.points, way.points[1:], strict=False):
        bend = max(abs(stop[1] - start[1] if is_down else stop[0] - start[0]) / 2, 12.0) * (-1 if way.is_back else 1)
        first = (start[0], start[1] + bend) if is_down else (start[0] + bend, start[1])
        second = (stop[0], stop[1] - bend) if is_down else (stop[0] - bend, stop[1])
        for step in range(1, 10):
            t = step / 10
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            parts = list(zip(weights, (start, first, second, stop), strict=True))
            yield sum(w * p[0] for w, p in parts), sum(w * p[1] for w, p in parts)


def is_inside(box: Box, point: Point, inset: float = 2.0) -> bool:
    return (
        box.x + inset < point[0] < box.x + box.width - inset and box.y + inset < point[1] < box.y + box.height - inset
    )


def crossed(found: Layout) -> list[str]:
    """Return the arrows that lead over a box which is not one of their ends."""
    return [
        f"{way.edge.source} -> {way.edge.target} over {key}"
        for way in found.ways
        for key, box in found.boxes.items()
        if key not in (way.edge.source, way.edge.target)
        and any(is_inside(box, point) for point in points_of(way, is_down=found.is_down))
    ]


@pytest.mark.parametrize("seed", range(20))
def test_boxes_and_arrows_of_a_drawing_stay_apart(seed: int) -> None:
    found = layout(graph_of(random_workflow(seed)))

    for one, other in combinations(found.boxes.values(), 2):
        is_beside = one.x + one.width <= other.x or other.x + other.width <= one.x
        assert is_beside or one.y + one.height <= other.y or other.y + other.height <= one.y
    assert crossed(found) == []
    for box in found.boxes.values():
        assert -0.1 <= box.x <= box.x + box.width <= found.width + 0.1
        assert -0.1 <= box.y <= box.y + box.height <= found.height + 0.1


@pytest.mark.parametrize("seed", range(10))
def test_an_arrow_back_meets_the_sides_that_others_do_not_begin_at(seed: int) -> None:
    found = layout(graph_of(random_workflow(seed)))

    def side(box: Box, point: Point) -> str:
        begin, end = (box.y, box.y + box.height) if found.is_down else (box.x, box.x + box.width)
        at = point[1] if found.is_down else point[0]
        assert at == pytest.approx(begin) or at == pytest.approx(end)
        return "begin" if at == pytest.approx(begin) else "end"

    for way in found.ways:
        sides = side(found.boxes[way.edge.source], way.points[0]), side(found.boxes[way.edge.target], way.points[-1])
        assert sides == (("begin", "end") if way.is_back else ("end", "begin"))


# --- the two forms ------------------------------------------------------------------------------------------------


def test_an_svg_names_everything_and_knows_light_and_dark_pages() -> None:
    drawn = ElementTree.fromstring(svg(REACT))
    texts = {text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")}
    ids = {group.get("id") for group in drawn.iter("{http://www.w3.org/2000/svg}g")}

    assert {"react", "in", "OR", "model", "think", "is_final", "calls", "question to the caller"} - texts == {
        "question to the caller"
    }
    assert {"node model", "topic calls", "topic in"} <= ids
    assert "prefers-color-scheme: dark" in svg(REACT)


def test_an_arrow_of_a_condition_is_dashed() -> None:
    drawn = ElementTree.fromstring(svg(REACT))
    styles = [path.get("class") for path in drawn.iter("{http://www.w3.org/2000/svg}path") if path.get("class")]

    # Each is drawn in two parts, with its word between them.
    assert sorted(style for style in styles if style and "when" in style) == ["arrow when"] * 4
    assert styles.count("arrow") == 5


def test_the_same_workflow_gives_the_same_picture() -> None:
    for seed in range(5):
        assert svg(random_workflow(seed)) == svg(random_workflow(seed))


def test_a_workflow_draws_itself() -> None:
    workflow = EventDrivenWorkflow(REACT)

    assert workflow.to_svg() == svg(REACT)
    assert workflow.to_mermaid() == mermaid(REACT)


def test_a_mermaid_chart_has_shapes_by_kind_and_words_on_arrows() -> None:
    lines = mermaid(REACT).splitlines()

    assert lines[:4] == ["---", "title: react", "---", "flowchart TD"]
    assert [line.strip() for line in lines[4:18]] == [
        'n0(["in"])',
        'n1(("OR"))',
        'n2["model<br/>think"]',
        'n3(["out"])',
        'n4(["calls"])',
        'n5["tools<br/>think"]',
        'n6(["results"])',
        "n1 --> n2",
        "n0 --> n1",
        "n6 --> n1",
        'n2 -.->|"is_final"| n3',
        'n2 -.->|"bool"| n4',
        "n4 --> n5",
        "n5 --> n6",
    ]


def test_drawing_loads_nothing_of_the_language() -> None:
    code = (
        "import sys, afl_stream.pubsub.drawing.svg, afl_stream.pubsub.drawing.mermaid; "
        "print([name for name in sys.modules if name.startswith(('afl.compiled', 'afl.engine', 'afl.parser'))])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.strip() == "[]"
