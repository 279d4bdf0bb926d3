"""One module of handlers, in each form that it may have, does the same work under every poller, runner and agent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.execution_models import MODELS, Model, ended

HANDLERS = "tests.scenarios.handlers"

PROGRAM = """
namespace docs {
    event facet Count(words: [String]) => (count: Long, facet: String)
    workflow Counting(words: [String]) => (count: Long, facet: String) andThen {
        c = Count(words = $.words)
        yield Counting(count = c.count, facet = c.facet)
    }
}
namespace cache {
    event facet Put(key: String) => (kept: String)
    event facet Drop(key: String) => (dropped: String)
    workflow Keep(key: String) => (kept: String, dropped: String) andThen {
        p = Put(key = $.key)
        d = Drop(key = p.kept)
        yield Keep(kept = p.kept, dropped = d.dropped)
    }
}
namespace geo {
    event facet Africa(who: String) => (text: String)
    event facet Asia(who: String) => (text: String)
    event facet Follow(who: String) => (stage: String, seen: String, attempt: Long, of: String)
    event facet Wait(who: String) => (text: String)
    event facet Sleep(who: String) => (text: String)
    event facet Refuse(who: String) => (text: String)
    event facet Nothing(who: String)
    event facet Mumble(who: String) => (text: String)
    event facet Mistype(who: String) => (text: String, tone: String = "calm")
    workflow Both(who: String) => (africa: String, asia: String) andThen {
        a = Africa(who = $.who)
        b = Asia(who = $.who)
        yield Both(africa = a.text, asia = b.text)
    }
    workflow Following(who: String) => (stage: String, seen: String, attempt: Long, of: String) andThen {
        f = Follow(who = $.who)
        yield Following(stage = f.stage, seen = f.seen, attempt = f.attempt, of = f.of)
    }
    workflow Waiting(who: String) andThen { w = Wait(who = $.who) }
    workflow Sleeping(who: String) andThen { s = Sleep(who = $.who) }
    workflow Refusing(who: String) andThen { r = Refuse(who = $.who) }
    workflow Doing(who: String) andThen { n = Nothing(who = $.who) }
    workflow Mumbling(who: String) andThen { m = Mumble(who = $.who) }
    workflow Mistyping(who: String) andThen { m = Mistype(who = $.who) }
}
"""
#: A namespace without braces at the head of the file holds for the rest of it.
BILLING = """
namespace billing

event facet ProcessPayment(amount: Double, currency: String) => (transaction_id: String, status: String)

workflow Checkout(total: Double) => (receipt: String) andThen {
    payment = ProcessPayment(amount = $.total, currency = "USD")
    yield Checkout(receipt = payment.transaction_id)
}
"""


@pytest.fixture(params=MODELS)
def of(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Model]]:
    made: list[Model] = []

    def make(program: str) -> Model:
        made.append(MODELS[request.param](program))
        return made[-1]

    yield make
    for model in made:
        model.close()


@pytest.fixture
def model(of: Callable[[str], Model]) -> Model:
    return of(PROGRAM)


def outputs(model: Model, workflow: str, **inputs: Any) -> Mapping[str, Any]:
    row = ended(model, workflow, **inputs)
    assert row.status == "COMPLETED", row.error
    return dict(row.outputs or {})


def failure(model: Model, workflow: str) -> tuple[str, str]:
    row = ended(model, workflow, who="me")
    assert row.error is not None
    return row.error.type, row.error.message


def test_a_plain_function(model: Model) -> None:
    model.registrar.register_module(f"{HANDLERS}.counting", facets=["docs.Count"])
    model.work()

    assert outputs(model, "docs.Counting", words=["a", "b"]) == {"count": 2, "facet": "docs.Count"}


def test_a_plain_function_in_a_file(model: Model) -> None:
    path = Path(__file__).parent / "handlers" / "counting.py"
    model.registrar.register_module(path.as_uri(), facets=["Count"])
    model.work()

    assert outputs(model, "docs.Counting", words=["a"]) == {"count": 1, "facet": "docs.Count"}


def test_a_function_that_tells_its_facets_apart(model: Model) -> None:
    model.registrar.register_module(f"{HANDLERS}.caching")
    model.work()

    assert outputs(model, "cache.Keep", key="k") == {"kept": "K", "dropped": "K"}


def test_a_module_that_registers_its_functions(model: Model) -> None:
    model.registrar.register_module(f"{HANDLERS}.regions")
    model.work()

    assert outputs(model, "geo.Both", who="me") == {
        "africa": "Africa has 54 countries, asked by me",
        "asia": "Asia has 48 countries, asked by me",
    }


def test_partial_results_of_a_coroutine_and_what_it_knows_of_its_event(model: Model) -> None:
    model.registrar.register_module(f"{HANDLERS}.regions")
    model.work()

    found = outputs(model, "geo.Following", who="me")

    assert (found["stage"], found["seen"], found["attempt"]) == ("there", "on its way", 1)
    assert model.row(found["of"]) is not None


@pytest.mark.parametrize("workflow", ["geo.Waiting", "geo.Sleeping"])
def test_handlers_that_take_too_long(model: Model, workflow: str) -> None:
    model.registrar.register_module(f"{HANDLERS}.regions")
    model.work()

    assert failure(model, workflow) == ("Timeout", "the handler did not end within 0.15 s")


def test_a_handler_that_raises_and_one_that_returns_what_is_no_result(model: Model) -> None:
    model.registrar.register_module(f"{HANDLERS}.regions")
    model.work()

    assert failure(model, "geo.Refusing") == ("PermissionError", "me may not")
    kind, message = failure(model, "geo.Mumbling")
    assert kind == "BadResult"
    assert "a list" in message
    assert outputs(model, "geo.Doing", who="me") == {}
    assert failure(model, "geo.Mistyping") == (
        "ResultMismatch",
        "the result of geo.Mistype lacks text and has texte, which geo.Mistype does not declare; "
        "it has to hold text, and it may hold tone",
    )


def test_the_whole_way_from_a_file_with_a_namespace_to_a_receipt(of: Callable[[str], Model]) -> None:
    model = of(BILLING)
    model.registrar.register_handler(
        facet_name="billing.ProcessPayment", module_uri=f"{HANDLERS}.billing", entrypoint="process_payment"
    )
    model.work()

    assert outputs(model, "billing.Checkout", total=12.5) == {"receipt": "txn-12.5-USD"}


@pytest.mark.parametrize("of", ["AgentPoller", "RegistryRunner", "RunnerService"], indirect=True)
def test_polling_once_needs_no_thread(of: Callable[[str], Model]) -> None:
    model = of(PROGRAM)
    model.registrar.register_module(f"{HANDLERS}.regions")
    model.registrar.register_module(f"{HANDLERS}.caching")
    run = model.start("cache.Keep", {"key": "k"})
    follow = model.start("geo.Following", {"who": "me"})
    before = threading.active_count()

    server: Any = model.registrar
    while server.poll_once():
        # A thread of an earlier test may end meanwhile.
        assert threading.active_count() <= before

    for workflow_id in (run, follow):
        row = model.row(workflow_id)
        assert row is not None
        assert row.status == "COMPLETED"


@pytest.mark.parametrize(
    ("module", "facets", "raised"),
    [
        ("tests.scenarios.handlers.nowhere", (), ImportError),
        ("tests.scenarios.handlers.billing", ("billing.ProcessPayment",), AttributeError),
        ("tests.scenarios.handlers.counting", (), ValueError),
    ],
)
def test_modules_that_cannot_be_registered(
    model: Model, module: str, facets: Sequence[str], raised: type[Exception]
) -> None:
    with pytest.raises(raised, match=module):
        model.registrar.register_module(module, facets)
