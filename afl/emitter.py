"""Writes a syntax tree as the compiled program: JSON.

Ids are UUIDs of version 5 over the node's structural path, which is made of names and positions inside the
declaration, never of files or lines: every machine compiles the same bytes, and moving a declaration to another file
keeps the ids of all that is in it. Several openings of one namespace stay several Namespace nodes, because a `use`
holds for one opening only; the second opening's own id is numbered, the declarations inside are not affected.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha1
from typing import Any, cast

from afl import ast
from afl.source import FileOrigin, MavenOrigin, MongoDBOrigin, SourceOrigin, SourceRegistry

Json = dict[str, Any]

#: The UUID under which all node ids are derived. Ids are stored with runs: never change it, nor the paths.
NODE_ID_NAMESPACE = bytes.fromhex("6a0b3c1e5d7f5c2e9a417f1f0c8d2b64")

_LITERAL_TYPES = {"string": "String", "integer": "Int", "double": "Double", "boolean": "Boolean"}
_DECLARATION_TYPES: dict[type[ast.ASTNode], str] = {
    ast.FacetDecl: "FacetDecl",
    ast.EventFacetDecl: "EventFacetDecl",
    ast.WorkflowDecl: "WorkflowDecl",
}


class JSONEmitter:
    """Turns trees into JSON objects or text.

    With provenance, locations also say where the text came from, as far as `source_registry` knows. `indent` None
    writes one line.
    """

    def __init__(
        self,
        include_locations: bool = True,
        include_provenance: bool = False,
        source_registry: SourceRegistry | None = None,
        indent: int | None = 2,
    ) -> None:
        self._include_locations = include_locations
        self._include_provenance = include_provenance
        self._registry = source_registry
        self._indent = indent

    def emit(self, node: ast.ASTNode) -> str:
        """Return the node as JSON text."""
        return to_text(self.emit_dict(node), self._indent)

    def emit_dict(self, node: ast.ASTNode) -> Json:
        """Return the node as a JSON object; raises ValueError for what is no node of the tree."""
        return _Emission(self._location if self._include_locations else None).node(node)

    def _location(self, place: ast.SourceLocation) -> Json:
        location: Json = {"line": place.line, "column": place.column}
        if place.end_line is not None:
            location["endLine"] = place.end_line
            location["endColumn"] = place.end_column
        if self._include_provenance and place.source_id is not None:
            location["sourceId"] = place.source_id
            origin = self._registry.get(place.source_id) if self._registry else None
            location["provenance"] = _provenance(origin)
        return location


def emit_json(program: ast.ASTNode, include_locations: bool = True, indent: int | None = 2) -> str:
    """Return a tree as JSON text."""
    return JSONEmitter(include_locations=include_locations, indent=indent).emit(program)


def emit_dict(program: ast.ASTNode, include_locations: bool = True) -> Json:
    """Return a tree as a JSON object."""
    return JSONEmitter(include_locations=include_locations).emit_dict(program)


def derive_id(path: str) -> str:
    """Return the UUID (version 5) of a structural path."""
    digest = sha1(NODE_ID_NAMESPACE + path.encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


class _Emission:
    """One emission: knows the paths that were given out."""

    def __init__(self, location: Callable[[ast.SourceLocation], Json] | None) -> None:
        self._location = location
        self._taken: Counter[str] = Counter()
        self._expressions: dict[type, Callable[[Any], Json]] = {
            ast.Literal: _literal,
            ast.Reference: _reference,
            ast.ConcatExpr: self._concat,
            ast.BinaryExpr: self._binary,
            ast.UnaryExpr: self._unary,
            ast.ArrayLiteral: self._array,
            ast.MapLiteral: self._map,
            ast.IndexExpr: self._index,
        }
        self._nodes: dict[type, Callable[[Any], Json]] = {
            **self._expressions,
            ast.Program: self._program,
            ast.Namespace: self._namespace,
            ast.FacetDecl: lambda node: self._callable(node, ""),
            ast.EventFacetDecl: lambda node: self._callable(node, ""),
            ast.WorkflowDecl: lambda node: self._callable(node, ""),
            ast.SchemaDecl: lambda node: self._schema(node, ""),
            ast.AndThenBlock: lambda node: self._clause(node, "andThen[0]"),
            ast.StepStmt: lambda node: self._step(node, ""),
            ast.YieldStmt: lambda node: self._yield(node, "yield[0]"),
            ast.CallExpr: lambda node: self._call(node, "call"),
            ast.ForeachClause: _foreach,
            ast.Parameter: self._parameter,
            ast.NamedArg: self._arg,
            ast.ArrayType: lambda node: cast(Json, _type(node)),
            ast.MapEntry: self._entry,
        }

    def node(self, node: ast.ASTNode) -> Json:
        write = self._nodes.get(type(node))
        if write is None:
            raise ValueError(f"a {type(node).__name__} cannot be emitted by itself")
        return write(node)

    # -- declarations -------------------------------------------------------------------------------------------------

    def _program(self, node: ast.Program) -> Json:
        declarations: list[Json] = [self._namespace(item) for item in node.namespaces]
        declarations += self._callables([*node.facets, *node.event_facets, *node.workflows], "")
        declarations += [self._schema(item, "") for item in node.schemas]
        document: Json = {"type": "Program"}
        if declarations:
            document["declarations"] = declarations
        return self._identify(document, node, "program")

    def _namespace(self, node: ast.Namespace) -> Json:
        document: Json = {"type": "Namespace", "name": node.name}
        if node.uses:
            document["uses"] = [item.name for item in node.uses]
        declarations = self._callables([*node.facets, *node.event_facets, *node.workflows], node.name)
        declarations += [self._schema(item, node.name) for item in node.schemas]
        if declarations:
            document["declarations"] = declarations
        return self._identify(document, node, self._path("", f"namespace:{node.name}"))

    def _callables(self, declarations: Iterable[ast.Callable], namespace: str) -> list[Json]:
        return [self._callable(item, namespace) for item in declarations]

    def _callable(self, node: ast.Callable, namespace: str) -> Json:
        kind = _DECLARATION_TYPES[type(node)]
        path = self._path(namespace, f"{kind}:{node.sig.name}")
        document: Json = {"type": kind, "name": node.sig.name}
        if node.sig.params:
            document["params"] = [self._parameter(item) for item in node.sig.params]
        if node.sig.returns is not None:
            document["returns"] = [self._parameter(item) for item in node.sig.returns.params]
        if node.body is not None:
            document["body"] = self._body(node.body, path)
        return self._identify(document, node, path)

    def _schema(self, node: ast.SchemaDecl, namespace: str) -> Json:
        path = self._path(namespace, f"SchemaDecl:{node.name}")
        fields = [{"name": item.name, "type": _type(item.type)} for item in node.fields]
        return self._identify({"type": "SchemaDecl", "name": node.name, "fields": fields}, node, path)

    def _parameter(self, node: ast.Parameter) -> Json:
        document: Json = {"name": node.name, "type": _type(node.type)}
        if node.default is not None:
            document["default"] = self._expression(node.default)
        return document

    # -- blocks and statements ----------------------------------------------------------------------------------------

    def _body(self, body: ast.Body, path: str) -> Json | list[Json]:
        written = [self._clause(item, f"{path}/andThen[{n}]") for n, item in enumerate(ast.clauses(body))]
        return written[0] if len(written) == 1 else written

    def _clause(self, node: ast.AndThenBlock, path: str) -> Json:
        document: Json = {"type": "AndThenBlock"}
        if node.foreach is not None:
            document["foreach"] = _foreach(node.foreach)
        if node.block.steps:
            document["steps"] = [self._step(item, path) for item in node.block.steps]
        gives = [self._yield(item, f"{path}/yield[{n}]") for n, item in enumerate(node.block.yield_stmts)]
        if len(gives) == 1:
            document["yield"] = gives[0]
        elif gives:
            document["yields"] = gives
        return self._identify(document, node, path)

    def _step(self, node: ast.StepStmt, block: str) -> Json:
        path = self._path(block, f"step:{node.name}")
        document: Json = {"type": "StepStmt", "name": node.name, "call": self._call(node.call, path + "/call")}
        if node.body is not None:
            document["body"] = self._body(node.body, path)
        return self._identify(document, node, path)

    def _yield(self, node: ast.YieldStmt, path: str) -> Json:
        return self._identify({"type": "YieldStmt", "call": self._call(node.call, path + "/call")}, node, path)

    def _call(self, node: ast.CallExpr, path: str) -> Json:
        document: Json = {"type": "CallExpr", "target": node.name}
        if node.args:
            document["args"] = [self._arg(item) for item in node.args]
        return self._identify(document, node, path)

    def _arg(self, node: ast.NamedArg) -> Json:
        return {"name": node.name, "value": self._expression(node.value)}

    # -- expressions --------------------------------------------------------------------------------------------------

    def _expression(self, node: ast.Expression) -> Json:
        return self._expressions[type(node)](node)

    def _concat(self, node: ast.ConcatExpr) -> Json:
        return {"type": "ConcatExpr", "operands": [self._expression(item) for item in node.operands]}

    def _binary(self, node: ast.BinaryExpr) -> Json:
        left, right = self._expression(node.left), self._expression(node.right)
        return {"type": "BinaryExpr", "operator": node.operator, "left": left, "right": right}

    def _unary(self, node: ast.UnaryExpr) -> Json:
        return {"type": "UnaryExpr", "operator": node.operator, "operand": self._expression(node.operand)}

    def _array(self, node: ast.ArrayLiteral) -> Json:
        return {"type": "ArrayLiteral", "elements": [self._expression(item) for item in node.elements]}

    def _map(self, node: ast.MapLiteral) -> Json:
        return {"type": "MapLiteral", "entries": [self._entry(item) for item in node.entries]}

    def _entry(self, node: ast.MapEntry) -> Json:
        return {"key": node.key, "value": self._expression(node.value)}

    def _index(self, node: ast.IndexExpr) -> Json:
        return {
            "type": "IndexExpr",
            "target": self._expression(node.target),
            "index": self._expression(node.index),
        }

    # -- identity -----------------------------------------------------------------------------------------------------

    def _path(self, parent: str, name: str) -> str:
        """Return the path of a named node; a name used again (an invalid program) is numbered, so ids stay unique."""
        path = f"{parent}/{name}"
        self._taken[path] += 1
        times = self._taken[path]
        return path if times == 1 else f"{path}#{times}"

    def _identify(self, document: Json, node: ast.ASTNode, path: str) -> Json:
        document["id"] = node.node_id or derive_id(path)
        if self._location is not None and node.location is not None:
            document["location"] = self._location(node.location)
        return document


def _type(node: ast.Type) -> str | Json:
    if isinstance(node, ast.TypeRef):
        return node.name
    return {"type": "ArrayType", "elementType": _type(node.element_type)}


def _foreach(node: ast.ForeachClause) -> Json:
    return {"type": "ForeachClause", "variable": node.variable, "iterable": _reference(node.iterable)}


def _literal(node: ast.Literal) -> Json:
    if node.kind == "null":
        return {"type": "Null"}
    return {"type": _LITERAL_TYPES[node.kind], "value": node.value}


def _reference(node: ast.Reference) -> Json:
    return {"type": "InputRef" if node.is_input else "StepRef", "path": list(node.path)}


def _provenance(origin: SourceOrigin | None) -> Json:
    match origin:
        case FileOrigin(path):
            return {"type": "file", "path": path}
        case MongoDBOrigin(collection_id, display_name):
            return {"type": "mongodb", "collectionId": collection_id, "displayName": display_name}
        case MavenOrigin(group_id, artifact_id, version, classifier):
            document = {"type": "maven", "groupId": group_id, "artifactId": artifact_id, "version": version}
            return document | ({"classifier": classifier} if classifier else {})
        case None:
            return {"type": "unknown"}


# -- text -------------------------------------------------------------------------------------------------------------


def to_text(value: object, indent: int | None) -> str:
    """Return a JSON value as text.

    The library's encoder falls back to slow code as soon as it indents; this is the same layout in a third of the time.
    """
    if indent is None:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    pieces: list[str] = []
    _write(value, "\n", " " * indent, pieces.append)
    return "".join(pieces)


_encode_string = json.encoder.encode_basestring


def _write(value: object, line: str, step: str, put: Callable[[str], object]) -> None:
    if isinstance(value, str):
        put(_encode_string(value))
    elif isinstance(value, dict) and value:
        inner = line + step
        before = "{" + inner
        for key, member in value.items():
            put(f"{before}{_encode_string(key)}: ")
            before = "," + inner
            if type(member) is int:
                put(str(member))
            else:
                _write(member, inner, step, put)
        put(line + "}")
    elif isinstance(value, Sequence) and value:
        inner = line + step
        before = "[" + inner
        for item in value:
            put(before)
            before = "," + inner
            _write(item, inner, step, put)
        put(line + "]")
    else:
        put(json.dumps(value))
