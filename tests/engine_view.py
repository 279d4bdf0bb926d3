"""The rows of a run in a store, under names that a person would use: `s1.sub`, `[3].ping`, `payment.catch.alert`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from afl.compiled.program import Node
from afl.engine.model.store import StepDocument, Store
from afl.engine.states import StepState
from afl.engine.types import ObjectType


class SeenStep(NamedTuple):
    """A stored step and where it stands, from the workflow's root (whose path is empty) down."""

    path: str
    document: StepDocument

    @property
    def id(self) -> str:
        return self.document.id

    @property
    def state(self) -> str:
        return self.document.state

    @property
    def is_complete(self) -> bool:
        return self.document.state == StepState.STATEMENT_COMPLETE

    @property
    def is_waiting(self) -> bool:
        return self.document.state == StepState.EVENT_TRANSMIT and bool(self.document.event_state)


def statement_names(program: object) -> dict[str, str]:
    """Statement id to name, of all steps anywhere in a compiled program."""
    names: dict[str, str] = {}
    for node in _nodes(program):
        if isinstance(node.get("call"), Mapping) and "name" in node and node.get("type") != "ImplicitDecl":
            names[str(node.get("id") or node["name"])] = str(node["name"])
    return names


def seen_steps(documents: Iterable[StepDocument], names: Mapping[str, str]) -> list[SeenStep]:
    """All steps in order of creation. Blocks are `#0`, `#1`, ..., `#catch` of their step, and `#0#case-1` of a `when`;
    yields are `yield`, what stands in a case or catch is below `case[1]`, `catch`.
    """
    paths: dict[str, str] = {}
    inside: dict[str, str] = {}
    seen: list[SeenStep] = []
    for document in documents:
        paths[document.id] = path = _path(document, names, paths, inside)
        if ObjectType.is_block(document.object_type):
            inside[document.id] = _inside(document, paths, inside)
        seen.append(SeenStep(path, document))
    return seen


def _path(document: StepDocument, names: Mapping[str, str], paths: Mapping[str, str], inside: Mapping[str, str]) -> str:
    if document.container_id is None:
        return ""
    around = paths[document.container_id]
    if ObjectType.is_block(document.object_type):
        own = f"#{str(document.statement_id).removeprefix('block-')}"
        if document.foreach_index is not None:
            return f"{around}[{document.foreach_index}]{own}"
        return f"{around}{own}" if document.block_id is None else f"{paths[document.block_id]}{own}"
    if document.block_id is not None:
        around = inside[document.block_id]
    name = "yield"
    if document.object_type == ObjectType.FACET:
        name = str(document.statement_id).removeprefix("mixin-")
    elif document.object_type != ObjectType.YIELD_ASSIGNMENT:
        name = names.get(str(document.statement_id)) or document.facet_name
    return f"{around}.{name}" if around else name


def _inside(document: StepDocument, paths: Mapping[str, str], inside: Mapping[str, str]) -> str:
    """Return the path in front of what stands in a block."""
    around = paths[str(document.container_id)] if document.block_id is None else inside[document.block_id]
    if document.foreach_index is not None:
        return f"{around}[{document.foreach_index}]"
    kind, _, number = str(document.statement_id).partition("-")
    label = {"case": f"case[{number}]", "catch": "catch"}.get(kind, "")
    return f"{around}.{label}" if around and label else around or label


def _nodes(tree: object) -> Iterator[Node]:
    if isinstance(tree, Mapping):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, Sequence) and not isinstance(tree, str):
        for child in tree:
            yield from _nodes(child)


class RunView:
    """Reads one run from a store."""

    def __init__(self, store: Store, workflow_id: str, program: object) -> None:
        self._store = store
        self._workflow_id = workflow_id
        self._names = statement_names(program)

    def steps(self) -> list[SeenStep]:
        return seen_steps(self._store.load_steps(self._workflow_id), self._names)

    def step(self, path: str) -> SeenStep:
        """Return the only step of that path."""
        found = [step for step in self.steps() if step.path == path]
        assert len(found) == 1, f"{len(found)} steps at {path!r}; there are {sorted(s.path for s in self.steps())}"
        return found[0]

    def waiting(self) -> list[SeenStep]:
        """Return the steps whose events are unanswered, in order of creation."""
        return [step for step in self.steps() if step.is_waiting]

    def waiting_paths(self) -> list[str]:
        return [step.path for step in self.waiting()]
