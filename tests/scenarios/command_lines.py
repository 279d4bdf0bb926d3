"""The `afl-stream` command as tests call it: in this process, or as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from afl_stream.cli import main
from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.transport import TopicPartition

ROOT = Path(__file__).parents[2]

#: Two pings side by side and a note; the outputs are in the order of the hosts.
PROGRAM = """namespace net {
    event facet Ping(host: String, tries: Int = 1) => (ms: Long)
    event facet Note(text: String) => (ok: Boolean)
    facet Scan(hosts: [String]) => (times: [Long] = []) andThen foreach h in $.hosts {
        p = Ping(host = $.h)
        yield Scan(times = [p.ms])
    }
    workflow Watch(
        hosts: [String], label: String = "none", factor: Double = 1.0
    ) => (times: [Long], label: String) andThen {
        s = Scan(hosts = $.hosts)
        n = Note(text = $.label)
        yield Watch(times = s.times, label = $.label)
    }
}
"""
#: A ping takes as many milliseconds as the host's name has letters.
HANDLERS = """
def register_handlers(runner):
    runner.register("net.Ping", lambda payload: {"ms": len(payload["host"])})
    runner.register("net.Note", lambda payload: {"ok": True})
"""


@dataclass(frozen=True, kw_only=True)
class Called:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class CommandLine:
    """Calls commands on one data directory. `program` and `handlers` are files beside it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.data_dir = folder / "data"
        self.program = self.file("watch.afl", PROGRAM)
        self.handlers = self.file("handlers_of_watch.py", HANDLERS)

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def __call__(self, *words: str, data_dir: bool = True) -> Called:
        """Call it in this process."""
        self._capsys.readouterr()
        code = main([*words, *(["--data-dir", str(self.data_dir)] if data_dir else [])])
        captured = self._capsys.readouterr()
        return Called(code=code, out=captured.out, err=captured.err)

    def deployed(self) -> CommandLine:
        """With the topics made and the program published."""
        assert self("topics", "apply", self.program).code == 0
        assert self("deploy", self.program).code == 0
        return self

    def waiting(self) -> CommandLine:
        """With a run w1 that waits for one answer, to its net.Note."""
        assert self("dev", self.program, "--input", "hosts=[]", "--id", "w1").code == 1
        return self

    def steps(self, workflow_id: str, facet: str) -> list[str]:
        """Ids of a run's steps that call this facet."""
        run = self("status", workflow_id, "--json").document
        return [step["step_id"] for step in run["steps"] if step["facet"] == facet]

    def records(self) -> int:
        """How many records the topics of commands and answers have had."""
        transport = EmbeddedTransport(self.data_dir / "log.sqlite3")
        reader = transport.consumer(None)
        try:
            topics = transport.admin().topics()
            return sum(
                reader.watermarks(TopicPartition(topic, partition)).high
                for topic, found in topics.items()
                if topic.endswith((".commands", ".control"))
                for partition in range(found.partitions)
            )
        finally:
            transport.close()

    def process(self, *words: str) -> subprocess.Popen[str]:
        """Start it as a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "afl_stream", *words, "--data-dir", str(self.data_dir)],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> Called:
        """Run it as a process of its own."""
        process = self.process(*words)
        out, err = process.communicate(timeout=60)
        return Called(code=process.returncode, out=out, err=err)
