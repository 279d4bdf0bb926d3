"""A program compiled once into plans: the statements of each block, their dependencies, and compiled expressions.

No code walks JSON while a workflow runs. Names are resolved here, so an unknown or ambiguous one stops a program when
it is loaded, not in the middle of a run. Statements may stand in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from afl.compiled.program import Kind
from afl.engine.model.records import Frame
from afl.engine.model.step_rows import Unread
from afl.engine.model.waiting import LibraryFacet, RetryPlan
from afl.engine.types import ObjectType, Value
from afl.engine.values.declared import Fit, Look

#: An expression of a statement: given the frame that the statement runs in, its value.
Expression = Callable[[Frame], Value]
#: A default of a declaration: returns its value for the parameters bound so far.
Default = Callable[[Mapping[str, Value]], Value]


class ParameterDefault(NamedTuple):
    """The default of one parameter, and the parameters that this reads."""

    value: Default
    reads: frozenset[str]


#: Binds a step that does nothing else: given the frame, its params and returns.
Binder = Callable[[Frame], tuple[Mapping[str, Value], Mapping[str, Value]]]

#: Larger than any index of a statement: a block's own yields come after those of its nested bodies.
OWN_YIELDS = 1 << 30
#: Later than any andThen block: the yields of a catch are merged last.
CATCH_INDEX = 1 << 30


class FacetPlan:
    """A facet, event facet, workflow or schema that steps call."""

    __slots__ = (
        "__weakref__",
        "always_required",
        "blocks",
        "catch",
        "configured",
        "defaults",
        "is_event",
        "is_schema",
        "kind",
        "library",
        "line",
        "mixins",
        "name",
        "param_fits",
        "param_looks",
        "param_types",
        "parameter_defaults",
        "pre_script",
        "reads_steps",
        "required_returns",
        "retry",
        "return_defaults",
        "return_looks",
        "return_types",
        "short_name",
        "source_id",
        "timeout_ms",
        "yield_targets",
    )

    def __init__(self, name: str, kind: Kind) -> None:
        self.name = name
        self.short_name = name.rsplit(".", 1)[-1]
        self.kind = kind
        self.is_event = kind is Kind.EVENT_FACET
        self.is_schema = kind is Kind.SCHEMA
        #: The library facet that this is: the runtime answers its steps, and no agent learns of them.
        self.library: LibraryFacet | None = None
        #: In order of declaration; types are qualified (language reference, 9.2).
        self.param_types: Mapping[str, object] = {}
        self.return_types: Mapping[str, object] = {}
        #: The checks of values whose types hold a Double, and the copy functions of parameters for agents.
        self.param_looks: Mapping[str, Look] = {}
        self.return_looks: Mapping[str, Look] = {}
        self.param_fits: Mapping[str, Fit] = {}
        #: The values for parameters that a call leaves out: mixins of the signature without alias, then defaults.
        self.configured: Mapping[str, ParameterDefault] = {}
        self.defaults: Mapping[str, ParameterDefault] = {}
        #: Both together, each after those that it reads: the values for a workflow's start.
        self.parameter_defaults: tuple[tuple[str, Default], ...] = ()
        #: Mixins of the signature with an alias, which run as steps of their own.
        self.mixins: tuple[MixinPlan, ...] = ()
        #: Names under which yields address the signature's mixins, with the alias; None for mixins without one.
        self.yield_targets: Mapping[str, str | None] = {}
        #: The time that an agent has for its event, by the signature.
        self.timeout_ms: int | None = None
        #: The further attempts at its event, by the signature.
        self.retry: RetryPlan | None = None
        #: Whether the program uses steps as values anywhere.
        self.reads_steps = False
        self.return_defaults: tuple[tuple[str, Default], ...] = ()
        #: For an event facet: the returns that an agent's result must have, by the declaration alone, and at every call
        #: of the program: the body of a call may yield some of them.
        self.required_returns: tuple[str, ...] = ()
        self.always_required: tuple[str, ...] = ()
        #: Runs once for each step, after its parameters are bound and before everything else.
        self.pre_script: ScriptPlan | None = None
        self.blocks: tuple[BlockPlan, ...] = ()
        #: The catch for a failed step of this facet, unless its statement has one of its own.
        self.catch: BlockPlan | None = None
        self.line = 0
        #: The source of the declaration, "" where the program does not name it.
        self.source_id = ""

    def __repr__(self) -> str:
        return f"FacetPlan({self.name!r}, {self.kind.value})"


class MixinPlan:
    """A mixin of a signature that has an alias: it runs as a step of its own, whose attributes the alias holds."""

    __slots__ = ("alias", "args", "facet", "facet_name", "line", "name", "parameter_defaults")

    def __init__(self, alias: str, facet_name: str, facet: FacetPlan | None) -> None:
        self.alias = alias
        #: The key from which its step's id is made, after the id of the step that it is part of.
        self.name = f"mixin-{alias}"
        self.facet_name = facet_name
        #: None: a facet that the program does not declare; it has no body and no defaults.
        self.facet = facet
        #: Evaluated in the scope of the declaration whose signature it is on.
        self.args: tuple[tuple[str, Default], ...] = ()
        #: Evaluated in its own scope, in order, for parameters that `args` leave out.
        self.parameter_defaults: tuple[tuple[str, Default], ...] = ()
        self.line = 0


@dataclass(frozen=True, slots=True, eq=False)
class ScriptPlan:
    """A script: its Python code, the declaration around it, and its place in the source."""

    code: str
    declaration: str
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class OuterWait:
    """A statement outside a block that must be complete first: `depth` frames out, at `index`.

    With `sibling` it is not in the enclosing block itself but in that andThen block of the same declaration.
    """

    depth: int
    index: int
    sibling: int | None = None


class StatementPlan:
    """One statement of a block: a step, a schema instantiation, a yield, or one of `sys`."""

    __slots__ = (
        "args",
        "bind",
        "blocks",
        "callee",
        "catch",
        "column",
        "facet_name",
        "id",
        "index",
        "is_value",
        "is_yield",
        "key",
        "line",
        "name",
        "object_type",
        "outer_waits",
        "parameter_defaults",
        "plain",
        "required_returns",
        "retry",
        "source_text",
        "stored",
        "timeout_ms",
        "waits",
        "wakes",
        "yield_alias",
        "yield_depth",
        "yields_declared",
    )

    def __init__(self, index: int, name: str, statement_id: str, object_type: str, facet_name: str) -> None:
        self.index = index
        self.name = name
        #: The key from which the step's id is made, after its block's id.
        self.key = name.encode("utf-8", "surrogatepass")
        self.id = statement_id
        self.object_type = object_type
        self.facet_name = facet_name
        #: The fields that its steps have of it, as they stand in their stored form; the code that encodes steps makes
        #: it once.
        self.stored: str | None = None
        self.is_yield = object_type == ObjectType.YIELD_ASSIGNMENT
        #: None: an undeclared facet of a program that declares none.
        self.callee: FacetPlan | None = None
        #: Those of the call and then of its mixins: their arguments count too, and an alias holds a map of them.
        self.args: tuple[tuple[str, Expression], ...] = ()
        #: Evaluated in the callee's own scope, in order, for parameters that `args` leave out.
        self.parameter_defaults: tuple[tuple[str, Default], ...] = ()
        #: The time that an agent has for the event, by the call or else by the callee's signature.
        self.timeout_ms: int | None = None
        #: The further attempts at the event, by the call or else by the callee's signature.
        self.retry: RetryPlan | None = None
        #: The returns that an agent's result must have.
        self.required_returns: tuple[str, ...] = ()
        #: Whether an expression uses the step itself as a value: then it is kept, to be read through that value.
        self.is_value = False
        #: Indices of statements of the same block that must be complete before this one is created.
        self.waits: tuple[int, ...] = ()
        #: The reverse: statements that wait for this one.
        self.wakes: tuple[int, ...] = ()
        self.outer_waits: tuple[OuterWait, ...] = ()
        #: The statement's own andThen blocks, or else the callee's.
        self.blocks: tuple[BlockPlan, ...] = ()
        #: The statement's own catch, or else the callee's.
        self.catch: BlockPlan | None = None
        #: No event, no blocks, no catch: all its work is binding its attributes, and its callee's return defaults.
        self.plain = True
        #: The binder of such a step; None for others.
        self.bind: Binder | None = None
        #: For yields: how many blocks out the step is that takes the values (0: the step that runs this block); None:
        #: no step does.
        self.yield_depth: int | None = None
        #: The mixin of that step that takes the values; None: the step itself. That one takes only values of returns
        #: that it declares, where a mixin without alias was addressed.
        self.yield_alias: str | None = None
        self.yields_declared = False
        #: For assertions: the condition, as AFL source.
        self.source_text = ""
        self.line = 0
        self.column = 0

    def __repr__(self) -> str:
        return f"StatementPlan({self.name!r} -> {self.facet_name!r})"


class CasePlan(NamedTuple):
    """One case of a `when`: its condition (None: no other case holds), its source, and its body."""

    condition: Expression | None
    condition_text: str
    block: "BlockPlan"  # noqa: UP037 - in quotes it is not looked up where the class is made, compiled code included


class BlockPlan:
    """One andThen block, case or catch."""

    __slots__ = (
        "by_id",
        "case",
        "cases",
        "first",
        "has_outer_waits",
        "index",
        "is_catch",
        "is_flat",
        "is_statement_body",
        "label",
        "leavable",
        "line",
        "name",
        "progress",
        "script",
        "source",
        "source_text",
        "source_waits",
        "splits",
        "statements",
        "variable",
        "wait_counts",
        "yield_waits",
        "yields",
    )

    def __init__(self, index: int, *, is_statement_body: bool) -> None:
        self.index = index
        #: The key from which its step's id is made, after the id of the step or block it is part of.
        self.name = f"block-{index}"
        #: Its name in paths of steps inside it: `case[0]`, `catch`; empty for andThen blocks.
        self.label = ""
        #: Whether it belongs to a statement (and so sees the steps around it) or to a declaration.
        self.is_statement_body = is_statement_body
        self.statements: tuple[StatementPlan, ...] = ()
        self.yields: tuple[StatementPlan, ...] = ()
        #: Both by id; and by id in UTF-8 the statements whose complete steps need not be read to continue a run. The
        #: code that continues runs makes them once.
        self.by_id: dict[str, StatementPlan] | None = None
        self.leavable: dict[bytes, StatementPlan] | None = None
        #: Whether all of its statements are such, and wait for nothing outside; None: nobody has asked yet.
        self.is_flat: bool | None = None
        #: By the statements that have steps which are not complete: marks of those that are complete then, the waits of
        #: each, and the number of marks. Kept by the code that continues runs.
        self.progress: dict[tuple[int, ...], tuple[list[Unread | None], list[int], int]] = {}
        self.wait_counts: tuple[int, ...] = ()
        #: Indices of the statements that wait for no statement of the block.
        self.first: tuple[int, ...] = ()
        self.has_outer_waits = False
        #: Steps of enclosing blocks (frames out, index) that must be complete before the yields run.
        self.yield_waits: tuple[OuterWait, ...] = ()
        #: Whether it runs nested blocks in place of statements: one for each element, or each case that holds.
        self.splits = False
        #: For a `when`: its cases.
        self.cases: tuple[CasePlan, ...] = ()
        #: For the body of a case: its number. Its index is that of the `when`.
        self.case = 0
        #: Whether it is a catch, or the `when` of one: it runs for a failed step, and its failure is its step's.
        self.is_catch = False
        #: For a foreach: the loop variable, and its source. The outer steps that the source, or a condition of a
        #: `when`, reads.
        self.variable: str | None = None
        self.source: Expression | None = None
        self.source_text = ""
        self.source_waits: tuple[OuterWait, ...] = ()
        #: For a block written in Python: the script. It has no statements, and one yield that takes the result.
        self.script: ScriptPlan | None = None
        self.line = 0

    def __repr__(self) -> str:
        return f"BlockPlan({self.name}, {len(self.statements)} statements, {len(self.yields)} yields)"


class PinnedProgram(Protocol):
    """The origin of a plan: the compiled program's names, and the parts of it that a store keeps."""

    @property
    def fingerprint(self) -> str: ...
    @property
    def behaviour(self) -> str: ...
    @property
    def text(self) -> bytes: ...
    @property
    def annotations(self) -> bytes: ...


class UnreadProgram(NamedTuple):
    """A program of which only the fingerprint is known."""

    fingerprint: str
    behaviour: str = ""
    text: bytes = b""
    annotations: bytes = b""


_IN_HISTORY = frozenset({LibraryFacet.WAIT_FOR_EVENT, LibraryFacet.CONTINUE_AS_NEW})


class WorkflowPlan:
    """A workflow ready to run: its own facet plan, and the program that it is pinned to."""

    __slots__ = (
        "facet",
        "facet_names",
        "facets",
        "fingerprint",
        "keeps_history",
        "program",
        "schemas",
        "scripted",
    )

    def __init__(
        self,
        facet: FacetPlan,
        facets: tuple[FacetPlan, ...],
        schemas: Mapping[str, FacetPlan],
        program: PinnedProgram,
        scripted: tuple[str, ...] = (),
        facet_names: frozenset[str] = frozenset(),
    ) -> None:
        self.facet = facet
        #: All facets that the workflow can call, itself included.
        self.facets = facets
        #: Schemas by qualified name; their fields are the plan's `param_types`.
        self.schemas = schemas
        self.program = program
        #: The program to which executions of this plan are pinned.
        self.fingerprint = program.fingerprint
        #: The reachable declarations that contain a script.
        self.scripted = scripted
        #: Every facet, event facet and workflow of the program: as types, they are those of references to steps.
        self.facet_names = facet_names
        #: Whether its runs write rows into their histories by themselves: they wait for events, or continue as new.
        self.keeps_history = any(each.library in _IN_HISTORY for each in facets)

    @property
    def name(self) -> str:
        return self.facet.name
