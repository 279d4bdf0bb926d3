"""Rules that agents and pollers share about a handler: its registration, its route, its retry policy, its context."""

from __future__ import annotations

from pathlib import Path

import pytest

from afl.core.errors import AFLError
from afl.core.handlers.allowed_modules import AllowedHandlers, HandlerNotAllowed
from afl.core.handlers.context import HandlerContext
from afl.core.handlers.modules import ModuleLoader
from afl.core.handlers.registration import HandlerRegistration, allowed_route, function_route
from afl.core.handlers.retry import RetryPolicy
from afl.core.handlers.routes import RouteTable
from afl.runtime import AgentPoller, Evaluator, MemoryStore, TaskContext
from afl_stream import Agent
from afl_stream.agent.agent import AgentConfig
from afl_stream.embedded.transport import EmbeddedTransport


def handle(payload: object) -> None: ...


def test_a_facet_finds_the_route_of_its_full_name_before_that_of_its_short_one() -> None:
    table = RouteTable()
    table.add(function_route("Pay", handle, metadata={"short": True}))
    table.add(function_route("shop.Pay", handle, metadata={"short": False}))

    found = [table.find(facet) for facet in ("shop.Pay", "bank.Pay", "shop.Ship")]

    assert [route and route.name for route in found] == ["shop.Pay", "Pay", None]


def test_the_latest_registration_of_a_name_counts_and_those_who_look_meanwhile_see_one_or_the_other() -> None:
    table = RouteTable()
    table.add(function_route("Pay", handle, timeout_ms=100))
    before = table.routes

    table.add(function_route("Pay", handle, timeout_ms=200))

    assert before["Pay"].timeout_s == 0.1
    assert table.routes["Pay"].timeout_s == 0.2


@pytest.mark.parametrize("timeout_ms", [None, 0, -1])
def test_a_handler_without_a_time_limit_takes_as_long_as_it_takes(timeout_ms: int | None) -> None:
    assert function_route("Pay", handle, timeout_ms=timeout_ms).timeout_s is None


def test_a_handler_gets_a_payload_of_its_own_with_the_facets_name_and_its_metadata() -> None:
    sent = {"amount": 1}

    named = function_route("Pay", handle, metadata={"queue": "fast"}).payload("shop.Pay", sent)
    bare = function_route("Pay", handle, names_facet=False).payload("shop.Pay", sent)

    assert named == {"amount": 1, "_facet_name": "shop.Pay", "_handler_metadata": {"queue": "fast"}}
    assert bare == sent
    assert bare is not sent


def test_what_cannot_be_called_is_refused_when_it_is_registered_by_agents_and_pollers() -> None:
    store = MemoryStore()
    for side in (AgentPoller(store, Evaluator(store)), Agent(AgentConfig(), EmbeddedTransport())):
        with pytest.raises(TypeError, match=r"the handler of shop\.Pay is a int, not callable"):
            side.register("shop.Pay", 5)  # type: ignore[arg-type]  # what is tried here


def test_a_module_that_is_registered_and_not_allowed_is_not_loaded(tmp_path: Path) -> None:
    module = tmp_path / "billing.py"
    module.write_text("raise SystemExit('it was loaded')\n")
    registration = HandlerRegistration(facet_name="shop.Pay", module_uri=module.as_uri())

    with pytest.raises(HandlerNotAllowed):
        allowed_route(registration, ModuleLoader(), AllowedHandlers(["shop"]))


def test_a_policy_without_a_first_try_is_refused_by_the_root_of_our_errors() -> None:
    with pytest.raises(AFLError, match="max_attempts: found 0, expected 1 or more"):
        RetryPolicy(max_attempts=0)


def test_a_pollers_handlers_have_the_context_that_an_agents_have() -> None:
    assert issubclass(TaskContext, HandlerContext)
    assert TaskContext.update is HandlerContext.update
