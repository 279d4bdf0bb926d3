"""A run's steps as a tree of calls."""

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.text.printable import printable_lines
from afl.engine.model.store import ErrorRecord, StepDocument
from afl.engine.planning.planner import plan_workflow
from afl.engine.states import EventState, StepState
from afl.engine.types import ObjectType
from afl_stream.commands.terminal import duration_text, one_line, value_text
from afl_stream.visibility.step_tree import CaughtFailure, statement_names, step_tree


def _step(
    name: str,
    object_type: str,
    *,
    container: str | None = None,
    block: str | None = None,
    statement: str | None = None,
    facet: str = "",
    index: int | None = None,
    waits: bool = False,
) -> StepDocument:
    return StepDocument(
        id=name,
        workflow_id="w",
        number=0,
        revision=1,
        object_type=object_type,
        state=StepState.EVENT_TRANSMIT if waits else StepState.STATEMENT_COMPLETE,
        statement_id=statement,
        facet_name=facet,
        container_id=container,
        container_type=None,
        block_id=block,
        root_id="root",
        params={},
        returns={},
        event_state=EventState.CREATED if waits else "",
        foreach_index=index,
    )


CALL = ObjectType.VARIABLE_ASSIGNMENT
BLOCK = ObjectType.AND_THEN
STEPS = [
    _step("root", ObjectType.WORKFLOW, facet="n.W"),
    _step("body", BLOCK, container="root"),
    _step("all", CALL, container="root", block="body", statement="s1", facet="n.All"),
    _step("foreach", BLOCK, container="all"),
    _step("element", BLOCK, container="all", block="foreach", index=7),
    _step("one", CALL, container="all", block="element", statement="s2", facet="n.One", waits=True),
    _step("yield", ObjectType.YIELD_ASSIGNMENT, container="root", block="body", facet="n.W"),
]


def test_calls_stand_below_their_callers_and_elements_have_their_index() -> None:
    root = step_tree(STEPS, {"s1": "all", "s2": "one"})

    assert root is not None
    assert [(depth, node.label) for depth, node in root.walk()] == [(0, "n.W"), (1, "all = All"), (2, "[7] one = One")]
    assert [node.is_waiting for _, node in root.walk()] == [False, False, True]


def test_a_step_whose_program_is_gone_is_shown_by_its_statement() -> None:
    root = step_tree(STEPS, {})

    assert root is not None
    assert root.children[0].label == "s1 = All"


def test_nothing_is_shown_of_a_run_without_a_root() -> None:
    assert step_tree(STEPS[1:], {}) is None


def test_statements_are_named_at_every_depth() -> None:
    source = """namespace n {
        facet One(i: Int) => (o: Int)
        workflow W() andThen { outer = One(i = 1) andThen { inner = One(i = 2) } }
    }"""
    plan = plan_workflow(CompiledProgram(compile_text(source).program_json), "n.W")

    assert set(statement_names(plan).values()) == {"outer", "inner"}


def test_text_of_others_does_not_steer_the_terminal() -> None:
    assert printable_lines("a\x1b[2Jb\nc") == "a\\x1b[2Jb\nc"
    assert one_line("a\nb") == "a b"
    assert value_text({"a": "\u009b2J"}) == '{"a": "\\x9b2J"}'


def test_a_value_that_nobody_would_read_is_cut() -> None:
    assert value_text("x" * 50, 10) == '"xxxxxxxxx... (52 characters; --json has all)'


def test_durations_are_told_in_the_unit_that_people_use() -> None:
    assert [duration_text(ms) for ms in (0, 1_240, 61_000, 7_260_000)] == ["0.0 s", "1.2 s", "1 min 1 s", "2 h 1 min"]


def test_what_stands_in_cases_and_catches_says_so_and_statements_of_sys_go_by_what_they_are() -> None:
    steps = [
        _step("root", ObjectType.WORKFLOW, facet="n.W"),
        _step("when", ObjectType.AND_MATCH, container="root", statement="block-0"),
        _step("case", BLOCK, container="root", block="when", statement="case-1"),
        _step("log", ObjectType.SYS_LOG, container="root", block="case", statement="l1", facet="sys.log"),
        _step("pay", CALL, container="root", block="case", statement="s1", facet="n.Pay"),
        _step("catch", ObjectType.AND_MATCH, container="pay", statement="catch"),
        _step("caught", BLOCK, container="pay", block="catch", statement="case-0"),
        _step("alert", CALL, container="pay", block="caught", statement="s2", facet="n.Alert"),
    ]

    tree = step_tree(steps, {"s1": "pay", "s2": "alert", "l1": "sys.log-0"})

    assert tree is not None
    assert [(depth, node.label) for depth, node in tree.walk()] == [
        (0, "n.W"),
        (1, "case[1] sys.log"),
        (1, "case[1] pay = Pay"),
        (2, "catch case[0] alert = Alert"),
    ]


def test_statements_in_cases_and_catches_have_names_too() -> None:
    program = CompiledProgram(
        {
            "declarations": [
                {"type": "FacetDecl", "name": "V"},
                {
                    "type": "WorkflowDecl",
                    "name": "W",
                    "body": {"when": {"cases": [{"default": True, "steps": [_call("a")]}]}},
                    "catch": {"steps": [{**_call("b"), "catch": {"steps": [_call("c")]}}]},
                },
            ]
        }
    )

    names = statement_names(plan_workflow(program, "W"))

    assert names == {"id-a": "a", "id-b": "b", "id-c": "c"}


def _call(name: str) -> dict[str, object]:
    return {"name": name, "id": f"id-{name}", "call": {"target": "V"}}


def test_a_mixin_stands_below_its_step_under_its_alias() -> None:
    steps = [
        _step("root", ObjectType.WORKFLOW, facet="n.W"),
        _step("body", BLOCK, container="root", statement="block-0"),
        _step("pull", CALL, container="root", block="body", statement="s1", facet="n.Pull"),
        _step("m", ObjectType.FACET, container="pull", statement="mixin-retry", facet="n.Retry"),
    ]

    tree = step_tree(steps, {"s1": "pull"})

    assert tree is not None
    assert [node.label for _, node in tree.walk()] == ["n.W", "pull = Pull", "retry = Retry"]


def _failed(step: StepDocument, cause: str | None = None) -> StepDocument:
    """Return the step as failed, by its own error or by that of another one."""
    error = ErrorRecord("Declined", "no funds", step_id=cause or step.id)
    return step._replace(state=StepState.STATEMENT_ERROR, error=error)


def _catch(name: str, container: str) -> StepDocument:
    block = _step(name, BLOCK, container=container, statement="catch")
    return block._replace(params={"error": "no funds", "error_type": "Declined"})


def test_what_a_step_has_caught_is_kept_with_it_and_marked_where_it_failed() -> None:
    root = step_tree(
        [
            *STEPS[:3],
            _failed(_step("inside", BLOCK, container="all"), "one"),
            _failed(_step("one", CALL, container="all", block="inside", statement="s2", facet="n.One")),
            _catch("catch", "all"),
            _failed(_step("two", CALL, container="all", block="catch", statement="s3", facet="n.One")),
        ],
        {"s1": "all", "s2": "one", "s3": "two"},
    )

    assert root is not None
    (caught,) = root.children
    assert caught.caught == CaughtFailure(type="Declined", message="no funds")
    # What fails in the catch itself is not caught by it.
    assert [(node.label, node.is_caught) for node in caught.children] == [
        ("one = One", True),
        ("catch two = One", False),
    ]


def test_failed_yields_and_blocks_are_shown_and_others_are_not() -> None:
    root = step_tree(
        [
            *STEPS[:2],
            _failed(_step("yield", ObjectType.YIELD_ASSIGNMENT, container="root", block="body", facet="n.W")),
            _failed(_step("each", ObjectType.AND_MAP, container="root")),
            _failed(_step("above", BLOCK, container="root"), "yield"),
            STEPS[-1],
        ],
        {},
    )

    assert root is not None
    assert [node.label for node in root.children] == ["yield W", "foreach"]
