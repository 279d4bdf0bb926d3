"""The limits of one run of a script."""

from __future__ import annotations

from dataclasses import dataclass

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptLimits:
    """Bounds of one run; reaching one ends the script, never the engine."""

    #: From the hand-over of the parameters to the result, a second try included.
    wall_s: float = 30.0
    #: Processor time. Lower than the wall clock's limit: endless loops end early, and a busy machine does not fail a
    #: script.
    cpu_s: int = 10
    #: Address space of the script's process, including the interpreter's own 40 MiB.
    memory_bytes: int = 256 * MEBIBYTE
    #: Length of the script's text.
    code_bytes: int = MEBIBYTE
    #: Size of the result as JSON in UTF-8.
    output_bytes: int = 4 * MEBIBYTE
    #: Printed text that is kept; the rest is dropped, and a note says so.
    printed_bytes: int = 64 * 1024
    #: Memory of one worker's processes that wait for another run of their text and workflow.
    idle_bytes: int = 128 * MEBIBYTE

    def __post_init__(self) -> None:
        for name in ("wall_s", "cpu_s", "memory_bytes", "code_bytes", "output_bytes", "printed_bytes", "idle_bytes"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be more than 0, not {getattr(self, name)}")
        if self.memory_bytes < 96 * MEBIBYTE:
            raise ValueError(f"memory_bytes must be 96 MiB or more for an interpreter to run, not {self.memory_bytes}")
