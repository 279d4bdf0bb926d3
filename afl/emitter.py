"""Write a syntax tree as the compiled program: JSON.

Ids are UUIDs of version 5 over the node's structural path. The path consists of names and positions inside the
declaration, never of files or lines: every machine compiles the same bytes, and a declaration that moves to another
file keeps all its ids. Several openings of one namespace stay several Namespace nodes, because a `use` holds for one
opening only. The second opening's own id is numbered; the declarations inside are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha1
from typing import Any, cast

from afl import ast
from afl.ast_node import given_id
from afl.compiled.chains import MAX_CHAIN_DEPTH
from afl.compiled.library_mark import marked
from afl.compiled.runtime_mixins import RETRY
from afl.compiled.runtime_use import has_runtime_retry, says_its_form
from afl.compiled.sensitive_mark import mark_sensitive
from afl.json_text import to_text
from afl.library.declarations import NAMESPACE
from afl.library.used import LibraryUse
from afl.source import SourceRegistry, provenance
from afl.syntax.operator_chains import links_of, operator_of, right_of

__all__ = ["NODE_ID_NAMESPACE", "JSONEmitter", "derive_id", "emit_dict", "emit_json", "to_text"]

Json = dict[str, Any]

#: The UUID under which all node ids are derived. Ids are stored with runs: never change it, nor the paths.
NODE_ID_NAMESPACE = bytes.fromhex("6a0b3c1e5d7f5c2e9a417f1f0c8d2b64")

#: The variant digit of a UUID for each digit in its place.
_VARIANTS = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}

_LITERAL_TYPES = {"string": "String", "integer": "Int", "double": "Double", "boolean": "Boolean"}
_DECLARATION_TYPES: dict[type[ast.ASTNode], str] = {
    ast.FacetDecl: "FacetDecl",
    ast.EventFacetDecl: "EventFacetDecl",
    ast.WorkflowDecl: "WorkflowDecl",
}


class JSONEmitter:
    """The emitter that turns trees into JSON objects or text.

    With provenance, locations also name the origin of the text, as far as `source_registry` knows it. With sources, the
    locations of declarations name their text, which is enough to find the file of a step. `indent` None writes one
    line.
    """

    def __init__(
        self,
        include_locations: bool = True,
        include_provenance: bool = False,
        source_registry: SourceRegistry | None = None,
        indent: int | None = 2,
        include_sources: bool = False,
    ) -> None:
        self._include_sources = include_sources
        self._include_locations = include_locations
        self._include_provenance = include_provenance
        self._registry = source_registry
        self._indent = indent

    def emit(self, node: ast.ASTNode) -> str:
        """Return the node as JSON text."""
        return to_text(self.emit_dict(node), self._indent)

    def emit_dict(self, node: ast.ASTNode) -> Json:
        """Return the node as a JSON object; raises ValueError for an object that is not a node of the tree."""
        location = self._location if self._include_locations else None
        return _Emission(location, names_sources=self._include_sources).node(node)

    def _location(self, place: ast.SourceLocation) -> Json:
        location: Json = {"line": place.line, "column": place.column}
        if place.end_line is not None:
            location["endLine"] = place.end_line
            location["endColumn"] = place.end_column
        if self._include_provenance and place.source_id is not None:
            location["sourceId"] = place.source_id
            origin = self._registry.get(place.source_id) if self._registry else None
            location["provenance"] = provenance(origin)
        return location


def emit_json(ast: ast.ASTNode, include_locations: bool = True, indent: int | None = 2) -> str:
    """Return a tree as JSON text."""
    return JSONEmitter(include_locations=include_locations, indent=indent).emit(ast)


def emit_dict(ast: ast.ASTNode, include_locations: bool = True, *, include_sources: bool = False) -> Json:
    """Return a tree as a JSON object."""
    return JSONEmitter(include_locations=include_locations, include_sources=include_sources).emit_dict(ast)


def derive_id(path: str) -> str:
    """Return the UUID (version 5) of a structural path."""
    digest = sha1(NODE_ID_NAMESPACE + path.encode(), usedforsecurity=False).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{_VARIANTS[digest[16]]}{digest[17:20]}-{digest[20:32]}"


class _Emission:
    """One emission: knows the paths that were used."""

    def __init__(self, location: Callable[[ast.SourceLocation], Json] | None, *, names_sources: bool = False) -> None:
        self._location = location
        self._names_sources = names_sources
        self._taken: dict[str, int] = {}
        self._library_use = LibraryUse()
        self._has_retries = False
        #: The number of expression nodes around the node that is being written.
        self._depth = 0

    def node(self, node: ast.ASTNode) -> Json:
        write = _NODES.get(type(node))
        if write is None:
            raise ValueError(f"a {type(node).__name__} cannot be emitted by itself")
        return write(self, node)

    # -- declarations -------------------------------------------------------------------------------------------------

    def _program(self, node: ast.Program) -> Json:
        document: Json = {"type": "Program"}
        declarations: list[Json] = []
        for item in node.namespaces:
            self._library_use.enter(node, item)
            declarations.append(self._namespace(item))
        self._library_use.enter(node, None)
        declarations += self._declarations(node, "")
        declarations += (library := self._library())
        if declarations:
            document["declarations"] = declarations
        if library or (self._has_retries and has_runtime_retry(document)):
            document = says_its_form(document)
        return self._identify(document, node, "program")

    def _library(self) -> list[Json]:
        """Return the namespace of the library with what the program uses, without doc comments and foreign places."""
        used = self._library_use.declarations()
        if not used:
            return []
        self._location = None
        written = [marked(self._callable(item, NAMESPACE)) for item in used]
        for document in written:
            del document["doc"]
        path = self._path("", f"namespace:{NAMESPACE}")
        return [{"type": "Namespace", "name": NAMESPACE, "declarations": written, "id": derive_id(path)}]

    def _namespace(self, node: ast.Namespace) -> Json:
        document: Json = {"type": "Namespace", "name": node.name}
        if node.doc is not None:
            document["doc"] = _doc(node.doc)
        if node.uses:
            document["uses"] = [item.name for item in node.uses]
        declarations = self._declarations(node, node.name)
        if declarations:
            document["declarations"] = declarations
        return self._identify(document, node, self._path("", f"namespace:{node.name}"))

    def _declarations(self, node: ast.Program | ast.Namespace, namespace: str) -> list[Json]:
        callables: list[ast.Callable] = [*node.facets, *node.event_facets, *node.workflows]
        written = [self._callable(item, namespace) for item in callables]
        written += [self._implicit(item, namespace) for item in node.implicits]
        written += [self._schema(item, namespace) for item in node.schemas]
        return written

    def _callable(self, node: ast.Callable, namespace: str) -> Json:
        kind = _DECLARATION_TYPES[type(node)]
        path = self._path(namespace, f"{kind}:{node.sig.name}")
        document: Json = {"type": kind, "name": node.sig.name}
        if node.doc is not None:
            document["doc"] = _doc(node.doc)
        if node.sig.params:
            document["params"] = [self._parameter(item) for item in node.sig.params]
        if node.sig.returns is not None:
            document["returns"] = [self._parameter(item) for item in node.sig.returns.params]
        mark_sensitive(node.doc, [*document.get("params", ()), *document.get("returns", ())])
        if node.sig.mixins:
            document["mixins"] = [self._mixin(item) for item in node.sig.mixins]
        if node.pre_script is not None:
            document["pre_script"] = self._script(node.pre_script, path + "/script")
        if node.body is not None:
            document["body"] = self._body(node.body, path)
        if node.catch is not None:
            document["catch"] = self._catch(node.catch, path)
        self._identify(document, node, path)
        if self._names_sources and "location" in document and node.location is not None and node.location.source_id:
            document["location"]["sourceId"] = node.location.source_id
        return document

    def _implicit(self, node: ast.ImplicitDecl, namespace: str) -> Json:
        path = self._path(namespace, f"ImplicitDecl:{node.name}")
        document: Json = {"type": "ImplicitDecl", "name": node.name, "call": self._call(node.call, path + "/call")}
        return self._identify(document, node, path)

    def _schema(self, node: ast.SchemaDecl, namespace: str) -> Json:
        path = self._path(namespace, f"SchemaDecl:{node.name}")
        fields: list[Json] = [{"name": item.name, "type": self._type(item.type)} for item in node.fields]
        document: Json = {"type": "SchemaDecl", "name": node.name}
        if node.doc is not None:
            document["doc"] = _doc(node.doc)
        document["fields"] = mark_sensitive(node.doc, fields)
        return self._identify(document, node, path)

    def _parameter(self, node: ast.Parameter) -> Json:
        document: Json = {"name": node.name, "type": self._type(node.type)}
        if node.default is not None:
            document["default"] = self._expression(node.default)
        return document

    def _type(self, node: ast.Type) -> str | Json:
        if isinstance(node, ast.TypeRef):
            return self._library_use.note(node.name)
        return {"type": "ArrayType", "elementType": self._type(node.element_type)}

    # -- blocks and statements ----------------------------------------------------------------------------------------

    def _body(self, body: ast.Body, path: str) -> Json | list[Json]:
        if isinstance(body, ast.PromptBlock):
            return self._prompt(body, path + "/prompt")
        written = [self._clause(item, f"{path}/andThen[{n}]") for n, item in enumerate(ast.clauses(body))]
        return written[0] if len(written) == 1 else written

    def _clause(self, node: ast.AndThenBlock, path: str) -> Json:
        document: Json = {"type": "AndThenBlock"}
        if node.foreach is not None:
            document["foreach"] = self._foreach(node.foreach)
        if node.when is not None:
            document["when"] = self._when(node.when, path)
        elif node.script is not None:
            document["script"] = self._script(node.script, path + "/script")
        else:
            self._fill(document, node.block, path)
        return self._identify(document, node, path)

    def _foreach(self, node: ast.ForeachClause) -> Json:
        return {"type": "ForeachClause", "variable": node.variable, "iterable": self._reference(node.iterable)}

    def _catch(self, node: ast.CatchClause, owner: str) -> Json:
        path = owner + "/catch"
        document: Json = {"type": "CatchClause"}
        if node.when is not None:
            document["when"] = self._when(node.when, path)
        else:
            self._fill(document, node.block, path)
        return self._identify(document, node, path)

    def _when(self, node: ast.WhenBlock, path: str) -> Json:
        return {
            "type": "WhenBlock",
            "cases": [self._case(item, f"{path}/case[{n}]") for n, item in enumerate(node.cases)],
        }

    def _case(self, node: ast.WhenCase, path: str) -> Json:
        document: Json = {"type": "WhenCase"}
        if node.condition is None:
            document["default"] = True
        else:
            document["condition"] = self._expression(node.condition)
        self._fill(document, node.block, path)
        return document

    def _fill(self, document: Json, block: ast.Block, path: str) -> None:
        """Add the statements and yields of a block to the object that holds it."""
        if block.steps:
            document["steps"] = [self._statement(item, path) for item in block.steps]
        gives = [self._yield(item, f"{path}/yield[{n}]") for n, item in enumerate(block.yield_stmts)]
        if len(gives) == 1:
            document["yield"] = gives[0]
        elif gives:
            document["yields"] = gives

    def _statement(self, node: ast.Statement, block: str) -> Json:
        if isinstance(node, ast.StepStmt):
            return self._step(node, block)
        # These have no name: ids of equal ones are numbered in their order, independent of other statements.
        if isinstance(node, ast.SysLogStmt):
            return self._sys_log(node, self._path(block, "log"))
        return self._sys_assert(node, self._path(block, "assert"))

    def _step(self, node: ast.StepStmt, block: str) -> Json:
        path = self._path(block, f"step:{node.name}")
        document: Json = {"type": "StepStmt", "name": node.name, "call": self._call(node.call, path + "/call")}
        if node.body is not None:
            document["body"] = self._body(node.body, path)
        if node.catch is not None:
            document["catch"] = self._catch(node.catch, path)
        return self._identify(document, node, path)

    def _sys_log(self, node: ast.SysLogStmt, path: str) -> Json:
        document: Json = {"type": "SysLogStmt"}
        if node.args:
            document["args"] = [self._arg(item) for item in node.args]
        return self._identify(document, node, path)

    def _sys_assert(self, node: ast.SysAssertStmt, path: str) -> Json:
        document: Json = {"type": "SysAssertStmt", "condition": self._expression(node.condition)}
        return self._identify(document, node, path)

    def _yield(self, node: ast.YieldStmt, path: str) -> Json:
        return self._identify({"type": "YieldStmt", "call": self._call(node.call, path + "/call")}, node, path)

    def _call(self, node: ast.CallExpr, path: str) -> Json:
        document: Json = {"type": "CallExpr", "target": self._library_use.note(node.name)}
        if node.args:
            document["args"] = [self._arg(item) for item in node.args]
        if node.mixins:
            document["mixins"] = [self._mixin(item) for item in node.mixins]
        return self._identify(document, node, path)

    def _mixin(self, node: ast.MixinSig | ast.MixinCall) -> Json:
        document: Json = {"type": type(node).__name__, "target": self._library_use.note(node.name)}
        self._has_retries |= node.name == RETRY
        if node.args:
            document["args"] = [self._arg(item) for item in node.args]
        if node.alias is not None:
            document["alias"] = node.alias
        return document

    def _script(self, node: ast.ScriptBlock, path: str) -> Json:
        return self._identify({"type": "ScriptBlock", "language": node.language, "code": node.code}, node, path)

    def _prompt(self, node: ast.PromptBlock, path: str) -> Json:
        document: Json = {"type": "PromptBlock"}
        for name, text in (("system", node.system), ("template", node.template), ("model", node.model)):
            if text is not None:
                document[name] = text
        return self._identify(document, node, path)

    def _arg(self, node: ast.NamedArg) -> Json:
        return {"name": node.name, "value": self._expression(node.value)}

    # -- expressions --------------------------------------------------------------------------------------------------

    def _expression(self, node: ast.Expression) -> Json:
        return _EXPRESSIONS[type(node)](self, node)

    def _literal(self, node: ast.Literal) -> Json:
        if node.kind == "null":
            return {"type": "Null"}
        return {"type": _LITERAL_TYPES[node.kind], "value": node.value}

    def _reference(self, node: ast.Reference) -> Json:
        return {"type": "InputRef" if node.is_input else "StepRef", "path": list(node.path)}

    def _concat(self, node: ast.ConcatExpr) -> Json:
        return {"type": "ConcatExpr", "operands": self._inside(node.operands)}

    def _unary(self, node: ast.UnaryExpr) -> Json:
        return {"type": "UnaryExpr", "operator": node.operator, "operand": self._inside([node.operand])[0]}

    def _array(self, node: ast.ArrayLiteral) -> Json:
        return {"type": "ArrayLiteral", "elements": self._inside(node.elements)}

    def _map(self, node: ast.MapLiteral) -> Json:
        self._depth += 1
        entries = [self._entry(item) for item in node.entries]
        self._depth -= 1
        return {"type": "MapLiteral", "entries": entries}

    def _entry(self, node: ast.MapEntry) -> Json:
        return {"key": node.key, "value": self._expression(node.value)}

    def _inside(self, nodes: Iterable[ast.Expression]) -> list[Json]:
        """Return the parts of a node."""
        self._depth += 1
        written = [self._expression(node) for node in nodes]
        self._depth -= 1
        return written

    def _chain(self, node: ast.BinaryExpr | ast.IndexExpr) -> Json:
        """Return operators as nested nodes, or flat where nesting would be too deep for readers."""
        first, links = links_of(node)
        if self._depth + len(links) > MAX_CHAIN_DEPTH:
            operands = self._inside([first, *map(right_of, links)])
            return {"type": "ChainExpr", "operators": [operator_of(link) for link in links], "operands": operands}
        self._depth += len(links)
        written = self._expression(first)
        for link in links:
            right = self._expression(right_of(link))
            self._depth -= 1
            if isinstance(link, ast.BinaryExpr):
                written = {"type": "BinaryExpr", "operator": link.operator, "left": written, "right": right}
            else:
                written = {"type": "IndexExpr", "target": written, "index": right}
        return written

    # -- identity -----------------------------------------------------------------------------------------------------

    def _path(self, parent: str, name: str) -> str:
        """Return the path of a named node; a name used again (an invalid program) is numbered, so ids stay unique."""
        path = f"{parent}/{name}"
        times = self._taken[path] = self._taken.get(path, 0) + 1
        return path if times == 1 else f"{path}#{times}"

    def _identify(self, document: Json, node: ast.ASTNode, path: str) -> Json:
        document["id"] = given_id(node) or derive_id(path)
        if self._location is not None and node.location is not None:
            document["location"] = self._location(node.location)
        return document


def _doc(node: ast.Doc) -> Json:
    return {
        "description": node.description,
        "params": [{"name": item.name, "description": item.description} for item in node.params],
        "returns": [{"name": item.name, "description": item.description} for item in node.returns],
    }


#: Functions, not methods of an emission: it would hold itself, and the program, until the next collection.
_EXPRESSIONS: dict[type, Callable[[_Emission, Any], Json]] = {
    ast.Literal: _Emission._literal,
    ast.Reference: _Emission._reference,
    ast.ConcatExpr: _Emission._concat,
    ast.BinaryExpr: _Emission._chain,
    ast.UnaryExpr: _Emission._unary,
    ast.ArrayLiteral: _Emission._array,
    ast.MapLiteral: _Emission._map,
    ast.IndexExpr: _Emission._chain,
}
_NODES: dict[type, Callable[[_Emission, Any], Json]] = {
    **_EXPRESSIONS,
    ast.Program: _Emission._program,
    ast.Namespace: _Emission._namespace,
    **dict.fromkeys(_DECLARATION_TYPES, lambda emission, node: emission._callable(node, "")),
    ast.ImplicitDecl: lambda emission, node: emission._implicit(node, ""),
    ast.SchemaDecl: lambda emission, node: emission._schema(node, ""),
    ast.AndThenBlock: lambda emission, node: emission._clause(node, "andThen[0]"),
    ast.CatchClause: lambda emission, node: emission._catch(node, ""),
    ast.WhenBlock: lambda emission, node: emission._when(node, ""),
    ast.StepStmt: lambda emission, node: emission._step(node, ""),
    ast.SysLogStmt: lambda emission, node: emission._sys_log(node, "log[0]"),
    ast.SysAssertStmt: lambda emission, node: emission._sys_assert(node, "assert[0]"),
    ast.YieldStmt: lambda emission, node: emission._yield(node, "yield[0]"),
    ast.CallExpr: lambda emission, node: emission._call(node, "call"),
    ast.MixinSig: _Emission._mixin,
    ast.MixinCall: _Emission._mixin,
    ast.ScriptBlock: lambda emission, node: emission._script(node, "script"),
    ast.PromptBlock: lambda emission, node: emission._prompt(node, "prompt"),
    ast.Doc: lambda _emission, node: _doc(node),
    ast.ForeachClause: _Emission._foreach,
    ast.Parameter: _Emission._parameter,
    ast.NamedArg: _Emission._arg,
    ast.ArrayType: lambda emission, node: cast(Json, emission._type(node)),
    ast.MapEntry: _Emission._entry,
}
