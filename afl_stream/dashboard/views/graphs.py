"""The graph of a run's program with the states of its steps: a foreach of ten thousand is one frame with counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from afl.compiled.program import CALLABLE, CompiledProgram, Declaration, ProgramError
from afl.engine.states import StepState
from afl.graph import graph_of
from afl.graph.layout import Box, layout
from afl.graph.painting import arrow_path
from afl.graph.picture import Cluster, Edge, Graph, Item, Vertex, everything
from afl_stream.dashboard.views.run_views import RunView
from afl_stream.dashboard.views.state_words import state_of

#: Boxes of a picture; more are folded.
MOST_BOXES: Final = 120
#: The kind of a box that stands for a frame with what is in it, and for boxes that are left out.
FOLDED: Final = "folded"
REST: Final = "rest"
#: Of the states of one statement's steps, which one colours its box.
_LOUDEST: Final = ("failed", "waiting", "running", "caught", "stopped", "complete")


@dataclass(frozen=True, slots=True, kw_only=True)
class PaintedBox:
    """A box or a frame of the picture. `state` is a word for its colour, `counts` tells its steps by status."""

    id: str
    kind: str
    title: str
    detail: str
    box: Box
    state: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    #: The facet that it calls, where that has a picture of its own.
    inside: str = ""

    @property
    def count(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A graph, laid out. `about` is the declaration that is drawn, `at` the frame of it, "" for all."""

    about: str
    at: str
    at_title: str
    width: float
    height: float
    frames: Sequence[PaintedBox]
    boxes: Sequence[PaintedBox]
    #: Each arrow's kind and its path.
    arrows: Sequence[tuple[str, str]]


def picture_of_run(view: RunView, facet: str = "", at: str = "") -> Picture | None:
    """Return the picture of a run's workflow, or of a facet that it calls; None where its program is not known."""
    program = view.detail.program
    if program is None:
        return None
    return picture(program, facet or view.detail.row.name, at, _statuses(view))


def picture(
    program: CompiledProgram, name: str, at: str = "", statuses: Mapping[str, Counter[str]] | None = None
) -> Picture | None:
    """Return the picture of a workflow or facet of a program; None where it has no body that can be drawn."""
    try:
        declaration = program.facet(name) or program.workflow(name)
        whole = graph_of(program, declaration)
    except ProgramError:
        return None
    shown, title = _at(whole, at)
    counts = _with_frames(whole, statuses or {})
    graph = folded(shown)
    if not graph.items:
        return None
    found = layout(graph)
    callees = dict(_callees(program, declaration))
    frames: list[PaintedBox] = []
    boxes: list[PaintedBox] = []
    for item in everything(graph.items):
        counted = counts.get(item.id, Counter())
        is_frame = isinstance(item, Cluster)
        painted = PaintedBox(
            id=item.id,
            kind=item.kind,
            title=item.title,
            detail="" if isinstance(item, Cluster) else item.detail,
            box=found.boxes[item.id],
            state="" if statuses is None else _state_of(counted),
            counts=counted,
            inside=callees.get(item.id, ""),
        )
        (frames if is_frame else boxes).append(painted)
    arrows = [(way.edge.kind, arrow_path(way, is_down=found.is_down)) for way in found.ways]
    return Picture(
        about=declaration.qualified_name,
        at=at if shown is not whole else "",
        at_title=title,
        width=found.width,
        height=found.height,
        frames=frames,
        boxes=boxes,
        arrows=arrows,
    )


def folded(graph: Graph, most: int = MOST_BOXES) -> Graph:
    """Return a graph of at most so many boxes: frames become boxes, the innermost first, then the last are left out."""
    items = graph.items
    while _box_count(items) > most and (inner := _innermost(items)):
        items = tuple(_fold(item, inner) for item in items)
    if _box_count(items) > most:
        # What is left has no frames.
        left_out = len(items) - most + 1
        items = (*items[: most - 1], Vertex(id=REST, kind=REST, title=f"{left_out:,} more", detail="folded"))
    owner = _owners(graph.items, items)
    edges = {
        Edge(source=source, target=target, kind=edge.kind, label=edge.label)
        for edge in graph.edges
        if (source := owner.get(edge.source, REST)) != (target := owner.get(edge.target, REST))
    }
    there = {item.id for item in everything(items)}
    kept = [edge for edge in edges if edge.source in there and edge.target in there]
    kept.sort(key=lambda edge: (edge.source, edge.target, edge.kind))
    return Graph(name=graph.name, params=graph.params, returns=graph.returns, items=items, edges=tuple(kept))


def _at(graph: Graph, at: str) -> tuple[Graph, str]:
    """Return the part of a graph inside a frame, and the frame's title; the whole graph without such a frame."""
    for item in everything(graph.items):
        if isinstance(item, Cluster) and item.id == at:
            there = {inner.id for inner in everything(item.items)}
            edges = tuple(edge for edge in graph.edges if edge.source in there and edge.target in there)
            inner = Graph(name=graph.name, params=graph.params, returns=graph.returns, items=item.items, edges=edges)
            return inner, item.title
    return graph, ""


def _box_count(items: Sequence[Item]) -> int:
    return sum(1 for item in everything(tuple(items)))


def _innermost(items: Sequence[Item]) -> frozenset[str]:
    """Return the frames at the greatest depth."""
    level: list[Item] = [*items]
    deepest: list[str] = []
    while level:
        frames = [item for item in level if isinstance(item, Cluster)]
        if frames:
            deepest = [frame.id for frame in frames]
        level = [inner for frame in frames for inner in frame.items]
    return frozenset(deepest)


def _fold(item: Item, frames: frozenset[str]) -> Item:
    if isinstance(item, Vertex):
        return item
    if item.id in frames:
        inside = _box_count(item.items)
        return Vertex(id=item.id, kind=FOLDED, title=item.title, detail=f"{inside:,} inside, folded")
    return Cluster(
        id=item.id, kind=item.kind, title=item.title, items=tuple(_fold(inner, frames) for inner in item.items)
    )


def _owners(items: Sequence[Item], shown: Sequence[Item]) -> dict[str, str]:
    """Return for each item of a graph the shown one that it is, or is in."""
    there = {item.id for item in everything(tuple(shown))}
    found: dict[str, str] = {}
    left: list[tuple[Item, str]] = [(item, REST) for item in items]
    while left:
        item, around = left.pop()
        own = item.id if item.id in there else around
        found[item.id] = own
        if isinstance(item, Cluster):
            left += [(inner, own) for inner in item.items]
    return found


def _callees(program: CompiledProgram, declaration: Declaration) -> Iterator[tuple[str, str]]:
    """Yield the statements of a declaration that call something with a body, and what they call."""
    left: list[object] = [declaration.node]
    while left:
        node = left.pop()
        if isinstance(node, Mapping):
            call = node.get("call")
            if isinstance(call, Mapping) and "id" in node and "name" in node:
                target = str(call.get("target", ""))
                found = program.names.resolve(target, declaration.namespace, declaration.uses, CALLABLE).found
                if found is not None and program.declarations[found].node.get("body"):
                    yield str(node["id"]), program.declarations[found].qualified_name
            left += node.values()
        elif isinstance(node, list | tuple):
            left += node


def _statuses(view: RunView) -> dict[str, Counter[str]]:
    """Return the statuses of the steps of each statement."""
    found: dict[str, Counter[str]] = {}
    for document in view.detail.documents:
        if document.statement_id is None:
            continue
        step = view.index.by_id.get(document.id)
        if step is not None:
            status = step.status
        elif document.state == StepState.STATEMENT_COMPLETE:
            status = "complete"
        else:
            status = "runs"
        found.setdefault(document.statement_id, Counter())[status] += 1
    return found


def _with_frames(graph: Graph, statuses: Mapping[str, Counter[str]]) -> dict[str, Counter[str]]:
    """Return the statuses of boxes, and of frames all that is in them."""
    found = {key: Counter(counts) for key, counts in statuses.items()}

    def of(item: Item) -> Counter[str]:
        if isinstance(item, Cluster):
            inside: Counter[str] = Counter()
            for inner in item.items:
                inside += of(inner)
            found[item.id] = inside
        return found.get(item.id, Counter())

    for item in graph.items:
        of(item)
    return found


def _state_of(counts: Mapping[str, int]) -> str:
    states = {state_of(status) for status in counts}
    return next((state for state in _LOUDEST if state in states), "not-begun")
