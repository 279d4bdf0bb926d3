"""The progress of a block."""

from afl.engine.states import StepState
from afl.engine.types import ObjectType, StatementId, WorkflowId
from afl.evaluation.block import BlockAnalysis, StatementDefinition, StepAnalysis
from afl.stores.public.step import StepDefinition

BLOCK = StepDefinition.create(WorkflowId("w1"), ObjectType.AND_THEN)


def statement(name: str, *needs: str, is_yield: bool = False) -> StatementDefinition:
    kind = ObjectType.YIELD_ASSIGNMENT if is_yield else ObjectType.VARIABLE_ASSIGNMENT
    return StatementDefinition(name, name, kind, "shop.Pay", dependencies=set(needs), is_yield=is_yield)


def step_at(name: str, state: str, *, requesting: bool = False, push: bool = False) -> StepDefinition:
    step = StepDefinition.create(WorkflowId("w1"), ObjectType.VARIABLE_ASSIGNMENT, statement_id=StatementId(name))
    step.change_state(state)
    step.transition.request_transition = requesting
    step.transition.push_me = push
    return step


def names(statements: object) -> list[str]:
    assert isinstance(statements, list)
    return [statement.id for statement in statements]


def test_each_step_stands_where_its_state_says() -> None:
    steps = {
        "completed": step_at("a", StepState.STATEMENT_COMPLETE),
        "errored": step_at("b", StepState.STATEMENT_ERROR, requesting=True),
        "requesting_push": step_at("c", StepState.STATEMENT_BLOCKS_CONTINUE, requesting=True, push=True),
        "requesting_transition": step_at("d", StepState.EVENT_TRANSMIT, requesting=True),
        "pending_event": step_at("e", StepState.EVENT_TRANSMIT),
        "pending_mixin": step_at("f", StepState.MIXIN_BLOCKS_CONTINUE),
        "pending_blocks": step_at("g", StepState.STATEMENT_BLOCKS_CONTINUE),
    }
    analysis = StepAnalysis.load(BLOCK, [statement(name) for name in "abcdefgh"], list(steps.values()))

    for category, step in steps.items():
        assert getattr(analysis, category) == [step], category
    assert names(analysis.missing) == ["h"]
    assert analysis.steps == list(steps.values())
    assert analysis.completion_progress == (1, 8)
    assert not analysis.done


def test_a_nested_block_in_execution_is_pending_too() -> None:
    step = step_at("a", StepState.BLOCK_EXECUTION_CONTINUE)

    assert StepAnalysis.load(BLOCK, [statement("a")], [step]).pending_blocks == [step]


def test_a_block_is_done_when_all_its_statements_are_complete() -> None:
    steps = [step_at(name, StepState.STATEMENT_COMPLETE) for name in "ab"]

    analysis = StepAnalysis.load(BLOCK, [statement("a"), statement("b", "a")], steps)

    assert analysis.done
    assert not analysis.is_blocked()
    assert not analysis.has_pending_work()
    assert StepAnalysis.load(BLOCK, [], []).done


def test_a_statement_can_start_when_what_it_needs_is_complete() -> None:
    statements = [statement("a"), statement("b", "a"), statement("c", "b"), statement("d")]
    analysis = StepAnalysis.load(BLOCK, statements, [step_at("a", StepState.STATEMENT_COMPLETE)])

    assert names(analysis.can_be_created()) == ["b", "d"]
    assert analysis.has_pending_work()


def test_a_yield_waits_for_statements_that_it_does_not_refer_to() -> None:
    statements = [statement("a"), statement("b"), statement("y", "a", is_yield=True)]
    a, b = (step_at(name, StepState.STATEMENT_COMPLETE) for name in "ab")

    assert names(StepAnalysis.load(BLOCK, statements, [a]).can_be_created()) == ["b"]
    assert names(StepAnalysis.load(BLOCK, statements, [a, b]).can_be_created()) == ["y"]


def test_nothing_starts_in_a_block_with_a_failed_step_which_is_never_done() -> None:
    statements = [statement("a"), statement("b"), statement("c")]
    failed = step_at("a", StepState.STATEMENT_ERROR)
    running = StepAnalysis.load(BLOCK, statements, [failed, step_at("b", StepState.EVENT_TRANSMIT)])
    finished = StepAnalysis.load(BLOCK, statements, [failed, step_at("b", StepState.STATEMENT_COMPLETE)])

    assert running.can_be_created() == []
    assert not finished.done


def test_a_block_whose_steps_only_wait_is_blocked() -> None:
    statements = [statement("a"), statement("b", "a")]

    assert StepAnalysis.load(BLOCK, statements, [step_at("a", StepState.EVENT_TRANSMIT)]).is_blocked()
    moving = StepAnalysis.load(BLOCK, statements, [step_at("a", StepState.EVENT_TRANSMIT, requesting=True)])
    assert not moving.is_blocked()


def block_at(state: str, container_type: str) -> StepDefinition:
    block = StepDefinition.create(WorkflowId("w1"), ObjectType.AND_THEN, container_type=container_type)
    block.change_state(state)
    return block


def test_a_step_without_blocks_has_nothing_left_to_do() -> None:
    assert BlockAnalysis.load(BLOCK, []).done


def test_a_step_waits_for_all_its_blocks() -> None:
    complete = block_at(StepState.STATEMENT_COMPLETE, ObjectType.WORKFLOW)
    running = block_at(StepState.BLOCK_EXECUTION_CONTINUE, ObjectType.WORKFLOW)

    analysis = BlockAnalysis.load(BLOCK, [complete, running])

    assert (analysis.completed, analysis.pending, analysis.done) == ([complete], [running], False)
    assert analysis.completion_progress == (1, 2)
    assert BlockAnalysis.load(BLOCK, [complete]).done


def test_a_failed_block_is_neither_pending_nor_lets_its_step_be_done() -> None:
    failed = block_at(StepState.STATEMENT_ERROR, ObjectType.WORKFLOW)

    analysis = BlockAnalysis.load(BLOCK, [failed])

    assert (analysis.errored, analysis.pending, analysis.done) == ([failed], [], False)


def test_blocks_of_mixins_and_of_the_statement_are_looked_at_apart() -> None:
    mixin = block_at(StepState.STATEMENT_COMPLETE, ObjectType.FACET)
    body = block_at(StepState.BLOCK_EXECUTION_CONTINUE, ObjectType.VARIABLE_ASSIGNMENT)

    assert BlockAnalysis.load(BLOCK, [mixin, body], mixins=True).done
    assert BlockAnalysis.load(BLOCK, [mixin, body]).pending == [body]


def test_a_mixins_step_is_a_mixin_of_its_owner_and_its_blocks_are_its_own() -> None:
    mixin = StepDefinition.create(WorkflowId("w1"), ObjectType.FACET)
    of_mixin = block_at(StepState.BLOCK_EXECUTION_CONTINUE, ObjectType.FACET)

    assert BlockAnalysis.load(BLOCK, [mixin], mixins=True).pending == [mixin]
    assert BlockAnalysis.load(BLOCK, [mixin]).done
    assert BlockAnalysis.load(mixin, [of_mixin]).pending == [of_mixin]
    assert BlockAnalysis.load(mixin, [of_mixin], mixins=True).done
