"""RegistryRunner: an agent whose handlers are registered in the store, loaded when they are needed."""

from afl.workers.registry_runner import (
    DEFAULT_TIMEOUT_MS,
    HandlerNotLoaded,
    RegistryRunner,
    RegistryRunnerConfig,
)

__all__ = [
    "DEFAULT_TIMEOUT_MS",
    "HandlerNotLoaded",
    "RegistryRunner",
    "RegistryRunnerConfig",
]
