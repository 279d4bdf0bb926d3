"""The syntax tree of an AFL program.

Nodes are frozen: treat their lists as read-only too. Comparisons ignore `node_id` and `location`, so two programs are
equal when they say the same thing. A `node_id` that a caller gives is kept and emitted. Any other is a unique UUID,
drawn when it is first read; the emitter does not write it, but derives ids from the node's place in the program.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import TypeAlias

from afl.ast_node import ASTNode as ASTNode
from afl.ast_node import SourceLocation as SourceLocation
from afl.ast_node import node

# -- types and parameters ---------------------------------------------------------------------------------------------


@node
class TypeRef(ASTNode):
    """A named type as written: a builtin, a schema or a facet, perhaps qualified."""

    name: str


@node
class ArrayType(ASTNode):
    """`[T]`."""

    element_type: Type


Type: TypeAlias = TypeRef | ArrayType


@node
class Parameter(ASTNode):
    """A parameter or a return: `name: Type = default`."""

    name: str
    type: Type
    default: Expression | None = None


# -- expressions ------------------------------------------------------------------------------------------------------


@node
class Literal(ASTNode):
    """A constant; `kind` is string, integer, double, boolean or null."""

    value: str | int | float | bool | None
    kind: str


@node
class Reference(ASTNode):
    """`$.a.b` (input) or `s.a.b`: the parts of the path without the `$`."""

    path: list[str]
    is_input: bool


@node
class ConcatExpr(ASTNode):
    """`a ++ b ++ c`, flat."""

    operands: list[Expression]


@node
class BinaryExpr(ASTNode):
    """`left operator right`."""

    operator: str
    left: Expression
    right: Expression


@node
class UnaryExpr(ASTNode):
    """`operator operand`; a unary plus leaves no node."""

    operator: str
    operand: Expression


@node
class ArrayLiteral(ASTNode):
    """`[a, b]`."""

    elements: list[Expression]


@node
class MapEntry(ASTNode):
    """One `key: value` of a map."""

    key: str
    value: Expression


@node
class MapLiteral(ASTNode):
    """`#{k: v}`."""

    entries: list[MapEntry]


@node
class IndexExpr(ASTNode):
    """`target[index]`."""

    target: Expression
    index: Expression


Expression: TypeAlias = (
    Literal | Reference | ConcatExpr | BinaryExpr | UnaryExpr | ArrayLiteral | MapLiteral | IndexExpr
)


# -- calls and statements ---------------------------------------------------------------------------------------------


@node
class NamedArg(ASTNode):
    """`name = value` in a call."""

    name: str
    value: Expression


@node
class MixinSig(ASTNode):
    """`with ns.Name(args) as alias` on the signature of a declaration, the name as written."""

    name: str
    args: list[NamedArg] = field(default_factory=list)
    alias: str | None = None


@node
class MixinCall(ASTNode):
    """`with ns.Name(args) as alias` on one call, the name as written."""

    name: str
    args: list[NamedArg] = field(default_factory=list)
    alias: str | None = None


@node
class CallExpr(ASTNode):
    """`ns.Name(args) with ...`, the name as written."""

    name: str
    args: list[NamedArg] = field(default_factory=list)
    mixins: list[MixinCall] = field(default_factory=list)


@node
class YieldStmt(ASTNode):
    """`yield Target(args)`."""

    call: CallExpr


@node
class ForeachClause(ASTNode):
    """`foreach variable in iterable`."""

    variable: str
    iterable: Reference


@node
class Block(ASTNode):
    """`{ steps yields }`; a yield with mixins stands here as one yield for each target."""

    steps: list[Statement] = field(default_factory=list)
    yield_stmts: list[YieldStmt] = field(default_factory=list)

    @property
    def yield_stmt(self) -> YieldStmt | None:
        """Return the first yield, or None."""
        return self.yield_stmts[0] if self.yield_stmts else None


@node
class ScriptBlock(ASTNode):
    """`script [dialect] code`: the code that is run, without its quotes or braces and without its common indentation.

    `code_line` and `code_column` give the 1-based place of the first character of the code in the source. `indent` is
    the number of blanks taken off the lines after the first. Together they map places in the code to places in the
    source.
    """

    language: str
    code: str
    code_line: int = field(default=0, kw_only=True, compare=False)
    code_column: int = field(default=0, kw_only=True, compare=False)
    indent: int = field(default=0, kw_only=True, compare=False)


@node
class PromptBlock(ASTNode):
    """`prompt { system "..." template "..." model "..." }`; a directive that is not written is None.

    `places` gives the place of each directive's text.
    """

    system: str | None = None
    template: str | None = None
    model: str | None = None
    places: dict[str, SourceLocation] = field(default_factory=dict, kw_only=True, compare=False)


@node
class WhenCase(ASTNode):
    """`case condition => { ... }`; without a condition it is the default, `case _`."""

    block: Block
    condition: Expression | None = None


@node
class WhenBlock(ASTNode):
    """`when { case ... }`."""

    cases: list[WhenCase] = field(default_factory=list)


@node
class CatchClause(ASTNode):
    """`catch { ... }` or `catch when { ... }`; the block is empty when there is a `when`."""

    block: Block
    when: WhenBlock | None = None


@node
class AndThenBlock(ASTNode):
    """`andThen [foreach ...] { ... }`, `andThen when { ... }` or `andThen script ...`.

    At most one of `foreach`, `when` and `script` is set; the block is empty with the latter two.
    """

    block: Block
    foreach: ForeachClause | None = None
    when: WhenBlock | None = None
    script: ScriptBlock | None = None


#: One clause stands alone, several are a list. A prompt is always the only clause.
Body: TypeAlias = AndThenBlock | list[AndThenBlock] | PromptBlock


@node
class StepStmt(ASTNode):
    """`name = call andThen ... catch ...`; its body is never a prompt."""

    name: str
    call: CallExpr
    body: Body | None = None
    catch: CatchClause | None = None


@node
class SysLogStmt(ASTNode):
    """`sys.log(args)`."""

    args: list[NamedArg] = field(default_factory=list)


@node
class SysAssertStmt(ASTNode):
    """`sys.assert(condition)`."""

    condition: Expression


Statement: TypeAlias = StepStmt | SysLogStmt | SysAssertStmt


@node
class DocEntry(ASTNode):
    """`@param name text`, `@return name text` or `@sensitive name text` of a doc comment."""

    name: str
    description: str


@node
class Doc(ASTNode):
    """The content of a doc comment, its tags taken apart."""

    description: str = ""
    params: list[DocEntry] = field(default_factory=list)
    returns: list[DocEntry] = field(default_factory=list)
    #: The parameters, returns or fields whose values are to be kept from everyone who need not see them.
    sensitive: list[DocEntry] = field(default_factory=list)


# -- declarations -----------------------------------------------------------------------------------------------------


@node
class ReturnClause(ASTNode):
    """`=> (params)`."""

    params: list[Parameter]


@node
class FacetSig(ASTNode):
    """Name, parameters and returns of a facet, event facet or workflow."""

    name: str
    params: list[Parameter] = field(default_factory=list)
    returns: ReturnClause | None = None
    mixins: list[MixinSig] = field(default_factory=list)


@node
class FacetDecl(ASTNode):
    """`facet ...`."""

    sig: FacetSig
    body: Body | None = None
    pre_script: ScriptBlock | None = None
    catch: CatchClause | None = None
    doc: Doc | None = None


@node
class EventFacetDecl(ASTNode):
    """`event facet ...`."""

    sig: FacetSig
    body: Body | None = None
    pre_script: ScriptBlock | None = None
    catch: CatchClause | None = None
    doc: Doc | None = None


@node
class WorkflowDecl(ASTNode):
    """`workflow ...`."""

    sig: FacetSig
    body: Body | None = None
    pre_script: ScriptBlock | None = None
    catch: CatchClause | None = None
    doc: Doc | None = None


Callable: TypeAlias = FacetDecl | EventFacetDecl | WorkflowDecl


@node
class UsesDecl(ASTNode):
    """`use ns`."""

    name: str


@node
class SchemaField(ASTNode):
    """`name: Type` in a schema."""

    name: str
    type: Type


@node
class SchemaDecl(ASTNode):
    """`schema Name { fields }`."""

    name: str
    fields: list[SchemaField] = field(default_factory=list)
    doc: Doc | None = None


@node
class ImplicitDecl(ASTNode):
    """`implicit name = call`."""

    name: str
    call: CallExpr


@node
class Namespace(ASTNode):
    """One opening of a namespace; the name is flat, dots and all."""

    name: str
    uses: list[UsesDecl] = field(default_factory=list)
    facets: list[FacetDecl] = field(default_factory=list)
    event_facets: list[EventFacetDecl] = field(default_factory=list)
    workflows: list[WorkflowDecl] = field(default_factory=list)
    implicits: list[ImplicitDecl] = field(default_factory=list)
    schemas: list[SchemaDecl] = field(default_factory=list)
    doc: Doc | None = None


@node
class Program(ASTNode):
    """Everything that is compiled together."""

    namespaces: list[Namespace] = field(default_factory=list)
    facets: list[FacetDecl] = field(default_factory=list)
    event_facets: list[EventFacetDecl] = field(default_factory=list)
    workflows: list[WorkflowDecl] = field(default_factory=list)
    implicits: list[ImplicitDecl] = field(default_factory=list)
    schemas: list[SchemaDecl] = field(default_factory=list)

    @classmethod
    def merge(cls, programs: Iterable[Program]) -> Program:
        """Return one program with the declarations of all programs, in the given order."""
        merged = list(programs)
        return cls(
            namespaces=[item for program in merged for item in program.namespaces],
            facets=[item for program in merged for item in program.facets],
            event_facets=[item for program in merged for item in program.event_facets],
            workflows=[item for program in merged for item in program.workflows],
            implicits=[item for program in merged for item in program.implicits],
            schemas=[item for program in merged for item in program.schemas],
            location=merged[0].location if len(merged) == 1 else None,
        )


def clauses(body: Body | None) -> list[AndThenBlock]:
    """Return the andThen clauses of a body, however many there are; a prompt has none."""
    if body is None or isinstance(body, PromptBlock):
        return []
    return body if isinstance(body, list) else [body]
