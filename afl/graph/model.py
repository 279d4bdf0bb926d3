"""The dependency graph of a workflow: steps in their blocks, and arrows from needed steps to steps that need them.

Kinds of vertices: step, event, wait, workflow, schema, yield, log, assert, script. Kinds of clusters: block, foreach,
when, case, catch. Kinds of edges: `needs` for data, `then` from a step to its own block, `fails` to its catch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from afl.compiled.needs import Scope, is_plain, needs, own_parts, yields
from afl.compiled.program import CALLABLE, SCHEMAS, CompiledProgram, Declaration, Kind, blocks_of
from afl.graph.picture import Cluster, Edge, Graph, Item, Vertex
from afl.graph.wording import expression, short

Node = Mapping[str, Any]


def graph_of(program: CompiledProgram, workflow: Declaration) -> Graph:
    """Return the graph of a workflow, or of a facet with a body."""
    return _Builder(program, workflow).build()


@dataclass(slots=True)
class _Builder:
    """Builder that walks the blocks of one declaration."""

    program: CompiledProgram
    declaration: Declaration
    edges: list[Edge] = field(default_factory=list)
    numbers: int = 0

    def build(self) -> Graph:
        node = self.declaration.node
        items: list[Item] = []
        if node.get("pre_script"):
            items.append(self._script("script"))
        blocks = blocks_of(node.get("body"))
        seen = Scope()
        for number, block in enumerate(blocks):
            scope = Scope(seen) if block.get("when") else Scope()
            items += self._block(block, scope, f"block {number + 1}", is_only=len(blocks) == 1)
            if is_plain(block):
                for step in block.get("steps") or ():
                    if "name" in step:
                        seen.add(step["name"], step["id"])
        if node.get("catch"):
            items.append(self._catch(node["catch"], Scope(), f"when {self.declaration.name} fails"))
        return Graph(
            name=self.declaration.qualified_name,
            params=", ".join(str(param["name"]) for param in node.get("params") or ()),
            returns=", ".join(str(param["name"]) for param in node.get("returns") or ()),
            items=tuple(items),
            edges=tuple(dict.fromkeys(self._telling(items))),
        )

    def _telling(self, items: list[Item]) -> Iterator[Edge]:
        """Return the edges without those from a step into its own blocks: the edge to the block is enough."""
        own = {(edge.source, edge.target) for edge in self.edges if edge.kind != "needs"}
        around: dict[str, tuple[str, ...]] = {}

        def walk(inner: Iterable[Item], frames: tuple[str, ...]) -> None:
            for item in inner:
                around[item.id] = (*frames, item.id)
                if isinstance(item, Cluster):
                    walk(item.items, around[item.id])

        walk(items, ())
        for edge in self.edges:
            if edge.kind != "needs" or not any((edge.source, frame) in own for frame in around[edge.target]):
                yield edge

    def _block(self, block: Node, scope: Scope, title: str, *, is_only: bool = False) -> list[Item]:
        """Return the items for a clause; a declaration's only plain clause needs no frame."""
        clause, when = block.get("foreach"), block.get("when")
        if block.get("script"):
            return [self._script(title if title.startswith("block") else f"{title}: script")]
        if when is not None:
            cluster = self._when(when, scope, "when", block["id"])
        else:
            items = self._statements(block, Scope(scope, clause["variable"] if clause else None))
            if clause is None and is_only:
                return items
            kind = "foreach" if clause else "block"
            words = f"foreach {clause['variable']} in {expression(clause['iterable'])}" if clause else title
            cluster = Cluster(id=block["id"], kind=kind, title=words, items=tuple(items))
        self._needs(needs(own_parts(block), scope), cluster.id)
        return [cluster]

    def _when(self, when: Node, scope: Scope, title: str, cluster_id: str) -> Cluster:
        cases: list[Item] = []
        for number, case in enumerate(when.get("cases") or ()):
            condition = case.get("condition")
            words = "otherwise" if condition is None else f"if {short(expression(condition))}"
            items = self._statements(case, Scope(scope))
            cases.append(Cluster(id=f"{cluster_id}.{number}", kind="case", title=words, items=tuple(items)))
        return Cluster(id=cluster_id, kind="when", title=title, items=tuple(cases))

    def _catch(self, clause: Node, scope: Scope, title: str) -> Cluster:
        when = clause.get("when")
        if when is not None:
            cluster = self._when(when, scope, title, clause["id"])
            return Cluster(id=cluster.id, kind="catch", title=title, items=cluster.items)
        items = tuple(self._statements(clause, Scope(scope)))
        return Cluster(id=clause["id"], kind="catch", title=title, items=items)

    def _statements(self, block: Node, scope: Scope) -> list[Item]:
        items: list[Item] = []
        for step in block.get("steps") or ():
            items.append(self._vertex(step))
            own = {part: value for part, value in step.items() if part not in ("body", "catch")}
            self._needs(needs(own, scope), step["id"])
            if "name" not in step:
                continue
            scope.add(step["name"], step["id"])
            for inner in blocks_of(step.get("body")):
                added = self._block(inner, scope, f"then, with {step['name']}")
                self.edges += [Edge(source=step["id"], target=item.id, kind="then") for item in added]
                items += added
            if step.get("catch"):
                cluster = self._catch(step["catch"], scope, f"when {step['name']} fails")
                self.edges.append(Edge(source=step["id"], target=cluster.id, kind="fails"))
                items.append(cluster)
        for item in yields(block):
            names = ", ".join(str(arg["name"]) for arg in item["call"].get("args") or ())
            title = f"yield {item['call']['target'].rpartition('.')[2]}"
            items.append(Vertex(id=item["id"], kind="yield", title=title, detail=short(names)))
            self._needs(needs(item, scope), item["id"])
        return items

    def _vertex(self, step: Node) -> Vertex:
        if step["type"] == "SysLogStmt":
            names = ", ".join(str(arg["name"]) for arg in step.get("args") or ())
            return Vertex(id=step["id"], kind="log", title="sys.log", detail=short(names))
        if step["type"] == "SysAssertStmt":
            return Vertex(id=step["id"], kind="assert", title="sys.assert", detail=short(expression(step["condition"])))
        call = step["call"]
        mixins = "".join(f" with {mixin['target'].rpartition('.')[2]}" for mixin in call.get("mixins") or ())
        target = call["target"].rpartition(".")[2]
        return Vertex(id=step["id"], kind=self._kind(call["target"]), title=step["name"], detail=short(target + mixins))

    def _kind(self, target: str) -> str:
        names, here = self.program.names, self.declaration
        for kinds in (CALLABLE, SCHEMAS):
            found = names.resolve(target, here.namespace, here.uses, kinds).found
            if found is not None:
                declared = self.program.declarations[found]
                kind = declared.kind
                if kind is Kind.EVENT_FACET and declared.is_library:
                    return "wait"
                return {Kind.EVENT_FACET: "event", Kind.WORKFLOW: "workflow", Kind.SCHEMA: "schema"}.get(kind, "step")
        return "step"

    def _script(self, title: str) -> Vertex:
        self.numbers += 1
        return Vertex(id=f"script-{self.numbers}", kind="script", title=title, detail="python")

    def _needs(self, sources: list[str], target: str) -> None:
        self.edges += [Edge(source=source, target=target) for source in sources]
