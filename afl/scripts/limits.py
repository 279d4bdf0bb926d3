"""The limits of one run of a script."""

from __future__ import annotations

from dataclasses import dataclass

from afl.core import limits

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptLimits:
    """Bounds of one run; reaching one ends the script, never the engine."""

    #: From the hand-over of the parameters to the result, a second try included.
    wall_s: float = float(limits.SCRIPT_WALL_S)
    #: Processor time. Less than the wall clock's: endless loops end early, and a busy machine costs a script nothing.
    cpu_s: int = limits.SCRIPT_CPU_S
    #: Address space of the script's process, the interpreter's own 40 MiB included.
    memory_bytes: int = limits.SCRIPT_MEMORY_MIB * MEBIBYTE
    #: The script's text.
    code_bytes: int = MEBIBYTE
    #: The result as JSON in UTF-8.
    output_bytes: int = limits.SCRIPT_OUTPUT_BYTES
    #: What `print` keeps; the rest is dropped and said to be.
    printed_bytes: int = limits.SCRIPT_PRINTED_BYTES
    #: What the processes of one worker hold that wait for their text and workflow to come again.
    idle_bytes: int = limits.SCRIPT_IDLE_MIB * MEBIBYTE

    def __post_init__(self) -> None:
        for name in ("wall_s", "cpu_s", "memory_bytes", "code_bytes", "output_bytes", "printed_bytes", "idle_bytes"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be more than 0, not {getattr(self, name)}")
        if self.memory_bytes < 96 * MEBIBYTE:
            raise ValueError(f"memory_bytes must be 96 MiB or more for an interpreter to run, not {self.memory_bytes}")
