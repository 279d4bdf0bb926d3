"""`afl-stream pubsub invoke --remote` beside a worker in another process, on the embedded log that it serves."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.command_lines import CommandLine
from tests.scenarios.test_cli_pubsub import Shop


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    return Shop(CommandLine(tmp_path, capsys))


@pytest.fixture
def worker(shop: Shop) -> Iterator[subprocess.Popen[str]]:
    assert shop("topics", "--apply").code == 0
    with shop.cli.process("pubsub", "run", shop.workflow) as process:
        assert process.stderr is not None
        assert "worker of review" in process.stderr.readline()
        yield process
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def test_a_worker_on_the_embedded_log_answers_other_processes(shop: Shop, worker: subprocess.Popen[str]) -> None:
    small = shop("invoke", '{"order": 3}', "--remote", "--timeout", "60")
    large = shop("invoke", '{"order": 30}', "--request", "r1", "--remote", "--timeout", "60")
    answered = shop("invoke", "true", "--request", "r1", "--remote", "--timeout", "60")

    assert (small.code, small.out) == (0, 'decisions: {"approved": true, "by": "rule"}\n')
    assert "to review, to its workers" in small.err
    assert (large.code, large.out) == (1, 'ask: "is 30 too much?"\n')
    assert "--request r1 --topic said --remote" in large.err
    assert (answered.code, answered.out) == (0, 'decisions: {"approved": true, "by": "person"}\n')
    assert worker.poll() is None


def test_without_a_worker_beside_it_the_command_says_how_one_is_run(shop: Shop) -> None:
    called = shop("invoke", "1", "--remote")

    assert called.code == 2
    assert "--remote asks workers, and no process serves the embedded log" in called.err
    assert f"afl-stream pubsub run {shop.workflow}" in called.err
    assert "--bootstrap" in called.err
