"""The walkthroughs of the specifications as data, and the functions that play them over any driver.

A driver is whatever runs workflows: the evaluator, which commits each iteration, or the control loop, which commits
each batch. Both have to show the same iterations, the same steps and the same results.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, Protocol

from afl.compiler import compile_text
from afl.engine.states import EventState, StepState
from afl.engine.types import Value
from afl.stores.public.persistence import EventDefinition
from afl.telemetry.telemetry import Telemetry
from tests.engine_view import SeenStep


class Iteration(NamedTuple):
    """What there is after an iteration: how many steps exist, how many of them are complete, who was made in it."""

    existing: int
    complete: int
    created: frozenset[str] = frozenset()


class Driver(Protocol):
    """Runs one workflow. Each call but `restart` returns when the workflow has paused or ended."""

    def start(self, program_text: bytes, workflow: str, inputs: Mapping[str, Value]) -> None: ...
    def answer(self, step_id: str, result: Mapping[str, Value]) -> None: ...
    def fail(self, step_id: str, error_type: str, message: str) -> None: ...
    def restart(self) -> None:
        """Drop everything in memory and continue with the stored state."""

    def trace(self) -> Sequence[Iteration] | None:
        """One entry an iteration since the start; None from a driver that does not know."""

    def steps(self) -> list[SeenStep]: ...
    def events(self) -> list[EventDefinition]:
        """Return the current event of every step that has sent one, in the order of the steps."""

    def status(self) -> str:
        """Return the stored status of the workflow."""

    def outputs(self) -> Mapping[str, Value] | None:
        """Return the stored results; None until it is complete."""


def trace_of(telemetry: Telemetry) -> list[Iteration]:
    """Return the iterations that telemetry has seen, across restarts if it outlived them."""
    trace: list[Iteration] = []
    existing = complete = 0
    created: set[str] = set()
    for event in telemetry.events:
        match event.event_type:
            case "step.created":
                existing += 1
                created.add(str(event.step_id))
            case "state.transition" if event.state == StepState.STATEMENT_COMPLETE:
                complete += 1
            case "iteration.end":
                trace.append(Iteration(existing, complete, frozenset(created)))
                created = set()
    return trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, from a start or an answer to the next pause or the end."""

    #: The answer that starts this run: the path of the step and its result. None: the start of the workflow.
    answer: tuple[str, Mapping[str, Value]] | None = None
    #: (existing, complete) after each of the run's iterations.
    trace: Sequence[tuple[int, int]]
    #: Paths of the steps that wait for an answer at the end of the run.
    waiting: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Walkthrough:
    """A program, what happens to it, and what must come of it."""

    name: str
    text: str
    workflow: str
    inputs: Mapping[str, Value] = field(default_factory=dict)
    runs: Sequence[Run]
    outputs: Mapping[str, Value]
    #: Which statements were made in which iteration: paths, where the specification says it.
    made: Mapping[int, frozenset[str]] = field(default_factory=dict)
    #: Attributes at the end, by path.
    params: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    returns: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)


INITIALIZATION_AND_YIELD = Walkthrough(
    name="initialization, dependencies and yield capture",
    text="""
        namespace test.one {
            facet Value(input: Long, output: Long)
            workflow TestOne(input: Long = 1) => (output: Long) andThen {
                s1 = Value(input = $.input + 1)
                s2 = Value(input = s1.input + 1)
                yield TestOne(output = s2.input + 1)
            }
        }
    """,
    workflow="test.one.TestOne",
    # The root and its block, s1; then s2; then the yield; then the block ends, then the root.
    runs=[Run(trace=[(3, 1), (4, 2), (5, 3), (5, 4), (5, 5)])],
    outputs={"output": 4},
    made={0: frozenset({"", "#0", "s1"}), 1: frozenset({"s2"}), 2: frozenset({"yield"})},
    params={"": {"input": 1}, "s1": {"input": 2}, "s2": {"input": 3}, "yield": {"output": 4}},
)

FAN_IN = Walkthrough(
    name="parallel steps and a fan-in",
    text="""
        namespace test.two {
            facet Value(input: Long, output: Long)
            workflow TestTwo(input: Long = 1) => (output: Long) andThen {
                a = Value(input = $.input + 1)
                b = Value(input = $.input + 10)
                c = Value(input = a.input + b.input)
                yield TestTwo(output = c.input)
            }
        }
    """,
    workflow="test.two.TestTwo",
    runs=[Run(trace=[(4, 2), (5, 3), (6, 4), (6, 5), (6, 6)])],
    outputs={"output": 13},
    made={0: frozenset({"", "#0", "a", "b"}), 1: frozenset({"c"}), 2: frozenset({"yield"})},
    params={"a": {"input": 2}, "b": {"input": 11}, "c": {"input": 13}},
)

_THIRD = """{{
    a = Value(input = $.input + 1)
    b = Value(input = $.input + 10)
    c = Value(input = a.input + b.input)
    yield TestThree(output{n} = c.input)
}}"""

SEVERAL_BLOCKS = Walkthrough(
    name="several andThen blocks",
    text="""
        namespace test.three {
            facet Value(input: Long, output: Long)
            workflow TestThree(input: Long = 1) => (output1: Long, output2: Long, output3: Long)
            """
    + " ".join("andThen " + _THIRD.format(n=n) for n in (1, 2, 3))
    + "}",
    workflow="test.three.TestThree",
    runs=[Run(trace=[(10, 6), (13, 9), (16, 12), (16, 15), (16, 16)])],
    outputs={"output1": 13, "output2": 13, "output3": 13},
    made={0: frozenset({"", "#0", "#1", "#2", "a", "b"}), 1: frozenset({"c"}), 2: frozenset({"yield"})},
)

FACET_BODY = Walkthrough(
    name="a facet with a body of its own",
    text="""
        namespace shapes {
            facet Value(input: Long)
            facet Adder(a: Long, b: Long) => (sum: Long) andThen {
                s1 = Value(input = $.a)
                s2 = Value(input = $.b)
                yield Adder(sum = s1.input + s2.input)
            }
            workflow Add(x: Long = 1, y: Long = 2) => (result: Long) andThen {
                addition = Adder(a = $.x, b = $.y)
                yield Add(result = addition.sum)
            }
        }
    """,
    workflow="shapes.Add",
    runs=[Run(trace=[(6, 2), (7, 3), (7, 4), (7, 5), (8, 6), (8, 7), (8, 8)])],
    outputs={"result": 3},
    returns={"addition": {"sum": 3}},
)

_INLINE = """
    namespace shapes {{
        facet Value(input: Long)
        {inner}
        facet SomeFacet(input: Long) => (output: Long)
        facet Adder(a: Long, b: Long) => (sum: Long) andThen {{
            s1 = SomeFacet(input = $.a) andThen {{
                sub = Inner(input = $.input)
                yield SomeFacet(output = sub.{read} + 10)
            }}
            s2 = Value(input = $.b)
            yield Adder(sum = s1.output + s2.input)
        }}
        workflow Add(x: Long = 1, y: Long = 2) => (result: Long) andThen {{
            addition = Adder(a = $.x, b = $.y)
            yield Add(result = addition.sum)
        }}
    }}
"""

_AFTER_THE_INNERMOST = [(8, 2), (9, 3), (9, 4), (9, 5), (10, 6), (10, 7), (10, 8), (11, 9), (11, 10), (11, 11)]

INLINE_BODY = Walkthrough(
    name="a statement with a body of its own",
    text=_INLINE.format(inner="facet Inner(input: Long)", read="input"),
    workflow="shapes.Add",
    runs=[Run(trace=_AFTER_THE_INNERMOST)],
    # (1 + 10) + 2
    outputs={"result": 13},
)

EVENT_IN_THE_MIDDLE = Walkthrough(
    name="an event facet as the innermost step: two runs",
    text=_INLINE.format(inner="event facet Inner(input: Long) => (out: Long)", read="out"),
    workflow="shapes.Add",
    runs=[
        Run(trace=[(8, 1)], waiting=["addition.s1.sub"]),
        Run(answer=("addition.s1.sub", {"out": 5}), trace=_AFTER_THE_INNERMOST),
    ],
    # (5 + 10) + 2
    outputs={"result": 17},
    params={"addition.s1.sub": {"input": 1}},
    returns={"addition.s1.sub": {"out": 5}, "addition.s1": {"output": 15}, "addition": {"sum": 17}},
)

SEVERAL_PAUSES = Walkthrough(
    name="event facets at different points: a pause for each",
    text="""
        namespace pauses {
            event facet Count(of: String) => (n: Long)
            workflow Twice() => (total: Long) andThen {
                first = Count(of = "first")
                second = Count(of = "after " ++ first.n)
                yield Twice(total = first.n + second.n)
            }
        }
    """,
    workflow="pauses.Twice",
    runs=[
        Run(trace=[(3, 0)], waiting=["first"]),
        Run(answer=("first", {"n": 3}), trace=[(3, 1), (4, 1)], waiting=["second"]),
        Run(answer=("second", {"n": 4}), trace=[(4, 2), (5, 3), (5, 4), (5, 5)]),
    ],
    outputs={"total": 7},
    params={"first": {"of": "first"}, "second": {"of": "after 3"}},
)

CHECKOUT = Walkthrough(
    name="checkout, with a namespace for the rest of the file",
    text="""namespace billing

        event facet ProcessPayment(amount: Double, currency: String) => (transaction_id: String, status: String)

        workflow Checkout(total: Double) => (receipt: String) andThen {
            payment = ProcessPayment(amount = $.total, currency = "USD")
            yield Checkout(receipt = payment.transaction_id)
        }
    """,
    workflow="billing.Checkout",
    inputs={"total": 99.5},
    runs=[
        Run(trace=[(3, 0)], waiting=["payment"]),
        Run(
            answer=("payment", {"transaction_id": "txn-12345", "status": "approved"}),
            trace=[(3, 1), (4, 2), (4, 3), (4, 4)],
        ),
    ],
    outputs={"receipt": "txn-12345"},
    params={"payment": {"amount": 99.5, "currency": "USD"}},
    returns={"payment": {"transaction_id": "txn-12345", "status": "approved"}},
)

HANDLER_PER_MODULE = Walkthrough(
    name="one handler counts, one routes by facet name",
    text="""
        namespace docs { event facet Count(collection: String) => (count: Long) }
        namespace cache {
            event facet Africa() => (data: String)
            event facet Europe() => (data: String)
        }
        namespace job {
            use docs
            use cache
            workflow Load() => (count: Long, data: [String]) andThen {
                n = Count(collection = "reports")
                a = Africa()
                e = Europe()
                yield Load(count = n.count, data = [a.data, e.data])
            }
        }
    """,
    workflow="job.Load",
    runs=[
        Run(trace=[(5, 0)], waiting=["n", "a", "e"]),
        Run(answer=("e", {"data": "europe"}), trace=[(5, 1)], waiting=["n", "a"]),
        Run(answer=("n", {"count": 7}), trace=[(5, 2)], waiting=["a"]),
        Run(answer=("a", {"data": "africa"}), trace=[(5, 3), (6, 4), (6, 5), (6, 6)]),
    ],
    outputs={"count": 7, "data": ["africa", "europe"]},
)

WALKTHROUGHS = (
    INITIALIZATION_AND_YIELD,
    FAN_IN,
    SEVERAL_BLOCKS,
    FACET_BODY,
    INLINE_BODY,
    EVENT_IN_THE_MIDDLE,
    SEVERAL_PAUSES,
    CHECKOUT,
    HANDLER_PER_MODULE,
)
WITH_EVENTS = tuple(w for w in WALKTHROUGHS if len(w.runs) > 1)


@cache
def program_text(text: str) -> bytes:
    """Return the compiled program, as a file carries it."""
    return json.dumps(compile_text(text, "walkthrough.afl").program_json).encode()


def step_at(driver: Driver, path: str) -> SeenStep:
    """Return the only step of that path."""
    (found,) = [step for step in driver.steps() if step.path == path]
    return found


def play(driver: Driver, walkthrough: Walkthrough, *, restart: bool = False, answer_twice: bool = False) -> None:
    """Play a walkthrough and check each run: its iterations, what is stored when it ends, and the result.

    `restart` loses the memory at each pause; `answer_twice` repeats each answer, with another result, which must not
    matter.
    """
    seen = 0
    for run in walkthrough.runs:
        if run.answer is None:
            driver.start(program_text(walkthrough.text), walkthrough.workflow, walkthrough.inputs)
        else:
            path, result = run.answer
            step_id = step_at(driver, path).id
            driver.answer(step_id, result)
            if answer_twice:
                driver.answer(step_id, dict.fromkeys(result, "another answer"))
        seen = _check_run(driver, run, seen)
        if restart:
            driver.restart()
    _check_end(driver, walkthrough)


def _check_run(driver: Driver, run: Run, seen: int) -> int:
    trace = driver.trace()
    if trace is not None:
        assert [(each.existing, each.complete) for each in trace[seen:]] == list(run.trace)
    steps = driver.steps()
    existing, complete = run.trace[-1]
    assert (len(steps), sum(step.is_complete for step in steps)) == (existing, complete)
    waiting = [step for step in steps if step.state == StepState.EVENT_TRANSMIT]
    assert [step.path for step in waiting] == list(run.waiting)
    assert driver.status() == ("PAUSED" if run.waiting else "COMPLETED")
    unanswered = {event.step_id: event for event in driver.events() if event.state != EventState.COMPLETED}
    assert set(unanswered) == {step.id for step in waiting}
    for step in waiting:
        event = unanswered[step.id]
        assert (event.event_type, event.payload) == (step.document.facet_name, step.document.params)
        assert event.state in (EventState.CREATED, EventState.DISPATCHED)
    return 0 if trace is None else len(trace)


def _check_end(driver: Driver, walkthrough: Walkthrough) -> None:
    assert driver.outputs() == walkthrough.outputs
    for path, params in walkthrough.params.items():
        assert step_at(driver, path).document.params == params
    for path, returns in walkthrough.returns.items():
        assert step_at(driver, path).document.returns == returns
    trace = driver.trace()
    paths = {step.id: step.path for step in driver.steps()}
    for iteration, made in walkthrough.made.items():
        if trace is not None:
            assert {paths[step_id] for step_id in trace[iteration].created} == made
