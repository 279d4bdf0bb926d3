"""RegistryRunner: an agent whose handlers are registered in the store, loaded when they are needed."""

from afl.core.clock import epoch_ms
from afl.core.handlers.registration import DEFAULT_TIMEOUT_MS
from afl.workers.registry_runner import HandlerNotLoaded, RegistryRunner, RegistryRunnerConfig

#: The time in ms since the epoch, under the name that callers of this module know.
_current_time_ms = epoch_ms

__all__ = [
    "DEFAULT_TIMEOUT_MS",
    "HandlerNotLoaded",
    "RegistryRunner",
    "RegistryRunnerConfig",
]
