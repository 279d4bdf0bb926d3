"""Processes that one process starts, watches, starts again when they die, and ends together."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TextIO

from afl.core.backoff import Backoff
from afl.core.clock import MonotonicClock, monotonic_s
from afl.core.process.stopping import Stop

#: How soon a death, or the wish to stop, is noticed.
_LOOK_S: Final = 0.1
#: Waits before a child that has died is started again.
_BACKOFF: Final = Backoff(first_s=1.0, longest_s=30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A process to be started: `words` is its command line at first, `again` after a death."""

    name: str
    words: Sequence[str]
    again: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """The end of a child that was not the end of its work: which process it was, and how it ended, in words."""

    #: Which of the children, from 1.
    number: int
    pid: int
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRule:
    """When a child that has died is started again.

    After a `backoff`, unless it has died more than `most_deaths` times within `within_s`, has ended with one of
    `final_codes`, which another start would not change, or has ended by itself before it was `settled_s` old without
    ever having been older: what it needs is not there.
    """

    backoff: Backoff = field(default=_BACKOFF)
    most_deaths: int = 5
    within_s: float = 120.0
    settled_s: float = 10.0
    final_codes: frozenset[int] = frozenset({2})
    #: Whether an end with 0 is the end of its work; else it is started again, too.
    ends_by_itself: bool = False


class _Running:
    """One child: its process now, and its past."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.process: subprocess.Popen[str] | None = None
        self.code: int | None = None
        self.started_s = 0.0
        self.restart_at_s: float | None = None
        self.deaths: deque[float] = deque()
        self.has_settled = False
        self.written: list[str] = []
        self.reader: threading.Thread | None = None

    def start(self, words: Sequence[str], environment: Mapping[str, str] | None, now_s: float) -> None:
        """Start it. Its standard input ends when this process does, however that ends."""
        self.process = subprocess.Popen(
            list(words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=None if environment is None else dict(environment),
            # Ctrl-C is this process's alone, which then tells its children.
            start_new_session=True,
        )
        self.started_s, self.restart_at_s, self.code = now_s, None, None
        self.written.clear()
        self.reader = threading.Thread(target=self._read, args=(self.process,), name="afl-child-output", daemon=True)
        self.reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.written.append(line)

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.code is None

    def has_ended(self) -> bool:
        """Take in the end of the process; true once, when it is noticed."""
        if self.process is None or self.code is not None:
            return False
        code = self.process.poll()
        if code is None:
            return False
        if self.reader is not None:
            self.reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self.code = code
        return True

    def send(self, number: signal.Signals) -> None:
        if self.process is not None and self.code is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)


class Children:
    """Runs children until each has ended, one cannot go on, or this process is told to stop. One thread."""

    def __init__(
        self,
        children: Sequence[Child],
        rule: RestartRule,
        tell: Callable[[str], None],
        *,
        drain_s: float,
        environment: Mapping[str, str] | None = None,
        clock_s: MonotonicClock = monotonic_s,
        on_death: Callable[[Death], None] | None = None,
    ) -> None:
        """Take the children. `tell` says what happens to them, `drain_s` is how long they may take to end.

        `on_death` learns of each that ended with another code than 0, before one is started in its place. It must not
        wait.
        """
        self._children = [_Running(child) for child in children]
        self._rule = rule
        self._tell = tell
        self._drain_s = drain_s
        self._environment = environment
        self._clock_s = clock_s
        self._on_death = on_death

    def run(self, stop: Stop) -> int:
        """Run them; return 0, or the code with which the first one ended that could not go on."""
        gave_up = 0
        try:
            for running in self._children:
                self._start(running, running.child.words)
            while not stop.is_set() and not gave_up and any(map(self._is_under_way, self._children)):
                gave_up = next(filter(None, map(self._look, self._children)), 0)
                stop.wait(_LOOK_S)
        finally:
            worst = self._end()
        return gave_up or worst

    def written(self) -> list[str]:
        """Return what each child has written to its standard output since its last start."""
        return ["".join(running.written) for running in self._children]

    def remaining(self) -> str:
        """Describe the children that run. Takes no lock: a signal handler calls it."""
        return ", ".join(f"process {running.child.name}" for running in self._children if running.is_running)

    def _start(self, running: _Running, words: Sequence[str]) -> None:
        running.start(words, self._environment, self._clock_s())
        assert running.process is not None
        self._tell(f"process {running.child.name} is {running.process.pid}")

    def _is_under_way(self, running: _Running) -> bool:
        return running.is_running or running.restart_at_s is not None

    def _look(self, running: _Running) -> int:
        """Take in an end, or start again; return the code of an end after which all end, else 0."""
        now_s = self._clock_s()
        if running.restart_at_s is not None and now_s >= running.restart_at_s:
            self._start(running, running.child.again)
        if running.is_running and now_s - running.started_s >= self._rule.settled_s:
            running.has_settled = True
        if not self._has_ended(running):
            return 0
        assert running.code is not None
        if running.code == 0 and self._rule.ends_by_itself:
            return 0
        return self._died(running, running.code, now_s)

    def _has_ended(self, running: _Running) -> bool:
        """Take in an end, and report a death; true once, when it is noticed."""
        if not running.has_ended():
            return False
        if running.code and self._on_death is not None:
            assert running.process is not None
            number = self._children.index(running) + 1
            self._on_death(Death(number=number, pid=running.process.pid, how=_how(running.code)))
        return True

    def _died(self, running: _Running, code: int, now_s: float) -> int:
        rule, name, how = self._rule, running.child.name, _how(code)
        running.deaths.append(now_s)
        while running.deaths[0] <= now_s - rule.within_s:
            running.deaths.popleft()
        count = len(running.deaths)
        if code in rule.final_codes or (code > 0 and not running.has_settled):
            self._tell(f"process {name} {how} as soon as it had started; all end, because it would do so again")
            return code
        if count > rule.most_deaths:
            self._tell(f"process {name} {how}, {count} times in {rule.within_s:g} s; all end, because it goes on so")
            return code if code > 0 else 128 - code
        wait_s = rule.backoff.wait_s(count)
        running.restart_at_s = now_s + wait_s
        self._tell(f"process {name} {how}; it is started again in {wait_s:g} s")
        return 0

    def _end(self) -> int:
        """End those that run: ask, wait, kill. Return 0, or the code of one that did not end as it was asked to."""
        asked = [running for running in self._children if running.is_running and not self._has_ended(running)]
        for running in asked:
            running.send(signal.SIGTERM)
        deadline_s = self._clock_s() + self._drain_s
        while any(running.is_running for running in asked):
            ended = [running for running in asked if self._has_ended(running)]
            if not ended:
                if self._clock_s() >= deadline_s:
                    self._kill(asked)
                threading.Event().wait(_LOOK_S)
        return next((code if code > 0 else 128 - code for r in asked if (code := r.code or 0)), 0)

    def _kill(self, asked: Sequence[_Running]) -> None:
        for running in asked:
            if running.is_running:
                self._tell(f"process {running.child.name} has not ended in {self._drain_s:g} s, and is killed")
                running.send(signal.SIGKILL)


def _how(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"


def end_with_parent(input_stream: TextIO, tell: Callable[[str], None]) -> None:
    """Ask this process to end, as a signal would, when the process that has started it is gone, and say so.

    `input_stream` is the standard input, which only that process holds open.
    """
    descriptor = input_stream.fileno()

    def watch() -> None:
        with suppress(OSError):
            while os.read(descriptor, 1):
                pass
        # The terminal may be gone, too.
        with suppress(OSError):
            tell("the process that watches this one is gone")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="afl-parent", daemon=True).start()
