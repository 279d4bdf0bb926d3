"""The pool of worker processes that an evaluator's scripts run in, made as the settings say."""

from __future__ import annotations

from afl.scripts.isolation import ASPECTS
from afl.scripts.limits import MEBIBYTE, ScriptLimits
from afl.scripts.pool import ScriptPool
from afl_stream.errors import ConfigError
from afl_stream.settings.sections import ScriptSettings


def open_script_pool(settings: ScriptSettings) -> ScriptPool:
    """Start the workers.

    Raises ConfigError for a name in `scripts.accept_missing` that is none, ScriptsNotIsolated where this platform does
    not shut scripts off from something that is not accepted there, and ScriptWorkerUnavailable.
    """
    accepted = {name.strip() for name in (settings.accept_missing or "").split(",") if name.strip()}
    if not accepted <= ASPECTS:
        expected = f"some of {', '.join(sorted(ASPECTS))}, separated by commas"
        raise ConfigError("scripts", "accept_missing", settings.accept_missing, expected)
    limits = ScriptLimits(
        wall_s=settings.wall_s,
        cpu_s=settings.cpu_s,
        memory_bytes=settings.memory_mib * MEBIBYTE,
        output_bytes=settings.output_bytes,
        printed_bytes=settings.printed_bytes,
        idle_bytes=settings.idle_mib * MEBIBYTE,
    )
    return ScriptPool(limits, settings.workers, accept_missing=accepted)
