"""RegistryRunner: what answers a facet is registered in the store, and loaded when a task needs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.engine.model.entities import TaskState
from afl.runtime import HandlerRegistration, RegistryRunner, RegistryRunnerConfig
from tests.eventually import eventually
from tests.unit.workers.workshop import Workshop, opened, started

ECHO = """
def handle(payload):
    return {"receipt": f"{payload['_facet_name']} {payload.get('_handler_metadata')}"}

def other(payload):
    return {"receipt": "other"}

async def slowly(payload):
    return {"receipt": "slowly"}

def broken(payload):
    raise OSError("no paper")

not_callable = 3
"""


@pytest.fixture(params=["memory", "sqlite"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workshop]:
    workshop = Workshop(opened(request.param, tmp_path))
    yield workshop
    workshop.store.close()


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "echo.py"
    path.write_text(ECHO)
    return path


def runner_of(shop: Workshop, **config: object) -> RegistryRunner:
    settings = RegistryRunnerConfig(poll_interval_ms=20, allowed_handlers=["/"])
    for name, value in config.items():
        setattr(settings, name, value)
    return RegistryRunner(shop.store, shop.evaluator, settings)


def receipt(shop: Workshop, runner: RegistryRunner, workflow_id: str) -> object:
    shop.start("Buy", workflow_id, order="17")
    assert runner.poll_once() == 1
    return shop.outputs(workflow_id)["receipt"]


def test_the_defaults_are_those_of_the_specification() -> None:
    config = RegistryRunnerConfig()

    assert config.service_name == "afl-registry-runner"
    assert (config.poll_interval_ms, config.max_concurrent, config.heartbeat_interval_ms) == (2000, 5, 10000)
    assert (config.registry_refresh_interval_ms, config.topics) == (30000, [])


def test_a_registered_function_gets_the_facets_name_and_what_was_registered_with_it(
    shop: Workshop, module: Path
) -> None:
    runner = runner_of(shop)
    runner.register_handler("shop.Pay", module.as_uri())
    assert receipt(shop, runner, "a") == "shop.Pay None"
    assert shop.task("a").data == {"order": "17"}

    runner.register_handler("shop.Pay", module.as_uri(), metadata={"region": "eu"})
    assert receipt(shop, runner, "b") == "shop.Pay {'region': 'eu'}"

    runner.register_handler("shop.Pay", module.as_uri(), entrypoint="slowly")
    assert receipt(shop, runner, "c") == "slowly"


def test_a_registration_is_stored_with_its_times(shop: Workshop, module: Path) -> None:
    runner = runner_of(shop)
    runner.register_handler("shop.Pay", module.as_uri(), version="2", requirements=["requests"])
    first = shop.store.get_handler_registration("shop.Pay")
    runner.register_handler("shop.Pay", module.as_uri(), entrypoint="other")
    second = shop.store.get_handler_registration("shop.Pay")

    assert first is not None
    assert (first.version, first.requirements, first.timeout_ms) == ("2", ["requests"], 30000)
    assert first.created > 0
    assert first.updated > 0
    assert second is not None
    assert (second.created, second.entrypoint) == (first.created, "other")
    assert runner.registered_names() == ["shop.Pay"]


def test_a_path_is_registered_so_that_a_runner_elsewhere_finds_it(
    shop: Workshop, module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(module.parent)
    runner_of(shop).register_module("echo.py", ["shop.Pay"])
    runner_of(shop).register_handler("shop.Ship", "./echo.py", "other")

    monkeypatch.chdir("/")
    elsewhere = runner_of(shop)

    assert receipt(shop, elsewhere, "run") == "shop.Pay None"
    stored = {found.facet_name: found.module_uri for found in shop.store.list_handler_registrations()}
    assert stored == dict.fromkeys(("shop.Pay", "shop.Ship"), module.resolve().as_uri())


def test_another_function_of_a_module_is_registered_by_its_name(shop: Workshop, module: Path) -> None:
    runner = runner_of(shop)
    runner.register_module(str(module), ["shop.Pay"], entrypoint="other")

    assert receipt(shop, runner, "run") == "other"


def test_a_short_name_answers_facets_of_every_namespace(shop: Workshop, module: Path) -> None:
    runner = runner_of(shop)
    runner.register_handler("Pay", module.as_uri())

    assert receipt(shop, runner, "a") == "shop.Pay None"


def test_another_checksum_loads_the_module_anew(shop: Workshop, module: Path) -> None:
    runner = runner_of(shop)
    runner.register_handler("shop.Pay", module.as_uri(), checksum="1")
    assert receipt(shop, runner, "a") == "shop.Pay None"
    module.write_text("def handle(payload):\n    return {'receipt': 'anew'}\n")
    assert receipt(shop, runner, "b") == "shop.Pay None"

    # By another process: this one reads it with the next task.
    shop.store.save_handler_registration(HandlerRegistration("shop.Pay", module.as_uri(), checksum="2"))

    assert receipt(shop, runner, "c") == "anew"


def test_a_module_that_only_the_store_names_is_loaded_where_it_is_allowed(
    shop: Workshop, module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = module.parent / "ran"
    module.write_text(f"import pathlib\npathlib.Path({str(ran)!r}).touch()\n{ECHO}")
    shop.store.save_handler_registration(HandlerRegistration("shop.Pay", module.as_uri()))
    shop.start("Buy", "a", order="17")
    assert runner_of(shop, allowed_handlers=["."]).poll_once() == 1
    assert not ran.exists()
    assert "not allowed here (RegistryRunnerConfig.allowed_handlers is .)" in str(shop.task("a").error)

    monkeypatch.chdir(module.parent)
    shop.start("Buy", "b", order="17")
    assert runner_of(shop, allowed_handlers=["."]).poll_once() == 1
    assert shop.status("b") == "COMPLETED"


def test_a_function_of_pythons_own_library_is_not_called_for_a_registration(shop: Workshop) -> None:
    for entrypoint, uri in (("system", "os"), ("run", "subprocess")):
        shop.store.save_handler_registration(HandlerRegistration("shop.Pay", uri, entrypoint=entrypoint))
        shop.start("Buy", uri, order="17")
        runner_of(shop).poll_once()

        assert "not allowed" in str(shop.task(uri).error)


def test_what_the_runner_was_told_of_needs_no_permission(shop: Workshop, module: Path) -> None:
    runner = runner_of(shop, allowed_handlers=[])
    runner.register_handler("shop.Pay", str(module))

    assert receipt(shop, runner, "a") == "shop.Pay None"


def test_topics_say_which_facets_are_handled(shop: Workshop, module: Path) -> None:
    for name in ("shop.Pay", "shop.Ship", "osm.geo.Africa", "Refund"):
        shop.store.save_handler_registration(HandlerRegistration(name, module.as_uri()))
    runner = runner_of(shop, topics=["osm.*", "shop.S?ip", "bank.*"])
    shop.start("Buy", order="17")

    assert runner.registered_names() == ["shop.Ship", "osm.geo.Africa"]
    assert runner.poll_once() == 0
    assert shop.task().state == TaskState.PENDING
    # A short name stands for the facets of a topic.
    assert runner.serves("bank.Refund")
    assert not runner.serves("shop.Refund")


def test_registrations_are_read_again_after_the_interval(shop: Workshop, module: Path) -> None:
    runner = runner_of(shop, registry_refresh_interval_ms=3_600_000)
    assert runner.registered_names() == []
    shop.store.save_handler_registration(HandlerRegistration("shop.Pay", module.as_uri()))
    assert runner.registered_names() == []
    eager = runner_of(shop, registry_refresh_interval_ms=0)
    assert eager.registered_names() == ["shop.Pay"]

    shop.store.delete_handler_registration("shop.Pay")
    assert eager.registered_names() == []


def test_a_task_that_was_claimed_for_a_registration_that_went_fails_saying_which(shop: Workshop, module: Path) -> None:
    runner = runner_of(shop, registry_refresh_interval_ms=3_600_000)
    runner.register_handler("shop.Pay", module.as_uri())
    shop.store.delete_handler_registration("shop.Pay")
    for workflow_id in ("a", "b"):
        shop.start("Buy", workflow_id, order="17")

    # The second is left to others: it has been noticed.
    assert runner.poll_once() == 1
    assert shop.failure("a") == ("NoHandler", "No handler registration for event task 'shop.Pay'")
    assert shop.task("b").state == TaskState.PENDING


@pytest.mark.parametrize(
    ("uri", "entrypoint", "said"),
    [
        ("no.such.module", "handle", "there is no module no"),
        ("file:///no/such/file.py", "handle", "there is no file /no/such/file.py"),
        ("{module}", "missing", "has no 'missing'"),
        ("{module}", "not_callable", "not callable"),
    ],
)
def test_a_handler_that_cannot_be_loaded_fails_the_step(
    shop: Workshop, module: Path, uri: str, entrypoint: str, said: str
) -> None:
    runner = runner_of(shop)
    runner.register_handler("shop.Pay", uri.format(module=module.as_uri()), entrypoint=entrypoint)
    shop.start("Buy", order="17")

    runner.poll_once()

    error = shop.task().error
    assert error is not None
    assert str(error["message"]).startswith("Failed to load handler for 'shop.Pay': ")
    assert said in str(error["message"])
    assert shop.status() == "ERROR"


def test_a_handler_that_raises_fails_its_step(shop: Workshop, module: Path) -> None:
    runner = runner_of(shop)
    runner.register_handler("shop.Pay", module.as_uri(), entrypoint="broken")
    shop.start("Buy", order="17")

    runner.poll_once()

    assert shop.failure() == ("OSError", "no paper")


def test_handlers_come_and_go_while_it_runs(shop: Workshop, module: Path) -> None:
    def handlers_seen() -> list[str]:
        server = shop.store.get_server(runner.server_id)
        assert server is not None
        return server.handlers + server.topics

    runner = runner_of(shop, registry_refresh_interval_ms=0, heartbeat_interval_ms=20)
    with started(shop, runner):
        shop.start("Buy", "a", order="17")
        shop.store.save_handler_registration(HandlerRegistration("shop.Pay", module.as_uri()))
        eventually(lambda: shop.status("a") == "COMPLETED")
        shop.store.save_handler_registration(HandlerRegistration("shop.Pay", module.as_uri(), entrypoint="other"))
        shop.start("Buy", "b", order="17")
        eventually(lambda: shop.status("b") == "COMPLETED")
        eventually(lambda: handlers_seen() == ["shop.Pay", "shop.Pay"])
        shop.store.delete_handler_registration("shop.Pay")
        eventually(lambda: handlers_seen() == [])
        shop.start("Buy", "c", order="17")

    assert shop.outputs("b") == {"receipt": "other"}
    assert shop.task("c").state == TaskState.PENDING


def test_the_registered_time_holds(shop: Workshop, tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text("import threading\n\ndef handle(payload):\n    threading.Event().wait(30)\n")
    runner = runner_of(shop)
    runner.register_handler("shop.Pay", str(slow), timeout_ms=30)
    with started(shop, runner):
        shop.start("Buy", order="17")
        eventually(lambda: shop.status() == "ERROR")

    assert shop.failure() == ("Timeout", "the handler did not end within 0.03 s")


def test_a_dotted_module_is_loaded_by_name_and_anew_by_checksum(
    shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / "sdk_dotted"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "pays.py").write_text("def handle(payload):\n    return {'receipt': 'one'}\n")
    runner = runner_of(shop)
    runner.register_handler("shop.Pay", "sdk_dotted.pays")
    assert receipt(shop, runner, "a") == "one"
    (package / "pays.py").write_text("def handle(payload):\n    return {'receipt': 'two'}\n")

    runner.register_handler("shop.Pay", "sdk_dotted.pays", checksum="2")
    assert receipt(shop, runner, "b") == "two"
    runner.register_handler("shop.Pay", "sdk_dotted.pays")
    assert receipt(shop, runner, "c") == "one"
    for name in ("sdk_dotted", "sdk_dotted.pays"):
        del sys.modules[name]


def test_a_handler_of_the_process_is_found_by_its_full_name_before_a_registered_short_one(
    shop: Workshop, module: Path
) -> None:
    runner = runner_of(shop)
    runner.register_handler("Pay", module.as_uri())
    runner.register("shop.Pay", lambda payload: {"receipt": "the process's own"})
    assert receipt(shop, runner, "a") == "the process's own"

    runner.register_handler("shop.Pay", module.as_uri())
    assert receipt(shop, runner, "b") == "shop.Pay None"


def test_without_a_time_limit_a_handler_takes_as_long_as_it_takes(shop: Workshop, module: Path) -> None:
    module.write_text(
        "import threading\ndef handle(payload):\n    threading.Event().wait(0.2)\n    return {'parcel': 'p'}\n"
    )
    runner = runner_of(shop)
    runner.register("shop.Pay", lambda payload: {"receipt": "0"}, timeout_ms=0)
    runner.register_handler("Ship", module.as_uri(), timeout_ms=0)
    shop.start("Chain", order="17")
    with started(shop, runner):
        eventually(lambda: shop.status() == "COMPLETED")
