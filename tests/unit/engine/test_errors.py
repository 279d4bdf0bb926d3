"""The engine's errors say what is wrong, and travel."""

import copy
import pickle

import pytest

from afl.engine import errors, limit_errors
from afl.engine.errors import (
    EvaluationError,
    ForeignStore,
    InputError,
    InputTypeMismatch,
    IterationLimitReached,
    MissingInput,
    NoProgress,
    PositionLost,
    ReferenceError,
    StepFailure,
    UnknownInput,
    UnknownWorkflow,
    WorkflowConflict,
)
from afl.errors import AFLError

SPOKEN: list[tuple[errors.RuntimeError, str]] = [
    (
        errors.InvalidStepStateError(step_id="s1", current_state="a", expected_states=["b", "c"]),
        "step s1 is at a, expected b or c",
    ),
    (errors.StepNotFoundError("s1"), "step s1 not found"),
    (errors.BlockNotFoundError("b1"), "block b1 not found"),
    (errors.DependencyNotSatisfiedError("s1", ["a", "b"]), "step s1 needs a, b, not complete yet"),
    (EvaluationError("1 / 0", "division by zero", step_id="s1"), "division by zero in 1 / 0 (step s1)"),
    (ReferenceError("$.x", "input 'x' not found"), "input 'x' not found in $.x"),
    (
        errors.InvalidWait("afl.Sleep", "minutes", "-5", "0 or more"),
        "afl.Sleep: minutes is -5, expected 0 or more",
    ),
    (errors.InvalidTransitionError("s1", "a", "b"), "step s1 can't go from a to b"),
    (errors.ConcurrencyError("s1", "locked"), "step s1: locked"),
    (errors.EventError("e1", "lost"), "event e1: lost"),
    (
        errors.VersionMismatchError(expected_version="1.0", actual_version="9.0", component="step schema"),
        "step schema has version 9.0, this runtime reads 1.0",
    ),
    (
        errors.WorkflowPurged("w1", name="shop.Checkout", status="COMPLETED"),
        "workflow w1 (shop.Checkout) has ended as COMPLETED and was purged: choose another id",
    ),
    (
        errors.VersionMismatchError("1.0", "9.0", "step_schema_version", remedy="upgrade this process"),
        "step_schema_version has version 9.0, this runtime reads 1.0: upgrade this process",
    ),
    (WorkflowConflict(("w1", "w2")), "changed by another writer since they were read: workflows w1, w2"),
    (UnknownWorkflow("Chekout", ("shop.Checkout",)), "no workflow is called Chekout; did you mean shop.Checkout?"),
    (errors.UnknownFacet("Pya"), "no facet or schema is called Pya"),
    (errors.ProgramMismatch("w1", pinned="aa", given="bb"), "workflow w1 runs program aa, not bb"),
    (
        errors.ScriptsNotAllowed("shop.Label"),
        "shop.Label has a script, and scripts are not allowed here: start the evaluator with --allow-scripts "
        "(evaluator.allow_scripts), or make Evaluator with scripts=ScriptPool()",
    ),
    (
        MissingInput(workflow="Checkout", name="amount", expected="Double"),
        "Checkout needs input amount: Double, which was not given",
    ),
    (
        UnknownInput(workflow="Checkout", name="amuont", declared=("amount", "sku")),
        "Checkout has no input amuont: it takes amount, sku; did you mean amount?",
    ),
    (UnknownInput(workflow="Ping", name="x"), "Ping has no input x: it takes none"),
    (
        InputTypeMismatch(workflow="Checkout", name="amount", expected="Double", found="String"),
        "Checkout: input amount is a String, expected Double",
    ),
    (errors.StoreCorrupt("run.db", "page 3 is short"), "store run.db is damaged: page 3 is short"),
    (
        errors.DocumentTooLarge("step w:a", size_bytes=17_000_000, limit_bytes=16_777_216),
        "step w:a takes 17,000,000 bytes; the store keeps 16,777,216 in one piece",
    ),
    (
        errors.CommitTooLarge("mongodb://db/afl", "it does not fit in the cache"),
        "store mongodb://db/afl does not take a commit of this size: it does not fit in the cache",
    ),
    (errors.StoreMissing("run.db", "there is none"), "store run.db can't be used: there is none"),
    (errors.StoreUnavailable("run.db", "the disk is full"), "store run.db can't be used: the disk is full"),
    (
        ForeignStore("run.db", found="prefix 'a.'", expected="prefix 'b.'"),
        "run.db holds prefix 'a.', expected prefix 'b.'",
    ),
    (PositionLost("afl.control", 3, expected=5, found=None), "afl.control[3]: the stored position is none, expected 5"),
    (PositionLost("afl.control", 3, expected=5, found=9), "afl.control[3]: the stored position is 9, expected 5"),
    (IterationLimitReached(1000), "not finished after 1000 iterations (max_iterations)"),
    (
        errors.NestingTooDeep("Loop.again", 250),
        "Loop.again is nested deeper than 250 steps (MAX_NESTING_DEPTH, which no setting raises): does a facet call "
        "itself without an end?",
    ),
    (
        errors.StepLimitReached("shop.Checkout", steps=1_000, limit=1_000),
        "shop.Checkout has 1000 steps and needs more, max_steps allows 1000: does it call itself without an end? Else "
        "split it, or raise evaluator.max_workflow_steps, or Evaluator(max_steps=...)",
    ),
    (
        errors.StateTooLarge(size_bytes=5_000, limit_bytes=4_000),
        "the values of all steps take 5000 bytes, max_state_bytes allows 4000: keep large values elsewhere and pass "
        "references to them, or raise evaluator.max_state_bytes, or Evaluator(max_state_bytes=...)",
    ),
    (
        errors.ValueTooLarge("s.v ++ s.v", size_bytes=5_000, limit_bytes=4_000),
        "s.v ++ s.v takes 5000 bytes, max_value_bytes allows 4000: keep the large value elsewhere and pass a reference "
        "to it, or raise evaluator.max_value_bytes, or Evaluator(max_value_bytes=...)",
    ),
    (
        errors.RunGivenUp("wf", "shop.Checkout", error_type="MemoryError", cause=""),
        "shop.Checkout could not be evaluated: MemoryError; its steps are as its last commit left them, and no "
        "other workflow is affected. If memory was short, `retry` continues it",
    ),
    (
        errors.PayloadTooLarge("the payload of shop.Pay", size_bytes=5_000, limit_bytes=4_000),
        "the payload of shop.Pay takes 5000 bytes, max_payload_bytes allows 4000: pass a reference to the large "
        "value, or raise evaluator.max_payload_bytes, or Evaluator(max_payload_bytes=...)",
    ),
    (
        errors.ValueTooDeep("r in the result of shop.Pay", limit=100),
        "r in the result of shop.Pay nests lists and maps more than 100 deep (MAX_VALUE_DEPTH, which no setting "
        "raises)",
    ),
    (NoProgress(("Checkout.a",)), "no step can continue and none waits for an event; stuck: Checkout.a"),
    (
        StepFailure("s1", "Checkout.payment", "shop.Pay", "ValueError", "no funds", line=7),
        "Checkout.payment (shop.Pay, line 7) failed: ValueError: no funds",
    ),
    (StepFailure("s1", "Checkout.andThen", "", "ValueError", "x"), "Checkout.andThen failed: ValueError: x"),
    (
        StepFailure("s1", "Checkout.andThen", "", "ValueError", "x", 7),
        "Checkout.andThen (line 7) failed: ValueError: x",
    ),
]


@pytest.mark.parametrize(("error", "text"), SPOKEN)
def test_an_error_says_what_was_found_and_what_would_be_right(error: errors.RuntimeError, text: str) -> None:
    assert str(error) == text


def test_of_a_very_deep_path_the_two_ends_are_shown() -> None:
    text = str(errors.NestingTooDeep("W.first." + "r." * 500 + "last", 250))

    assert len(text) < 320
    assert text.startswith("W.first.r.")
    assert "r.last is nested deeper than 250 steps" in text


def test_every_error_is_in_the_list_above() -> None:
    kinds = {
        value
        for value in vars(errors).values()
        if isinstance(value, type) and value.__module__ in (errors.__name__, limit_errors.__name__)
    }

    assert kinds - {errors.RuntimeError, InputError, errors.LimitReached, errors.RunLimitReached} == {
        type(error) for error, _ in SPOKEN
    }


@pytest.mark.parametrize(("error", "text"), SPOKEN)
def test_an_error_survives_copying_and_the_way_between_processes(error: errors.RuntimeError, text: str) -> None:
    for other in (copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert type(other) is type(error)
        assert str(other) == text
        assert vars(other) == vars(error)


def test_all_errors_are_caught_by_the_shared_base_and_can_be_hashed() -> None:
    assert all(isinstance(error, AFLError) for error, _ in SPOKEN)
    assert len({error for error, _ in SPOKEN}) == len(SPOKEN)


def test_the_engine_s_base_is_not_the_builtin() -> None:
    assert not issubclass(errors.RuntimeError, RuntimeError)
    assert issubclass(MissingInput, InputError)
