"""A program compiled once into plans: per block the statements, who waits for whom, and expressions ready to call.

Nothing walks JSON while a workflow runs. Names are resolved here, so an unknown or ambiguous one stops a program when
it is loaded, not in the middle of a run. Statements may stand in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from afl.compiled import Kind
from afl.runtime.records import Frame
from afl.runtime.types import ObjectType, Value

#: An expression of a statement: given the frame that the statement runs in, its value.
Expression = Callable[[Frame], Value]
#: A default of a declaration: given the parameters bound so far, its value.
Default = Callable[[Mapping[str, Value]], Value]
#: Binds a step that does nothing else: given the frame, its params and returns.
Binder = Callable[[Frame], tuple[Mapping[str, Value], Mapping[str, Value]]]

#: Deeper than any index of a statement: a block's own yields come after those of its nested bodies.
OWN_YIELDS = 1 << 30


class FacetPlan:
    """A facet, event facet, workflow or schema that steps call."""

    __slots__ = (
        "__weakref__",
        "blocks",
        "defaults",
        "is_event",
        "is_schema",
        "kind",
        "line",
        "name",
        "param_types",
        "return_defaults",
        "return_types",
        "short_name",
    )

    def __init__(self, name: str, kind: Kind) -> None:
        self.name = name
        self.short_name = name.rsplit(".", 1)[-1]
        self.kind = kind
        self.is_event = kind is Kind.EVENT_FACET
        self.is_schema = kind is Kind.SCHEMA
        #: In order of declaration; types are qualified (language reference, 9.2).
        self.param_types: Mapping[str, object] = {}
        self.return_types: Mapping[str, object] = {}
        #: Evaluated in the callee's own scope, in order, for what the call left out.
        self.defaults: tuple[tuple[str, Default], ...] = ()
        self.return_defaults: tuple[tuple[str, Default], ...] = ()
        self.blocks: tuple[BlockPlan, ...] = ()
        self.line = 0

    def __repr__(self) -> str:
        return f"FacetPlan({self.name!r}, {self.kind.value})"


@dataclass(frozen=True, slots=True, eq=False)
class OuterWait:
    """A statement of an enclosing block that must be complete first: `depth` frames out, at `index`."""

    depth: int
    index: int


class StatementPlan:
    """One statement of a block: a step, a schema instantiation or a yield."""

    __slots__ = (
        "args",
        "bind",
        "blocks",
        "callee",
        "facet_name",
        "id",
        "index",
        "is_yield",
        "key",
        "line",
        "name",
        "object_type",
        "outer_waits",
        "plain",
        "waits",
        "wakes",
        "yield_depth",
    )

    def __init__(self, index: int, name: str, statement_id: str, object_type: str, facet_name: str) -> None:
        self.index = index
        self.name = name
        #: What the step's id is made from, after its block's.
        self.key = name.encode("utf-8", "surrogatepass")
        self.id = statement_id
        self.object_type = object_type
        self.facet_name = facet_name
        self.is_yield = object_type == ObjectType.YIELD_ASSIGNMENT
        #: None: an undeclared facet of a program that declares none.
        self.callee: FacetPlan | None = None
        self.args: tuple[tuple[str, Expression], ...] = ()
        #: Indices of statements of the same block that must be complete before this one is created.
        self.waits: tuple[int, ...] = ()
        #: The other way round: who waits for this one.
        self.wakes: tuple[int, ...] = ()
        self.outer_waits: tuple[OuterWait, ...] = ()
        #: The statement's own andThen blocks, or else the callee's.
        self.blocks: tuple[BlockPlan, ...] = ()
        #: No event, no blocks: all its work is binding its attributes, and its callee's return defaults.
        self.plain = True
        #: How such a step is bound; None for others.
        self.bind: Binder | None = None
        #: For yields: how many blocks out the step stands that takes the values (0: the step that runs this block);
        #: None: nobody does.
        self.yield_depth: int | None = None
        self.line = 0

    def __repr__(self) -> str:
        return f"StatementPlan({self.name!r} -> {self.facet_name!r})"


class BlockPlan:
    """One andThen block."""

    __slots__ = (
        "first",
        "has_outer_waits",
        "index",
        "is_statement_body",
        "line",
        "name",
        "source",
        "source_text",
        "source_waits",
        "statements",
        "variable",
        "wait_counts",
        "yield_waits",
        "yields",
    )

    def __init__(self, index: int, *, is_statement_body: bool) -> None:
        self.index = index
        self.name = f"block-{index}"
        #: Whether it belongs to a statement (and so sees the steps around it) or to a declaration.
        self.is_statement_body = is_statement_body
        self.statements: tuple[StatementPlan, ...] = ()
        self.yields: tuple[StatementPlan, ...] = ()
        self.wait_counts: tuple[int, ...] = ()
        #: Indices of the statements that wait for nothing inside the block.
        self.first: tuple[int, ...] = ()
        self.has_outer_waits = False
        #: Steps of enclosing blocks (frames out, index) that must be complete before the yields run.
        self.yield_waits: tuple[tuple[int, int], ...] = ()
        #: For a foreach: the loop variable, its source, and the outer steps that the source reads.
        self.variable: str | None = None
        self.source: Expression | None = None
        self.source_text = ""
        self.source_waits: tuple[OuterWait, ...] = ()
        self.line = 0

    def __repr__(self) -> str:
        return f"BlockPlan({self.name}, {len(self.statements)} statements, {len(self.yields)} yields)"


class WorkflowPlan:
    """A workflow ready to run: its own facet plan, and the program that it is pinned to."""

    __slots__ = ("facet", "facets", "fingerprint", "program_text", "schemas")

    def __init__(
        self,
        facet: FacetPlan,
        facets: tuple[FacetPlan, ...],
        schemas: Mapping[str, FacetPlan],
        fingerprint: str,
        program_text: Callable[[], bytes],
    ) -> None:
        self.facet = facet
        #: Everything that the workflow can call, itself included.
        self.facets = facets
        #: Schemas by qualified name; their fields are the plan's `param_types`.
        self.schemas = schemas
        self.fingerprint = fingerprint
        #: The compiled program's canonical text, for the store.
        self.program_text = program_text

    @property
    def name(self) -> str:
        return self.facet.name
