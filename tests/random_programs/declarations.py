"""The declarations and implicits of a compiled program, and what a name means in one of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.random_programs.expressions import Node

_CALLABLE = frozenset({"FacetDecl", "EventFacetDecl", "WorkflowDecl", "SchemaDecl"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A facet, event facet, workflow, schema or implicit, and where the names in it are looked up."""

    namespace: str
    uses: Sequence[str]
    node: Node

    @property
    def name(self) -> str:
        return str(self.node["name"])

    @property
    def qualified_name(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    @property
    def returns(self) -> list[Node]:
        return list(self.node.get("returns", []))

    @property
    def params(self) -> list[Node]:
        return list(self.node.get("params", []))

    @property
    def mixins(self) -> list[Node]:
        return list(self.node.get("mixins", []))


class Declarations:
    """All of a program's."""

    def __init__(self, program: Node) -> None:
        nodes = list(_declarations(program))
        self._callable = {d.qualified_name: d for d in nodes if d.node["type"] in _CALLABLE}
        self._implicits = [d for d in nodes if d.node["type"] == "ImplicitDecl"]

    def __getitem__(self, qualified_name: str) -> Declaration:
        return self._callable[qualified_name]

    def resolve(self, target: str, user: Declaration) -> Declaration:
        """Return a callee: by full name, from its user's namespace, from those it uses, or the only one so named."""
        if "." in target:
            return self._callable[target]
        for names in ([user.namespace], [*user.uses, ""], [d.namespace for d in self._callable.values()]):
            found = {f"{name}.{target}".lstrip(".") for name in names} & self._callable.keys()
            if len(found) == 1:
                return self._callable[found.pop()]
        raise LookupError(f"{target} is not one declaration")

    def implicit(self, callee: Declaration, caller: Declaration) -> Node | None:
        """Return the call whose arguments fill what a call of the callee leaves out: the nearest implicit for it."""
        places = [caller.namespace, callee.namespace, *caller.uses, ""]
        fitting = [
            implicit
            for implicit in self._implicits
            if self.resolve(implicit.node["call"]["target"], implicit).qualified_name == callee.qualified_name
        ]
        for place in places:
            for implicit in fitting:
                if implicit.namespace == place:
                    return dict(implicit.node["call"])
        return dict(fitting[0].node["call"]) if fitting else None


def as_list(body: Any) -> list[Node]:
    """Return the blocks of a body: it has none, one, or a list of them. A prompt is none."""
    blocks = body if isinstance(body, list) else [body]
    return [block for block in blocks if block is not None and block["type"] == "AndThenBlock"]


def yields_of(block: Node) -> list[Node]:
    return list(block.get("yields", [block["yield"]] if "yield" in block else []))


def steps_named(node: Any) -> Iterator[str]:
    """First parts of all step references below a node."""
    if isinstance(node, list):
        for each in node:
            yield from steps_named(each)
    elif isinstance(node, dict):
        if node.get("type") == "StepRef":
            yield node["path"][0]
        for each in node.values():
            yield from steps_named(each)


def _declarations(program: Node) -> Iterator[Declaration]:
    for node in program.get("declarations", []):
        if node["type"] == "Namespace":
            for inner in node.get("declarations", []):
                yield Declaration(namespace=node["name"], uses=node.get("uses", []), node=inner)
        else:
            yield Declaration(namespace="", uses=[], node=node)
