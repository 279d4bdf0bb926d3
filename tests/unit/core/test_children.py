"""Child processes: watched, started again when they die, given up when that does not help, and ended together."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from afl.core.backoff import Backoff
from afl.core.process.children import Child, Children, Death, RestartRule
from afl.core.process.stopping import StopFlag
from tests.eventually import eventually

#: Notes each start in a file, then does what it is told to.
_PROGRAM = """
import os, pathlib, signal, sys
note, *words = sys.argv[1:]
starts = pathlib.Path(note)
with starts.open("a") as file:
    file.write(" ".join(words) + "\\n")
count = len(starts.read_text().splitlines())
if words[0] == "die-at-first" and count == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if words[0] == "end":
    print("written", flush=True)
    sys.exit(int(words[1]))
if words[0] == "always-die":
    os.kill(os.getpid(), signal.SIGKILL)
if words[0] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
starts.with_suffix(".ready").touch()
while True:
    signal.pause()
"""

QUICK = Backoff(first_s=0.01, longest_s=0.02)


class Family:
    """Children that are run in a thread, what is told of them, and the code at the end."""

    def __init__(self, folder: Path, rule: RestartRule, *words: str, drain_s: float = 20.0) -> None:
        self.said: list[str] = []
        self.stop = StopFlag()
        self.notes = [folder / f"child-{number}" for number in range(len(words))]
        children = [
            Child(name=str(number), words=self._words(note, text), again=self._words(note, f"{text} again"))
            for number, (note, text) in enumerate(zip(self.notes, words, strict=True), 1)
        ]
        self.deaths: list[tuple[int, str]] = []
        self.pids: set[int] = set()
        self.children = Children(children, rule, self.said.append, drain_s=drain_s, on_death=self._died)
        self.code: int | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _words(self, note: Path, text: str) -> list[str]:
        return [sys.executable, "-S", "-c", _PROGRAM, str(note), *text.split()]

    def _died(self, death: Death) -> None:
        self.deaths.append((death.number, death.how))
        self.pids.add(death.pid)

    def _run(self) -> None:
        self.code = self.children.run(self.stop)

    def starts(self, number: int) -> list[str]:
        note = self.notes[number - 1]
        return note.read_text().splitlines() if note.exists() else []

    def are_ready(self) -> bool:
        return all(note.with_suffix(".ready").exists() for note in self.notes)

    def ended_with(self) -> int | None:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.code


def test_all_end_when_they_are_told_to(tmp_path: Path) -> None:
    family = Family(tmp_path, RestartRule(), "stay", "stay")
    eventually(family.are_ready)
    assert family.children.remaining() == "process 1, process 2"

    family.stop.set()

    # They are ended by the signal, for which this program has no drain.
    assert family.ended_with() == 128 + 15
    assert family.children.remaining() == ""


def test_one_that_dies_is_started_again_with_its_other_words_and_the_rest_are_left_alone(tmp_path: Path) -> None:
    family = Family(tmp_path, RestartRule(backoff=QUICK), "die-at-first", "stay")

    eventually(lambda: len(family.starts(1)) == 2 and family.are_ready())
    family.stop.set()
    family.ended_with()

    assert family.starts(1) == ["die-at-first", "die-at-first again"]
    assert family.starts(2) == ["stay"]
    assert any("process 1 was ended by SIGKILL; it is started again in 0.01 s" in said for said in family.said)


def test_a_death_is_reported_with_its_process_and_a_clean_end_is_none(tmp_path: Path) -> None:
    family = Family(tmp_path, RestartRule(backoff=QUICK, ends_by_itself=True), "end 0", "die-at-first")
    eventually(lambda: all(note.with_suffix(".ready").exists() for note in family.notes[1:]))
    started = {int(said.rpartition(" ")[2]) for said in family.said if said.startswith("process 2 is ")}

    assert family.deaths == [(2, "was ended by SIGKILL")]
    assert family.pids < started
    family.stop.set()
    family.ended_with()


def test_one_that_dies_again_and_again_is_given_up_and_all_end_with_its_code(tmp_path: Path) -> None:
    family = Family(tmp_path, RestartRule(backoff=QUICK, most_deaths=3), "always-die", "stay")

    assert family.ended_with() == 128 + 9
    assert len(family.starts(1)) == 4
    assert "process 1 was ended by SIGKILL, 4 times in 120 s; all end, because it goes on so" in family.said


@pytest.mark.parametrize("code", [2, 3])
def test_one_that_refuses_to_start_ends_all_with_its_code(code: int, tmp_path: Path) -> None:
    family = Family(tmp_path, RestartRule(backoff=QUICK), f"end {code}", "stay")

    assert family.ended_with() == code
    assert len(family.starts(1)) == 1
    assert (
        f"process 1 ended with {code} as soon as it had started; all end, because it would do so again" in family.said
    )


def test_children_that_end_by_themselves_end_the_whole_and_what_they_wrote_is_kept(tmp_path: Path) -> None:
    family = Family(tmp_path, RestartRule(ends_by_itself=True), "end 0", "end 0")

    assert family.ended_with() == 0
    assert family.children.written() == ["written\n", "written\n"]


def test_one_that_does_not_end_in_time_is_killed(tmp_path: Path) -> None:
    family = Family(tmp_path, RestartRule(), "stubborn", drain_s=0.3)
    eventually(family.are_ready)

    family.stop.set()

    assert family.ended_with() == 128 + 9
    assert "process 1 has not ended in 0.3 s, and is killed" in family.said
    assert family.deaths == [(1, "was ended by SIGKILL")]
