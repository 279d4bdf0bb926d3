"""`make kafka-up` and `make kafka-down`: a broker that stays for a person's trials, and is gone when told."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.processes import ROOT


def _run(*words: str) -> tuple[int, str]:
    run = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "AFL_KAFKA_CONNECT_TIMEOUT_S": "2"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return run.returncode, run.stdout


@pytest.mark.timeout(240)
@pytest.mark.kafka
@pytest.mark.long
def test_a_broker_stays_between_up_and_down_and_says_its_address(tmp_path: Path) -> None:
    where = ("--dir", str(tmp_path / "kafka"))
    try:
        code, said = _run("-m", "tools.kafka", "up", *where)
        assert code == 0, said
        address = re.findall(r"Kafka is at (\S+:\d+)", said)[0]
        plan = ("-m", "afl_stream", "topics", "plan", "--bootstrap", address, "--data-dir", str(tmp_path))

        answered, _ = _run(*plan)
    finally:
        ended, reported = _run("-m", "tools.kafka", "down", *where)
    gone, refusal = _run(*plan)

    assert (answered, ended, gone) == (0, 0, 3), reported
    assert address in refusal
