"""Drawing workflows: what is in the graph, and its three forms."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from afl.cli import main
from afl.compiled.program import CompiledProgram
from afl.compiled.resolved import add_resolved
from afl.compiler import compile_text
from afl.graph import Cluster, Graph, graph_of
from afl.graph.dot import dot
from afl.graph.layering import GAP_ACROSS, place
from afl.graph.layout import Box, layout
from afl.graph.mermaid import mermaid
from afl.graph.picture import everything
from afl.graph.svg import svg
from afl.graph.wording import expression, short

_SHOP = """
namespace shop {
    event facet Reserve(id: String) => (slot: Int)
    facet Price(id: String) => (amount: Int = 3)
    schema Limits { low: Int }
    workflow Other() => (x: Int) andThen { yield Other(x = 1) }
    workflow Order(id: String, hosts: [String]) => (receipt: String, times: [Int]) andThen {
        r = Reserve(id = $.id)
        p = Price(id = $.id) andThen {
            deep = Price(id = r.slot ++ "")
            own = Price(id = p.amount ++ "")
        }
        lim = Limits(low = p.amount)
        o = Other()
        yield Order(receipt = r.slot ++ p.amount)
    } andThen foreach h in $.hosts {
        t = Reserve(id = $.h)
        yield Order(times = [t.slot])
    }
}
"""

_CLAIMS = """
namespace claims {
    event facet Assess(id: String) => (risk: Double, fraud: Boolean)
    event facet Queue(name: String) => (slot: Int)
    workflow Route(id: String) => (slot: Int, label: String) andThen {
        a = Assess(id = $.id) catch when {
            case a.error_type == "Timeout" => { q = Queue(name = a.error) }
            case _ => { yield Route(slot = 0) }
        }
        sys.log(risk = a.risk)
        sys.assert(a.risk <= 1.0 && !a.fraud)
    } andThen when {
        case a.risk > 0.7 => { q = Queue(name = "high") yield Route(slot = q.slot) }
        case _ => { }
    } andThen script { result["label"] = params["id"] } catch { yield Route(slot = 1) }
}
"""


def graph(text: str, workflow: str) -> Graph:
    program = CompiledProgram(compile_text(text).program_json)
    return graph_of(program, program.workflow(workflow))


def arrows(drawn: Graph) -> set[tuple[str, str, str]]:
    """Return the arrows by the titles of their ends."""
    titles = {item.id: item.title for item in everything(drawn.items)}
    return {(titles[edge.source], edge.kind, titles[edge.target]) for edge in drawn.edges}


def frames(drawn: Graph) -> Iterator[tuple[str, list[str]]]:
    for item in everything(drawn.items):
        if isinstance(item, Cluster):
            yield item.title, [inner.title for inner in item.items]


def test_arrows_lead_from_what_is_needed_to_what_needs_it() -> None:
    assert arrows(graph(_SHOP, "Order")) == {
        ("r", "needs", "deep"),
        ("p", "then", "then, with p"),
        ("p", "needs", "lim"),
        ("r", "needs", "yield Order"),
        ("p", "needs", "yield Order"),
        ("t", "needs", "yield Order"),
    }


def test_statements_stand_in_their_blocks() -> None:
    assert list(frames(graph(_SHOP, "Order"))) == [
        ("block 1", ["r", "p", "then, with p", "lim", "o", "yield Order"]),
        ("then, with p", ["deep", "own"]),
        ("foreach h in $.hosts", ["t", "yield Order"]),
    ]


def test_what_a_step_calls_is_seen() -> None:
    drawn = graph(_SHOP, "Order")

    assert {item.title: item.kind for item in drawn.vertices()} == {
        "r": "event",
        "p": "step",
        "deep": "step",
        "own": "step",
        "lim": "schema",
        "o": "workflow",
        "yield Order": "yield",
        "t": "event",
    }
    assert (drawn.params, drawn.returns) == ("id, hosts", "receipt, times")


def test_cases_and_catches_are_frames_of_their_own() -> None:
    drawn = graph(_CLAIMS, "Route")

    assert list(frames(drawn)) == [
        ("block 1", ["a", "when a fails", "sys.log", "sys.assert"]),
        ("when a fails", ['if a.error_type == "Timeout"', "otherwise"]),
        ('if a.error_type == "Timeout"', ["q"]),
        ("otherwise", ["yield Route"]),
        ("when", ["if a.risk > 0.7", "otherwise"]),
        ("if a.risk > 0.7", ["q", "yield Route"]),
        ("otherwise", []),
        ("when Route fails", ["yield Route"]),
    ]
    assert arrows(drawn) == {
        ("a", "fails", "when a fails"),
        ("a", "needs", "sys.log"),
        ("a", "needs", "sys.assert"),
        ("a", "needs", "when"),
        ("q", "needs", "yield Route"),
    }
    assert [item.kind for item in drawn.vertices() if item.title == "block 3"] == ["script"]


def test_a_workflow_of_one_plain_block_needs_no_frame() -> None:
    assert list(frames(graph(_SHOP, "Other"))) == []


@pytest.mark.parametrize(
    "text",
    [
        '"a" ++ $.b ++ s.c',
        "(1 + 2) * -3",
        "1 + 2 * 3 - (4 - 5)",
        "$.a in [1, 2.5, true, null]",
        '#{"k": $.a[0]}',
        "!($.a && $.b) || $.c != 1",
    ],
)
def test_an_expression_is_shown_as_it_stands_in_the_program(text: str) -> None:
    source = (
        "facet P(c: Json = 1) => (c: Json) facet F(a: Json, b: Json, c: Json) => (x: Json) "
        f"andThen {{ s = P() yield F(x = {text}) }}"
    )
    facet = CompiledProgram(compile_text(source).program_json).facet("F")
    assert facet is not None

    assert expression(facet.node["body"]["yield"]["call"]["args"][0]["value"]) == text


def test_a_long_title_is_cut() -> None:
    assert short("x" * 40) == "x" * 35 + "…"


def test_mermaid_shows_shapes_frames_and_arrows() -> None:
    lines = [line.strip() for line in mermaid(graph(_SHOP, "Order")).splitlines()]

    assert lines[:4] == ["---", "title: shop.Order", "---", "flowchart TD"]
    assert 'n1(["r<br/>⚡ Reserve"])' in lines
    assert 'subgraph c0 ["block 1"]' in lines
    assert 'n6[/"lim<br/>Limits"/]' in lines
    assert "n1 --> n4" in lines
    assert "n2 -.-> c3" in lines
    assert lines.count("end") == 3
    assert "class n1,n10 event" in lines


def test_mermaid_is_not_broken_by_texts() -> None:
    text = 'facet F(a: String) => (x: Json) andThen when { case $.a == "\\"<b>#&" => { } case _ => { } }'
    facet = CompiledProgram(compile_text(text).program_json)
    declaration = facet.facet("F")
    assert declaration is not None

    drawn = mermaid(graph_of(facet, declaration))

    assert '["if $.a == #34;#92;' not in drawn
    assert "#60;b#62;#35;#38;" in drawn


def test_dot_has_a_node_for_every_statement_and_balanced_braces() -> None:
    drawn = graph(_CLAIMS, "Route")
    text = dot(drawn)

    assert text.count("{") == text.count("}") == 1 + len(list(frames(drawn)))
    assert len(re.findall(r"^ +n\d+ \[label=", text, re.MULTILINE)) == len(list(drawn.vertices()))
    assert "lhead=cluster_n" in text
    assert text.count(" -> ") == len(drawn.edges)


@pytest.mark.parametrize(("text", "name"), [(_SHOP, "Order"), (_CLAIMS, "Route"), (_SHOP, "Other")])
def test_the_picture_is_xml_with_everything_in_it(text: str, name: str) -> None:
    drawn = graph(text, name)
    picture = svg(drawn)
    root = ElementTree.fromstring(picture)

    texts = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {item.title for item in everything(drawn.items)} <= set(texts)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) == len(drawn.edges) + 2
    assert picture == svg(graph(text, name))


@pytest.mark.parametrize(("text", "name"), [(_SHOP, "Order"), (_CLAIMS, "Route")])
def test_boxes_are_inside_their_frames_and_do_not_overlap(text: str, name: str) -> None:
    drawn = graph(text, name)
    found = layout(drawn)

    def apart(a: Box, b: Box) -> bool:
        return a.x + a.width <= b.x or b.x + b.width <= a.x or a.y + a.height <= b.y or b.y + b.height <= a.y

    def inside(a: Box, b: Box) -> bool:
        return b.x <= a.x and b.y <= a.y and a.x + a.width <= b.x + b.width and a.y + a.height <= b.y + b.height

    def check(items: tuple[object, ...], around: Box) -> None:
        boxes = [found.boxes[item.id] for item in items]  # type: ignore[attr-defined]  # vertices and clusters
        assert all(inside(box, around) for box in boxes)
        assert all(apart(a, b) for n, a in enumerate(boxes) for b in boxes[n + 1 :])
        for item, box in zip(items, boxes, strict=True):
            if isinstance(item, Cluster):
                check(item.items, box)

    check(drawn.items, Box(0, 0, found.width, found.height))


def test_thirty_steps_side_by_side_fit_a_page_that_scrolls_one_way() -> None:
    steps = " ".join(f"s{n} = G(x = $.x)" for n in range(29))
    total = " + ".join(f"s{n}.y" for n in range(29))
    block = f"{{ {steps} yield W(y = {total}) }}"
    text = f"facet G(x: Int) => (y: Int) namespace w {{ workflow W(x: Int) => (y: Int) andThen {block} }}"

    found = layout(graph(text, "W"))

    assert found.width < 600
    assert not found.is_down


def test_layers_follow_the_longest_way_and_keep_their_distance() -> None:
    sizes = dict.fromkeys(("a", "b", "c", "d"), (50.0, 20.0))

    found = place(sizes, [("a", "b"), ("b", "d"), ("a", "d"), ("c", "d")])

    along = {name: found.layer_of[name] for name in sizes}
    assert along == {"a": 0, "b": 1, "c": 1, "d": 2}
    across = sorted((found.places["b"][0], found.places["c"][0]))
    assert across[1] - across[0] >= 50 + GAP_ACROSS
    # The arrow that skips a layer has a lane in it.
    assert len(found.routes["a", "d"]) == 2


def test_the_command_writes_what_the_file_name_says(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "shop.afl"
    path.write_text(_SHOP)
    base = ["graph", str(path), "--workflow", "Order"]

    for name, begin in {"x.svg": "<svg ", "x.dot": "digraph ", "x.mmd": "---\n", "x.txt": "---\n"}.items():
        assert main([*base, "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_text().startswith(begin)
    assert main([*base, "--format", "svg"]) == 0
    assert capsysbinary.readouterr().out == (tmp_path / "x.svg").read_bytes()


def test_of_several_workflows_one_has_to_be_chosen_to_be_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "shop.afl"
    path.write_text(_SHOP)

    assert main(["graph", str(path)]) == 1
    said = "Error: the program has several workflows; choose one by --workflow: shop.Order, shop.Other\n"
    assert capsys.readouterr().err == said
    assert main(["graph", str(path), "--workflow", "Nope"]) == 1
    assert capsys.readouterr().err == "Error: no workflow named 'Nope'\n"
    path.write_text("facet F()")
    assert main(["graph", str(path)]) == 1
    assert capsys.readouterr().err == "Error: the program has no workflow to draw\n"


def test_resolved_programs_tell_the_same_needs_as_the_picture() -> None:
    document = add_resolved(compile_text(_CLAIMS).program_json)
    route = document["declarations"][0]["declarations"][2]
    plain, when, _ = route["body"]
    assess, log, check = plain["steps"]
    assert "needs" not in assess
    assert log["needs"] == check["needs"] == when["needs"] == [assess["id"]]
    assert assess["catch"]["when"]["cases"][0]["steps"][0]["needs"] == [assess["id"]]
    assert when["when"]["cases"][0]["yield"]["needs"] == [when["when"]["cases"][0]["steps"][0]["id"]]
    assert assess["call"]["resolved"] == "claims.Assess"
    assert json.dumps(document).count('"schemaVersion": "1.0"') == 1


def test_names_are_resolved_wherever_they_stand() -> None:
    text = """
namespace lib {
    facet Mixed(x: Int = 1)
    schema CallExpr { x: Int }
}
namespace main {
    use lib
    implicit usual = Mixed(x = 2)
    facet F(of: CallExpr, many: [[CallExpr]]) with Mixed() as m andThen {
        s = Mixed(x = 3) with lib.Mixed() as n
        r = CallExpr(x = s.x)
    }
}"""
    document = add_resolved(compile_text(text).program_json)

    facet, implicit = document["declarations"][1]["declarations"]
    first, second = facet["body"]["steps"]
    assert facet["mixins"][0]["resolved"] == "lib.Mixed"
    assert first["call"]["resolved"] == first["call"]["mixins"][0]["resolved"] == "lib.Mixed"
    assert second["call"]["resolved"] == "lib.CallExpr"
    assert second["needs"] == [first["id"]]
    assert implicit["call"]["resolved"] == "lib.Mixed"


def test_a_picture_of_another_kind_is_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "shop.png"

    assert main(["graph", "missing.afl", "-o", str(picture)]) == 2

    assert ".png cannot be written; use .svg, .dot or .mmd" in capsys.readouterr().err
    assert not picture.exists()
