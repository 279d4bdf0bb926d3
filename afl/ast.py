"""The syntax tree of an AFL program.

Nodes are frozen: treat their lists as read-only too. `node_id` and `location` never take part in comparisons, so
two programs are equal when they say the same thing. The parser leaves `node_id` empty and the emitter derives it
from the node's place in the program; a caller that sets it keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import NamedTuple, TypeAlias


class SourceLocation(NamedTuple):
    """A stretch of source text: 1-based lines and columns, the end column exclusive."""

    line: int
    column: int
    end_line: int | None = None
    end_column: int | None = None
    source_id: str | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ASTNode:
    """What every node has besides its own fields.

    Comparison and text are written once, here: generated for each of the classes they would take half of the time
    that a small file takes to compile.
    """

    node_id: str = field(default="", kw_only=True, compare=False)
    location: SourceLocation | None = field(default=None, kw_only=True, compare=False)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, item.name) == getattr(other, item.name) for item in fields(self) if item.compare)

    #: Nodes hold lists, so like those they have no hash.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = ", ".join(f"{item.name}={getattr(self, item.name)!r}" for item in fields(self) if item.compare)
        return f"{type(self).__name__}({parts})"


# -- types and parameters ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TypeRef(ASTNode):
    """A named type as written: a builtin, a schema or a facet, perhaps qualified."""

    name: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ArrayType(ASTNode):
    """`[T]`."""

    element_type: Type


Type: TypeAlias = TypeRef | ArrayType


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Parameter(ASTNode):
    """A parameter or a return: `name: Type = default`."""

    name: str
    type: Type
    default: Expression | None = None


# -- expressions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Literal(ASTNode):
    """A constant; `kind` is string, integer, double, boolean or null."""

    value: str | int | float | bool | None
    kind: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reference(ASTNode):
    """`$.a.b` (input) or `s.a.b`: the parts of the path without the `$`."""

    path: list[str]
    is_input: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConcatExpr(ASTNode):
    """`a ++ b ++ c`, flat."""

    operands: list[Expression]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BinaryExpr(ASTNode):
    """`left operator right`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class UnaryExpr(ASTNode):
    """`operator operand`; a unary plus leaves no node."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ArrayLiteral(ASTNode):
    """`[a, b]`."""

    elements: list[Expression]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MapEntry(ASTNode):
    """One `key: value` of a map."""

    key: str
    value: Expression


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MapLiteral(ASTNode):
    """`#{k: v}`."""

    entries: list[MapEntry]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IndexExpr(ASTNode):
    """`target[index]`."""

    target: Expression
    index: Expression


Expression: TypeAlias = (
    Literal | Reference | ConcatExpr | BinaryExpr | UnaryExpr | ArrayLiteral | MapLiteral | IndexExpr
)


# -- calls and statements ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NamedArg(ASTNode):
    """`name = value` in a call."""

    name: str
    value: Expression


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CallExpr(ASTNode):
    """`ns.Name(args)`, the name as written."""

    name: str
    args: list[NamedArg] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class YieldStmt(ASTNode):
    """`yield Target(args)`."""

    call: CallExpr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ForeachClause(ASTNode):
    """`foreach variable in iterable`."""

    variable: str
    iterable: Reference


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Block(ASTNode):
    """`{ steps yields }`."""

    steps: list[StepStmt] = field(default_factory=list)
    yield_stmts: list[YieldStmt] = field(default_factory=list)

    @property
    def yield_stmt(self) -> YieldStmt | None:
        """Return the first yield, or None."""
        return self.yield_stmts[0] if self.yield_stmts else None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AndThenBlock(ASTNode):
    """`andThen [foreach ...] { ... }`."""

    block: Block
    foreach: ForeachClause | None = None


#: One clause stands alone, several are a list.
Body: TypeAlias = AndThenBlock | list[AndThenBlock]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StepStmt(ASTNode):
    """`name = call andThen ...`."""

    name: str
    call: CallExpr
    body: Body | None = None


# -- declarations -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReturnClause(ASTNode):
    """`=> (params)`."""

    params: list[Parameter]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FacetSig(ASTNode):
    """Name, parameters and returns of a facet, event facet or workflow."""

    name: str
    params: list[Parameter] = field(default_factory=list)
    returns: ReturnClause | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FacetDecl(ASTNode):
    """`facet ...`."""

    sig: FacetSig
    body: Body | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EventFacetDecl(ASTNode):
    """`event facet ...`."""

    sig: FacetSig
    body: Body | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WorkflowDecl(ASTNode):
    """`workflow ...`."""

    sig: FacetSig
    body: Body | None = None


Callable: TypeAlias = FacetDecl | EventFacetDecl | WorkflowDecl


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class UsesDecl(ASTNode):
    """`use ns`."""

    name: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SchemaField(ASTNode):
    """`name: Type` in a schema."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SchemaDecl(ASTNode):
    """`schema Name { fields }`."""

    name: str
    fields: list[SchemaField] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Namespace(ASTNode):
    """One opening of a namespace; the name is flat, dots and all."""

    name: str
    uses: list[UsesDecl] = field(default_factory=list)
    facets: list[FacetDecl] = field(default_factory=list)
    event_facets: list[EventFacetDecl] = field(default_factory=list)
    workflows: list[WorkflowDecl] = field(default_factory=list)
    schemas: list[SchemaDecl] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Program(ASTNode):
    """Everything that is compiled together."""

    namespaces: list[Namespace] = field(default_factory=list)
    facets: list[FacetDecl] = field(default_factory=list)
    event_facets: list[EventFacetDecl] = field(default_factory=list)
    workflows: list[WorkflowDecl] = field(default_factory=list)
    schemas: list[SchemaDecl] = field(default_factory=list)

    @classmethod
    def merge(cls, programs: Iterable[Program]) -> Program:
        """Return one program with the declarations of all, in the given order."""
        merged = list(programs)
        return cls(
            namespaces=[item for program in merged for item in program.namespaces],
            facets=[item for program in merged for item in program.facets],
            event_facets=[item for program in merged for item in program.event_facets],
            workflows=[item for program in merged for item in program.workflows],
            schemas=[item for program in merged for item in program.schemas],
            location=merged[0].location if len(merged) == 1 else None,
        )


def clauses(body: Body | None) -> list[AndThenBlock]:
    """Return the andThen clauses of a body, however many there are."""
    if body is None:
        return []
    return body if isinstance(body, list) else [body]
