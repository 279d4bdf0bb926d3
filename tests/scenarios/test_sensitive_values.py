"""Sensitive values on every broker and store: encrypted wherever they rest, plain for handlers, and erased for good."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from pymongo import MongoClient

from afl.core.process.crashes import Crash
from afl.engine.model.store import COMPLETED, ERROR
from afl_stream.agent.agent import HandlerContext
from afl_stream.embedded.transport import Faults
from afl_stream.errors import AlreadyExists
from afl_stream.evaluator.sensitive.redacted_store import redacted
from afl_stream.evaluator.sensitive.sealed_store import sealed
from afl_stream.evaluator.service import EvaluatorService
from afl_stream.sensitive.deployment import deployment_sealer
from afl_stream.sensitive.envelope import is_sealed
from afl_stream.sensitive.key_files import KeyFolder
from afl_stream.sensitive.keys import KeysMissing, KeyUnavailable
from afl_stream.sensitive.marks import RETURNS_HEADER, SENSITIVE_HEADER
from afl_stream.settings.sensitive import KeySettings, SensitiveSettings
from afl_stream.tracing import Tracer
from afl_stream.wire.dead_letters import DlqHeader, dlq_header
from afl_stream.wire.messages import StepContinue
from tests.record_headers import headers_of
from tests.worlds.deployment import Deployment
from tests.worlds.parties import Evaluator, Handler
from tests.worlds.run_traces import RunTraces
from tests.worlds.world import World
from tests.worlds.worlds import EVERY_STORE_AND_KAFKA, MONGO, SQLITE, in_worlds

WORLDS = EVERY_STORE_AND_KAFKA

#: Occurs in every secret of these runs, and nowhere else.
SECRET: Final = "c4nary"
PIN: Final = 8_714_236_590_114

SHOP: Final = """
namespace shop {
  /** @sensitive number */
  schema Card { number: String, owner: String }
  /** @sensitive receipt */
  event facet Charge(card: String, cents: Long) => (receipt: String, cents: Long)
  event facet Check(pin: Long, cards: [Card]) => (ok: Boolean)
  event facet Note(text: String) => (length: Long)
  /**
   * @sensitive card the number
   * @sensitive pin
   */
  workflow Checkout(card: String, pin: Long, cents: Long, others: [String]) => (receipt: String, paid: Long) andThen {
    known = Card(number = $.card, owner = "kim")
    k = Check(pin = $.pin, cards = [#{"number": known.number, "owner": known.owner}])
    c = Charge(card = "no. " ++ $.card, cents = $.cents)
    sys.log(about = c.receipt)
    yield Checkout(receipt = c.receipt, paid = c.cents)
  }
  /** @sensitive cards */
  workflow All(cards: [String]) => (lengths: [Long]) andThen foreach card in $.cards {
    n = Note(text = $.card)
    yield All(lengths = [n.length])
  }
}
"""
INPUTS: Final = {"card": f"{SECRET}-4111", "pin": PIN, "cents": 5, "others": ["x"]}


class Till:
    """The handlers, and the payloads that they got."""

    def __init__(self) -> None:
        self.payloads: list[dict[str, Any]] = []

    def __call__(self) -> dict[str, Handler]:
        return {"shop.Charge": self.charge, "shop.Check": self.check, "shop.Note": self.note}

    def charge(self, payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        self.payloads.append(payload)
        return {"receipt": f"paid with {payload['card']}", "cents": payload["cents"]}

    def check(self, payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        self.payloads.append(payload)
        return {"ok": payload["pin"] == PIN}

    def note(self, payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        self.payloads.append(payload)
        return {"length": len(payload["text"])}


def encrypting(world: World, folder: Path, tracer: Tracer | None = None) -> Deployment:
    """Return a deployment with keys, without parties."""
    KeyFolder(folder / "keys").add_master("first")
    return world.deployment(
        SHOP, tracer=tracer, sensitive=SensitiveSettings(encrypt=True), keys=KeySettings(path=str(folder / "keys"))
    )


def keys_of(deployment: Deployment) -> KeyFolder:
    assert deployment.config.keys.path is not None
    return KeyFolder(Path(deployment.config.keys.path))


def all_topics(deployment: Deployment) -> Iterator[bytes]:
    """Everything that the topics hold: values and headers."""
    topology = deployment.topology
    facets = ("shop.Charge", "shop.Check", "shop.Note")
    topics = [topology.control(), topology.commands(), topology.external(), topology.lifecycle()]
    topics += [topology.facet(facet) for facet in facets]
    letters = [topology.dlq(topic) for topic in topics if topic != topology.lifecycle()]
    for topic in [*topics, *letters]:
        for record in deployment.records(topic):
            yield record.value or b""
            yield repr(record.headers).encode()


def all_rows(deployment: Deployment) -> Iterator[bytes]:
    """Everything that the store holds: the bytes of its file, its documents, or its rows."""
    if deployment.config.store.url is not None:
        with MongoClient[dict[str, object]](deployment.config.store.url) as client:
            database = client.get_default_database()
            for name in database.list_collection_names():
                yield from (repr(document).encode() for document in database[name].find())
    elif deployment.config.store_path.exists():
        for path in deployment.config.store_path.parent.glob(f"{deployment.config.store_path.name}*"):
            yield path.read_bytes()
    for row in deployment.store.list_workflows():
        yield repr(row).encode()
        yield repr(deployment.store.load_steps(row.id)).encode()
        yield repr(deployment.store.history(row.id)).encode()


def assert_nowhere(deployment: Deployment) -> None:
    """Check that no secret rests anywhere."""
    for content in (*all_topics(deployment), *all_rows(deployment)):
        assert SECRET.encode() not in content
        assert str(PIN).encode() not in content


@contextmanager
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Check that no secret is logged inside, at any level."""
    with caplog.at_level("DEBUG"):
        yield
    assert SECRET not in caplog.text


def letters(deployment: Deployment, topic: str) -> list[str | None]:
    return [dlq_header(record.headers, DlqHeader.REASON) for record in deployment.dead_letters(topic)]


def plain_row(deployment: Deployment, workflow_id: str) -> Any:
    """Return the row as the evaluator has it."""
    config = deployment.config
    return sealed(deployment.store, deployment_sealer(config), config.sensitive.patterns).load_workflow(workflow_id)


def test_secrets_rest_nowhere_and_handlers_get_them(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deployment, till = encrypting(world, tmp_path), Till()
    deployment.evaluator()
    deployment.worker(till())

    with logged(caplog):
        deployment.client.start("shop.Checkout", INPUTS, workflow_id="w1")
        deployment.settle()

    assert deployment.workflow("w1").status == COMPLETED
    card = {"number": f"{SECRET}-4111", "owner": "kim"}
    by_facet = {payload.pop("_facet_name"): payload for payload in till.payloads}
    assert by_facet["shop.Charge"] == {"card": f"no. {SECRET}-4111", "cents": 5}
    assert by_facet["shop.Check"] == {"pin": PIN, "cards": [card]}
    assert plain_row(deployment, "w1").outputs == {"receipt": f"paid with no. {SECRET}-4111", "paid": 5}
    # What is not sensitive is as it always was.
    assert deployment.workflow("w1").inputs["cents"] == 5
    assert is_sealed(deployment.workflow("w1").inputs["pin"])
    assert_nowhere(deployment)


@in_worlds((SQLITE,))
def test_secrets_rest_nowhere_where_an_agent_traces(world: World, tmp_path: Path) -> None:
    traces = RunTraces()
    deployment, till = encrypting(world, tmp_path, traces.tracer), Till()

    def charge(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        context.update({"receipt": f"soon paid with {payload['card']}"})
        return till.charge(payload, context)

    deployment.evaluator()
    deployment.worker({**till(), "shop.Charge": charge})
    deployment.client.start("shop.Checkout", INPUTS, workflow_id="w1")
    deployment.settle()

    assert plain_row(deployment, "w1").outputs == {"receipt": f"paid with no. {SECRET}-4111", "paid": 5}
    assert traces.named(f"send {deployment.topology.control()}")
    assert_nowhere(deployment)


def test_elements_of_a_sensitive_list_are_sensitive(world: World, tmp_path: Path) -> None:
    deployment, till = encrypting(world, tmp_path), Till()
    deployment.evaluator()
    deployment.worker(till())

    deployment.client.start("shop.All", {"cards": [f"{SECRET}-1", f"{SECRET}-22"]}, workflow_id="w1")
    deployment.settle()

    assert deployment.workflow("w1").outputs == {"lengths": [8, 9]}
    assert sorted(payload["text"] for payload in till.payloads) == [f"{SECRET}-1", f"{SECRET}-22"]
    assert_nowhere(deployment)


def test_a_run_continues_from_the_store_with_its_plain_values(world: World, tmp_path: Path) -> None:
    deployment, till = encrypting(world, tmp_path), Till()
    deployment.remove(deployment.evaluator(), killed=False)
    first = deployment.evaluator()
    deployment.client.start("shop.Checkout", INPUTS, workflow_id="w1")
    deployment.settle()
    # Another process has nothing of it in memory.
    deployment.remove(first, killed=False)
    deployment.evaluator()
    deployment.worker(till())

    deployment.settle()

    assert plain_row(deployment, "w1").outputs == {"receipt": f"paid with no. {SECRET}-4111", "paid": 5}
    assert_nowhere(deployment)


def test_records_name_what_is_sensitive(world: World, tmp_path: Path) -> None:
    deployment, till = encrypting(world, tmp_path), Till()
    deployment.evaluator()
    deployment.worker(till())
    deployment.client.start("shop.Checkout", INPUTS, workflow_id="w1")
    deployment.settle()

    (event,) = deployment.records(deployment.topology.facet("shop.Charge"))
    headers = headers_of(event)
    assert (headers[SENSITIVE_HEADER], headers[RETURNS_HEADER]) == (b"card", b"receipt")
    (start,) = deployment.records(deployment.topology.commands())
    assert headers_of(start)[SENSITIVE_HEADER] == b"card,pin"
    marked = [headers_of(record).get(SENSITIVE_HEADER) for record in deployment.records(deployment.topology.control())]
    assert sorted(marked, key=str) == [None, b"receipt"] or sorted(marked, key=str) == [b"receipt", None]


def test_the_same_start_again_is_the_same_run(world: World, tmp_path: Path) -> None:
    deployment = encrypting(world, tmp_path)
    deployment.evaluator()
    deployment.client.start("shop.Checkout", INPUTS, workflow_id="w1")
    deployment.settle()

    deployment.client.start("shop.Checkout", INPUTS, workflow_id="w1")
    deployment.client.start("shop.Checkout", {**INPUTS, "pin": 1}, workflow_id="w1")
    deployment.settle()

    assert deployment.outcomes()["duplicate"] == 1
    assert letters(deployment, deployment.topology.commands()) == [AlreadyExists.__name__]


def test_a_moved_ciphertext_is_a_dead_letter(world: World, tmp_path: Path) -> None:
    deployment = encrypting(world, tmp_path)
    deployment.evaluator()
    for name in ("w1", "w2"):
        deployment.client.start("shop.Checkout", INPUTS, workflow_id=name)
    deployment.settle()
    step, other = deployment.step("w1", "shop.Charge"), deployment.step("w1", "shop.Check")
    of_another_run = deployment.step("w2", "shop.Charge").params["card"]
    step_id = step.id

    # A parameter, a value of another step, and one of another run: none of them is this step's return.
    for value in (step.params["card"], other.params["pin"], of_another_run):
        deployment.send(StepContinue(step_id=step_id, result={"receipt": value, "cents": 1}))
    deployment.settle()

    assert letters(deployment, deployment.topology.control()) == ["bad_seal"] * 3
    assert deployment.step("w1", "shop.Charge").returns == {}


def turn_often(evaluator: Evaluator) -> None:
    for _ in range(100):
        evaluator.turn()


def test_without_the_key_answers_wait_and_nothing_is_lost(world: World, tmp_path: Path) -> None:
    deployment, till = encrypting(world, tmp_path), Till()
    deployment.evaluator()
    deployment.client.start("shop.Checkout", INPUTS, workflow_id="w1")
    deployment.settle()
    worker = deployment.worker({"shop.Charge": till.charge})
    worker.turn()
    while not deployment.records(deployment.topology.control()):
        worker.turn()
    deployment.remove(worker, killed=False)
    # The folder of the data keys is away, as a file system that is not mounted.
    data, away = tmp_path / "keys" / "data", tmp_path / "away"
    data.rename(away)

    evaluator = deployment.evaluators[0]
    with pytest.raises(KeyUnavailable, match="key of workflow w1 cannot be used: none is there"):
        turn_often(evaluator)
    assert letters(deployment, deployment.topology.control()) == []

    if data.exists():  # A new run may have made a folder.
        raise AssertionError("a key was made while the keys were away")
    away.rename(data)
    deployment.settle()

    assert is_sealed(deployment.step("w1", "shop.Charge").returns["receipt"])
    assert deployment.step("w1", "shop.Charge").returns["cents"] == 5


def test_an_evaluator_without_keys_does_not_start_on_such_a_store(world: World, tmp_path: Path) -> None:
    deployment = encrypting(world, tmp_path)
    deployment.evaluator()
    deployment.client.start("shop.Checkout", INPUTS, workflow_id="w1")
    deployment.settle()

    config = replace(deployment.config, sensitive=SensitiveSettings(), keys=KeySettings())
    with pytest.raises(KeysMissing, match="holds encrypted values, and no keys are set"):
        EvaluatorService(config, deployment.transport, deployment.open_store(Faults()))


def test_a_rotated_master_key_reads_what_was_there(world: World, tmp_path: Path) -> None:
    deployment, till = encrypting(world, tmp_path), Till()
    first = deployment.evaluator()
    deployment.client.start("shop.Checkout", INPUTS, workflow_id="w1")
    deployment.settle()
    keys = keys_of(deployment)

    keys.add_master("second")
    deployment.client.start("shop.Checkout", INPUTS, workflow_id="w2")
    deployment.settle()
    assert keys.counted().by_master == {"second": 1, "first": 1}
    assert keys.rewrap() == 1
    # The earlier one goes.
    master = tmp_path / "keys" / "master.keys"
    master.write_text(master.read_text().splitlines()[0])
    deployment.remove(first, killed=False)
    deployment.evaluator()
    deployment.worker(till())
    deployment.settle()

    assert [deployment.workflow(name).status for name in ("w1", "w2")] == [COMPLETED] * 2
    assert plain_row(deployment, "w1").inputs["card"] == f"{SECRET}-4111"


def test_erased_data_of_a_finished_run_read_as_erased(world: World, tmp_path: Path) -> None:
    deployment, till = encrypting(world, tmp_path), Till()
    deployment.evaluator()
    deployment.worker(till())
    for name in ("w1", "w2"):
        deployment.client.start("shop.Checkout", INPUTS, workflow_id=name)
    deployment.settle()

    keys_of(deployment).drop("w1", deployment.clock.now_ms())

    shown = redacted(deployment.store, deployment.config.sensitive.patterns).load_workflow("w1")
    assert shown is not None
    assert shown.inputs == {"card": "[encrypted]", "pin": "[encrypted]", "cents": 5, "others": ["x"]}
    assert plain_row(deployment, "w1").inputs["card"] == "afl-sealed:erased"
    assert plain_row(deployment, "w2").inputs["card"] == f"{SECRET}-4111"


def test_a_running_run_whose_data_are_erased_fails_and_says_so(world: World, tmp_path: Path) -> None:
    deployment, till = encrypting(world, tmp_path), Till()
    deployment.evaluator()
    deployment.client.start("shop.Checkout", INPUTS, workflow_id="w1")
    deployment.settle()

    keys_of(deployment).drop("w1", deployment.clock.now_ms())
    deployment.worker(till())
    deployment.settle()

    row = deployment.workflow("w1")
    assert row.status == ERROR
    assert row.error is not None
    assert "the data of workflow w1 were erased" in row.error.message
    assert till.payloads == []
    assert letters(deployment, deployment.topology.facet("shop.Charge")) == ["erased"]
    assert_nowhere(deployment)


def test_a_run_of_erased_data_that_is_reset_fails_where_it_needs_them(world: World, tmp_path: Path) -> None:
    deployment, till = encrypting(world, tmp_path), Till()
    deployment.evaluator()
    deployment.worker(till())
    deployment.client.start("shop.Checkout", INPUTS, workflow_id="w1")
    deployment.settle()
    till.payloads.clear()
    keys_of(deployment).drop("w1", deployment.clock.now_ms())

    deployment.client.reset("w1")
    deployment.settle()

    row = deployment.workflow("w1")
    assert row.status == ERROR
    assert row.error is not None
    assert "erased" in row.error.message
    assert till.payloads == []


@in_worlds((SQLITE,))
def test_an_exception_tells_no_secret_that_the_handler_was_given(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deployment, till = encrypting(world, tmp_path), Till()
    deployment.evaluator()

    def declined(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        # Longer than what is kept: half of a secret at the cut would be one as well.
        raise ValueError(f"cannot charge {payload['card']!r}" + payload["card"] * 10_000)

    deployment.worker({**till(), "shop.Charge": declined})

    with logged(caplog):
        deployment.client.start("shop.Checkout", INPUTS, workflow_id="w1")
        deployment.settle()

    row = deployment.workflow("w1")
    assert row.status == ERROR
    assert row.error is not None
    assert row.error.message.startswith("cannot charge '[sensitive]'[sensitive]")
    assert_nowhere(deployment)


@in_worlds((SQLITE, MONGO))
@pytest.mark.parametrize("point", ["store.written", "store.committed", "control.persisted", "control.applied"])
def test_a_crash_around_the_commit_leaves_no_secret_and_loses_nothing(world: World, tmp_path: Path, point: str) -> None:
    deployment, till = encrypting(world, tmp_path), Till()
    faults = Faults()
    evaluator = deployment.evaluator(faults)
    deployment.client.start("shop.Checkout", INPUTS, workflow_id="w1")
    faults.fail_at(point)
    crashed = False
    for _ in range(50):
        try:
            evaluator.turn()
        except Crash:
            crashed = True
            break
    assert crashed
    deployment.crash_and_restart()
    assert_nowhere(deployment)
    deployment.evaluator()
    deployment.worker(till())
    deployment.settle()

    assert plain_row(deployment, "w1").outputs == {"receipt": f"paid with no. {SECRET}-4111", "paid": 5}
    assert_nowhere(deployment)


def test_a_facet_may_have_plain_events(world: World, tmp_path: Path) -> None:
    KeyFolder(tmp_path / "keys").add_master()
    deployment = world.deployment(
        SHOP,
        sensitive=SensitiveSettings(encrypt=True, plain_topics="shop.Check"),
        keys=KeySettings(path=str(tmp_path / "keys")),
    )
    deployment.evaluator()
    deployment.client.start("shop.Checkout", INPUTS, workflow_id="w1")
    deployment.settle()

    (check,) = deployment.events("shop.Check")
    assert check.payload["pin"] == PIN
    (charge,) = deployment.events("shop.Charge")
    assert is_sealed(charge.payload["card"])
    # In the store there is no exception.
    for content in all_rows(deployment):
        assert json.dumps(f"{SECRET}-4111").encode() not in content


def test_without_encryption_records_and_rows_are_as_they_always_were(world: World) -> None:
    deployment, till = world.deployment(SHOP), Till()
    deployment.evaluator()
    deployment.worker(till())
    deployment.client.start("shop.Checkout", INPUTS, workflow_id="w1")
    deployment.settle()

    assert deployment.workflow("w1").inputs == INPUTS
    (check,) = deployment.events("shop.Check")
    assert check.payload["pin"] == PIN
    # But they are marked, and people see none of it.
    (event,) = deployment.records(deployment.topology.facet("shop.Charge"))
    assert headers_of(event)[SENSITIVE_HEADER] == b"card"
    store = redacted(deployment.store, deployment.config.sensitive.patterns)
    assert_hidden([repr(store.load_workflow("w1")), repr(store.load_steps("w1"))])


def assert_hidden(texts: Iterable[str]) -> None:
    for text in texts:
        assert SECRET not in text
        assert str(PIN) not in text
        assert "[sensitive]" in text
