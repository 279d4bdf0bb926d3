"""What stays of a purged run with sensitive inputs: it is known again, and nothing of them can be guessed from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from afl.engine.model.store import COMPLETED
from afl.engine.model.tombstones import digest_of_inputs
from afl_stream.sensitive.key_files import KeyFolder
from afl_stream.settings.config import StoreSettings
from afl_stream.settings.sensitive import KeySettings, SensitiveSettings
from afl_stream.wire.messages import StartWorkflow
from tests.worlds.deployment import Deployment
from tests.worlds.world import World
from tests.worlds.worlds import SQLITE

WORLDS = (SQLITE,)

PAY = """
namespace pay {
  /** @sensitive pin */
  workflow Pay(pin: Long, cents: Long) => (cents: Long) andThen { yield Pay(cents = $.cents) }
}
"""
PIN = 714_236


def with_finished_run(world: World, settings: SensitiveSettings, keys: KeySettings) -> Deployment:
    deployment = world.deployment(PAY, sensitive=settings, keys=keys)
    store = StoreSettings(retention="60s", tombstone_retention="2h")
    deployment.config = replace(deployment.config, store=store)
    deployment.evaluator()
    deployment.client.start("pay.Pay", {"pin": PIN, "cents": 5}, workflow_id="w1")
    deployment.settle()
    assert deployment.workflow("w1").status == COMPLETED
    return deployment


def start_again(deployment: Deployment, pin: int, cents: int) -> dict[str, int]:
    before = deployment.outcomes()
    command = StartWorkflow(workflow="pay.Pay", workflow_id="w1", inputs={"pin": pin, "cents": cents})
    deployment.send(command, key=b"w1")
    deployment.settle()
    return dict(deployment.outcomes() - before)


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_tombstone_has_no_digest_of_sensitive_inputs(world: World, tmp_path: Path, is_encrypted: bool) -> None:
    KeyFolder(tmp_path / "keys").add_master("first")
    keys = KeySettings(path=str(tmp_path / "keys")) if is_encrypted else KeySettings()
    deployment = with_finished_run(world, SensitiveSettings(encrypt=is_encrypted), keys)
    for _ in range(2):
        deployment.clock.advance(61_000)
        deployment.settle()

    stone = deployment.store.tombstone("w1")
    assert stone is not None
    assert stone.inputs_digest == digest_of_inputs({"cents": 5})
    # It is still known for what it was, as far as that is known.
    assert start_again(deployment, PIN, 5) == {"duplicate": 1}
    assert start_again(deployment, PIN, 6) == {"rejected": 1}


def test_another_start_of_a_run_is_refused_without_telling_its_sensitive_inputs(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = with_finished_run(world, SensitiveSettings(), KeySettings())

    assert start_again(deployment, PIN + 1, 6) == {"rejected": 1}

    (letter,) = deployment.dead_letters(deployment.topology.commands())
    told = repr(letter.headers) + caplog.text
    assert "input cents is 5, not 6" in told
    assert "input pin is" in told
    assert str(PIN) not in told
    assert str(PIN + 1) not in told
