"""All combinations of a stress run, and their trials."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TextIO

from afl.stores.public.persistence import EngineStore
from tests.stress.pollers import InProcesses, InThreads, Pollers, processes
from tests.stress.programs import SHAPES, program
from tests.stress.stores import Stores
from tests.stress.trials import run_trial

MODES: Final = ("threads", "processes")
COUNTS: Final = (1, 2, 4, 8)
#: A combination with so many trials that failed needs no more of them.
_ENOUGH: Final = 5
#: Trials on one store: what ended is still in it, and is looked through by servers whose planners are simple.
_TRIALS_A_STORE: Final = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """Which store, how many pollers, where they are, and on how many workflows."""

    store: str
    pollers: int
    mode: str
    shape: str

    def __str__(self) -> str:
        return f"{self.store:10} {self.pollers} in {self.mode:9} on {self.shape:4}"


@dataclass(slots=True, kw_only=True)
class Finding:
    """What came of a combination's trials."""

    combination: Combination
    trials: int = 0
    seconds: float = 0.0
    #: Trials in which something was wrong, with what it was.
    wrong: list[list[str]] = field(default_factory=list)


def combinations(
    stores: Sequence[str], counts: Sequence[int], modes: Sequence[str], shapes: Sequence[str]
) -> Iterator[Combination]:
    """All combinations; memory is in one process only."""
    for store in stores:
        for mode in modes:
            if store == "memory" and mode == "processes":
                continue
            for count in counts:
                for shape in shapes:
                    yield Combination(store=store, pollers=count, mode=mode, shape=shape)


def run_combination(combination: Combination, trials: int, stores: Stores) -> Finding:
    """Run so many trials, with a new store now and then."""
    finding = Finding(combination=combination)
    began_s = time.monotonic()
    with processes(combination.pollers if combination.mode == "processes" else 0) as pipes:
        while finding.trials < trials and len(finding.wrong) < _ENOUGH:
            with stores.new(combination.store) as (store, address):
                pollers: Pollers = InProcesses(pipes, address) if pipes else InThreads(store, combination.pollers)
                _run_some(finding, min(_TRIALS_A_STORE, trials - finding.trials), store, pollers)
    finding.seconds = time.monotonic() - began_s
    return finding


def _run_some(finding: Finding, trials: int, store: EngineStore, pollers: Pollers) -> None:
    whole = program()
    for _ in range(trials):
        runs = SHAPES[finding.combination.shape](f"t{finding.trials}")
        wrong = run_trial(store, whole, runs, pollers, rush=finding.trials % 2 == 1)
        finding.trials += 1
        if wrong:
            finding.wrong.append(wrong)
        if len(finding.wrong) >= _ENOUGH:
            return


def tell(finding: Finding, out: TextIO) -> None:
    """Write a line of the table, and what was wrong."""
    per_trial_ms = finding.seconds * 1_000 / max(1, finding.trials)
    line = f"{finding.combination}  {finding.trials:5} trials  {per_trial_ms:7.1f} ms each  {len(finding.wrong)} wrong"
    out.write(line + "\n")
    for wrong in finding.wrong:
        for what in wrong:
            out.write(f"    {what}\n")
    out.flush()
