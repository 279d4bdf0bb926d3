"""The compiled program: its JSON read into declarations, its fingerprint, and how names in it resolve.

The compiler writes this form and the engine runs it; the two share nothing else but the errors. Both older shapes of
the JSON are read as well: categorised lists of declarations beside or instead of `declarations`, a single block or a
list of blocks as body, a script as body, hand-written programs without types or ids.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from afl.compiled.annotations import may_be_annotated, pack, put_annotations
from afl.compiled.errors import AmbiguousName as AmbiguousName
from afl.compiled.errors import ProgramError as ProgramError
from afl.compiled.errors import ProgramVersionError as ProgramVersionError
from afl.compiled.errors import UnknownName as UnknownName
from afl.compiled.errors import WrongFingerprint as WrongFingerprint
from afl.compiled.errors import malformed
from afl.compiled.library_mark import is_marked
from afl.compiled.names import CALLABLE as CALLABLE
from afl.compiled.names import SCHEMAS as SCHEMAS
from afl.compiled.names import Kind as Kind
from afl.compiled.names import Names as Names
from afl.compiled.names import Resolution as Resolution
from afl.compiled.text import SCHEMA_VERSION as SCHEMA_VERSION
from afl.compiled.text import check_schema_version as check_schema_version
from afl.compiled.text import fingerprint_of, separated, text_of
from afl.core.types import BUILTIN_TYPES

Node = Mapping[str, Any]


_KIND_OF_NODE = {
    "FacetDecl": Kind.FACET,
    "EventFacetDecl": Kind.EVENT_FACET,
    "WorkflowDecl": Kind.WORKFLOW,
    "SchemaDecl": Kind.SCHEMA,
}
#: The categorised lists of the older shape, with the kind of an untyped node in each.
_CATEGORIES = {
    "namespaces": "Namespace",
    "facets": "FacetDecl",
    "eventFacets": "EventFacetDecl",
    "workflows": "WorkflowDecl",
    "implicits": "ImplicitDecl",
    "schemas": "SchemaDecl",
}


@dataclass(frozen=True, slots=True, eq=False)
class Declaration:
    """One declared facet, event facet, workflow or schema."""

    qualified_name: str
    kind: Kind
    namespace: str
    #: Namespaces that the declaration imports, in order.
    uses: tuple[str, ...]
    node: Node = field(repr=False)

    @property
    def name(self) -> str:
        return str(self.node["name"])

    @property
    def params(self) -> Sequence[Node]:
        return self.node.get("params") or ()

    @property
    def returns(self) -> Sequence[Node]:
        returns = self.node.get("returns") or ()
        # The object form {"params": [...]} occurs in hand-written programs.
        return returns.get("params", ()) if isinstance(returns, Mapping) else returns

    @property
    def fields(self) -> Sequence[Node]:
        return self.node.get("fields") or ()

    @property
    def blocks(self) -> tuple[Node, ...]:
        """The andThen blocks of the body as a tuple; empty for a script or prompt body."""
        return blocks_of(self.node.get("body"))

    @property
    def pre_script(self) -> Node | None:
        """The script that runs before the blocks. In the older shape it is the body."""
        script = self.node.get("pre_script")
        if script is None:
            body = self.node.get("body")
            script = body if isinstance(body, Mapping) and body.get("type") == "ScriptBlock" else None
        return script

    @property
    def mixins(self) -> Sequence[Node]:
        """The mixins of the signature: each has `target`, and optionally `args` and `alias`."""
        return self.node.get("mixins") or ()

    @property
    def prompt(self) -> Node | None:
        """The prompt for an LLM agent, when the body is one: `template`, and optionally `system` and `model`."""
        body = self.node.get("body")
        return body if isinstance(body, Mapping) and body.get("type") == "PromptBlock" else None

    @property
    def is_library(self) -> bool:
        """Whether it is the library's: the runtime answers it, no agent does."""
        return is_marked(self.node)

    @property
    def line(self) -> int:
        return line_of(self.node)


@dataclass(frozen=True, slots=True, eq=False)
class Implicit:
    """Values for parameters that calls of its target leave out."""

    name: str
    namespace: str
    #: Namespaces imported where the implicit stands, in order: the target's name is resolved there.
    uses: tuple[str, ...]
    node: Node = field(repr=False)

    @property
    def target(self) -> str:
        """The name of the target, as written."""
        return str(self.node["call"]["target"])

    @property
    def args(self) -> Sequence[Node]:
        return self.node["call"].get("args") or ()


def blocks_of(body: object) -> tuple[Node, ...]:
    """Return a body as a tuple of block nodes: none, one, or several."""
    if body is None:
        return ()
    if isinstance(body, Mapping):
        return () if body.get("type") in ("ScriptBlock", "PromptBlock") else (body,)
    if isinstance(body, Sequence):
        return tuple(body)
    raise ProgramError(f"a body must be a block or a list of blocks, found {type(body).__name__}")


def line_of(node: Node) -> int:
    """Return the source line of a node, 0 when the program was compiled without locations."""
    location = node.get("location")
    return int(location.get("line", 0)) if isinstance(location, Mapping) else 0


def column_of(node: Node) -> int:
    """Return the source column of a node, 0 when the program was compiled without locations."""
    location = node.get("location")
    return int(location.get("column", 0)) if isinstance(location, Mapping) else 0


def source_of(declaration: Node) -> str:
    """Return the id of the source that a declaration stands in, "" when the program was compiled without."""
    location = declaration.get("location")
    return str(location.get("sourceId", "")) if isinstance(location, Mapping) else ""


class CompiledProgram:
    """A program as the compiler emits it, ready to look names up in."""

    def __init__(self, tree: Node) -> None:
        if not isinstance(tree, Mapping):
            raise ProgramError(f"a compiled program is a JSON object, found {type(tree).__name__}")
        check_schema_version(tree.get("schemaVersion"))
        self.tree = tree
        self.names = Names()
        self.declarations: dict[str, Declaration] = {}
        #: In source order.
        self.implicits: list[Implicit] = []
        try:
            for found in _declarations(tree, "", ()):
                if isinstance(found, Implicit):
                    self.implicits.append(found)
                    continue
                self.names.add(found.namespace, found.name, found.kind, is_library=found.is_library)
                self.declarations[found.qualified_name] = found
        except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
            # A hand-written tree may lack anything, or nest too deep to be walked.
            raise malformed(error) from error

    @classmethod
    def from_text(cls, text: bytes | str) -> "CompiledProgram":
        """Read a compiled program. Raises ProgramError naming the place where the JSON breaks off."""
        try:
            tree = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ProgramError(f"not a compiled program: {error}") from error
        return cls(tree)

    @classmethod
    def stored(cls, fingerprint: str, text: bytes | str, annotations: bytes | None = None) -> "CompiledProgram":
        """Read a program that is stored under a fingerprint, with its annotations if it has any.

        The fingerprint is computed from the text and compared: raises WrongFingerprint, and ProgramError as
        `from_text`. Earlier releases computed it from a text that included source places and doc comments. A program
        that is stored that way keeps that fingerprint and that text, because those releases still read it.
        """
        program = cls.from_text(text)
        read = text.encode() if isinstance(text, str) else text
        kept = text_of(fingerprint, read, program.tree)
        if may_be_annotated(kept) and program._forms[1]:
            program.annotations = b""  # The annotations are in the text, as in earlier releases.
        elif kept == read:
            if annotations:
                put_annotations(program.tree, annotations)
            program.annotations = annotations or b""
        program.text, program.fingerprint = kept, fingerprint
        return program

    @cached_property
    def text(self) -> bytes:
        """The canonical text: sorted keys, no white space, no source places nor doc comments.

        Programs that behave the same have the same text on any machine, however their sources are laid out.
        """
        return self._forms[0]

    @cached_property
    def annotations(self) -> bytes:
        """Source places and doc comments, packed; empty where there are none. They stand beside the text."""
        return pack(self._forms[1])

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the text, hexadecimal; an execution is pinned to it."""
        return fingerprint_of(self.text)

    @cached_property
    def behaviour(self) -> str:
        """The fingerprint of this release, whichever one the program is stored under.

        Programs that behave the same have the same one.
        """
        return fingerprint_of(self._forms[0])

    @cached_property
    def _forms(self) -> tuple[bytes, list[Any]]:
        return separated(self.tree)

    def workflow(self, name: str) -> Declaration:
        """Return a workflow by its qualified name, or by its short name when only one workflow has that.

        Raises UnknownName with near matches, AmbiguousName with the candidates.
        """
        return self._find("workflow", name, frozenset({Kind.WORKFLOW}))

    def facet(self, name: str) -> Declaration | None:
        """Return a facet, event facet or workflow by qualified or unique short name; None when there is none."""
        found = self.names.resolve(name).found
        return None if found is None else self.declarations[found]

    def workflows(self) -> list[Declaration]:
        return [d for d in self.declarations.values() if d.kind is Kind.WORKFLOW]

    def event_facets(self) -> list[Declaration]:
        """Return the event facets that agents answer: those of the library are not among them."""
        return [d for d in self.declarations.values() if d.kind is Kind.EVENT_FACET and not d.is_library]

    def schemas(self) -> dict[str, Declaration]:
        return {name: d for name, d in self.declarations.items() if d.kind is Kind.SCHEMA}

    def implicit_for(self, caller: Declaration, callee: Declaration) -> Implicit | None:
        """Return the implicit for what a call of `callee`, written inside `caller`, leaves out.

        It is the first in source order of the caller's namespace; or else of the callee's, of the imported ones in
        their order, of the top level, of any other. Raises AmbiguousName for an implicit whose target may be several.
        """
        found: dict[str, Implicit] = {}
        for implicit in self._implicits_by_target.get(callee.qualified_name, ()):
            found.setdefault(implicit.namespace, implicit)
        for namespace in (caller.namespace, callee.namespace, *caller.uses, "", *found):
            if namespace in found:
                return found[namespace]
        return None

    @cached_property
    def _implicits_by_target(self) -> dict[str, list[Implicit]]:
        by_target: dict[str, list[Implicit]] = {}
        for implicit in self.implicits:
            resolution = self.names.resolve(implicit.target, implicit.namespace, implicit.uses)
            if resolution.candidates:
                raise AmbiguousName("facet", implicit.target, resolution.candidates)
            if resolution.found is not None:
                by_target.setdefault(resolution.found, []).append(implicit)
        return by_target

    @cached_property
    def has_step_types(self) -> bool:
        """Say whether any parameter or return has a facet as its type: the values of such a one refer to steps."""
        return any(
            self._is_step_type(declaration, slot.get("type"))
            for declaration in self.declarations.values()
            for slot in (*declaration.params, *declaration.returns, *declaration.fields)
        )

    def _is_step_type(self, declaration: Declaration, written: object) -> bool:
        while isinstance(written, Mapping):
            written = written.get("elementType")
        return (
            isinstance(written, str)
            and written not in BUILTIN_TYPES
            and self.names.resolve(written, declaration.namespace, declaration.uses).found is not None
        )

    def resolve_in(self, declaration: Declaration, name: str, kinds: frozenset[Kind], what: str) -> Declaration | None:
        """Return the meaning of `name`, written inside `declaration`; None when unknown. Raises AmbiguousName."""
        resolution = self.names.resolve(name, declaration.namespace, declaration.uses, kinds)
        if resolution.candidates:
            raise AmbiguousName(what, name, resolution.candidates)
        return None if resolution.found is None else self.declarations[resolution.found]

    def qualified_type(self, declaration: Declaration, written: object) -> object:
        """Return a type written inside `declaration` with its schema or facet name qualified; builtins stay."""
        if isinstance(written, Mapping):
            return {"type": "ArrayType", "elementType": self.qualified_type(declaration, written.get("elementType"))}
        if isinstance(written, str) and written not in BUILTIN_TYPES:
            for kinds in (CALLABLE, SCHEMAS):
                found = self.resolve_in(declaration, written, kinds, "type")
                if found is not None:
                    return found.qualified_name
        return written

    def _find(self, what: str, name: str, kinds: frozenset[Kind]) -> Declaration:
        resolution = self.names.resolve(name, kinds=kinds)
        if resolution.candidates:
            raise AmbiguousName(what, name, resolution.candidates)
        if resolution.found is None:
            raise UnknownName(what, name, self.names.near(name, kinds))
        return self.declarations[resolution.found]


def _declarations(node: Node, namespace: str, uses: tuple[str, ...]) -> Iterator[Declaration | Implicit]:
    for child in _children(node):
        kind = child.get("type")
        if kind == "Namespace":
            name = str(child["name"])
            # Hand-written programs nest namespaces; emitted ones are flat, with the dotted name in one piece.
            inner = f"{namespace}.{name}" if namespace else name
            yield from _declarations(child, inner, tuple(child.get("uses") or ()))
        elif kind in _KIND_OF_NODE:
            if "name" not in child:
                raise ProgramError(f"a {kind} without a name in namespace {namespace or '(top level)'}")
            name = str(child["name"])
            qualified = f"{namespace}.{name}" if namespace else name
            yield Declaration(qualified, _KIND_OF_NODE[kind], namespace, uses, child)
        elif kind == "ImplicitDecl":
            yield Implicit(str(child["name"]), namespace, uses, child)


def _children(node: Node) -> list[Node]:
    """Return the declarations of a program or namespace, with those of the older categorised lists, each once."""
    seen: set[object] = set()
    children: list[Node] = []

    def take(child: Node, category: str | None) -> None:
        typed = child if "type" in child or category is None else {**child, "type": category}
        identity = typed.get("id") or (typed.get("type"), typed.get("name"), id(child))
        # A namespace may be opened several times; only the same node twice is dropped.
        if identity not in seen:
            seen.add(identity)
            children.append(typed)

    for child in node.get("declarations") or ():
        take(child, None)
    for key, category in _CATEGORIES.items():
        for child in node.get(key) or ():
            take(child, category)
    return children
