"""`make demo-kafka`: the licence audit with every party a process of its own, on a real broker."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from examples.licence_audit import plain
from examples.licence_audit.presentation import size_text
from tests.eventually import eventually
from tests.worlds.processes import DEADLINE_S, ROOT


class Demo:
    """The demo as a process, in a folder of its own."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.folder = folder
        self._said = folder / "said.txt"
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "examples.licence_audit.on_kafka"],
                cwd=folder,
                # A table as wide as its longest licence, so that none is broken into lines.
                env={
                    **os.environ,
                    "AFL_KAFKA_BOOTSTRAP": bootstrap,
                    "PYTHONPATH": str(ROOT),
                    "PYTHONUNBUFFERED": "1",
                    "COLUMNS": "200",
                },
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._said.read_text()

    def has_said(self, text: str) -> bool:
        assert self.process.poll() is None or text in self.said, self.said
        return text in self.said


@pytest.fixture
def demo(tmp_path: Path, kafka_bootstrap: str) -> Iterator[Demo]:
    started = Demo(tmp_path, kafka_bootstrap)
    yield started
    if started.process.poll() is None:
        started.process.terminate()
        started.process.wait(DEADLINE_S)


def _topics_of_demos(bootstrap: str) -> list[str]:
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    return [name for name in client.list_topics(timeout=30).topics if name.startswith("demo-")]


@pytest.mark.timeout(300)
def test_the_demo_comes_to_the_embedded_result_in_four_processes_that_all_end_with_0(
    demo: Demo, kafka_bootstrap: str
) -> None:
    code = demo.process.wait(240)

    assert code == 0, demo.said
    expected = plain.licence_audit()
    assert all(total["licence"] in demo.said for total in expected["totals"])
    assert size_text(expected["bytes"]) in demo.said
    assert f"{len(expected['reports']) + 2} events answered" in demo.said
    assert "All 4 processes ended with 0" in demo.said
    assert "The result equals the embedded run's." in demo.said
    assert _topics_of_demos(kafka_bootstrap) == []


@pytest.mark.timeout(200)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_told_to_end_leaves_no_process_behind(demo: Demo, number: signal.Signals) -> None:
    eventually(lambda: demo.has_said("Started audit"), DEADLINE_S)
    pids = [word.strip("(),") for word in demo.said.partition("Started audit")[2].splitlines()[0].split()]
    running = [int(pid) for pid in pids if pid.isdigit()]
    assert len(running) == 4

    demo.process.send_signal(number)

    assert demo.process.wait(120) == 130, demo.said
    assert "every process has ended" in demo.said
    assert [pid for pid in running if Path(f"/proc/{pid}").exists()] == []
