"""Rules for every test: its tier, the person's settings kept out, folders in memory, compiled modules kept."""

import gc
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.internal_errors import InternalErrors
from tests.running import RunningTests
from tests.tiers import Tiers

#: The servers of the run, and the worlds of scenarios.
pytest_plugins = ["tests.worlds.servers"]

#: Folders of tests are made here where there is room: thousands of commits wait for a disk otherwise.
_MEMORY = Path("/dev/shm")
_MEMORY_NEEDED_BYTES = 4 << 30

# Hundreds of processes import this tree. Where the person's shell forbids to keep what is compiled, each would
# compile it again, and take five times as long to start.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


# How long an example takes says how busy the machine is.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Tiers(), "tiers")
    config.pluginmanager.register(InternalErrors(), "internal_errors")
    config.pluginmanager.register(RunningTests(), "running_tests")
    if "TMPDIR" not in os.environ and _is_roomy(_MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keep the garbage collector off the million objects of pytest's own, that stay until the end."""
    gc.collect()
    gc.freeze()


def _is_roomy(folder: Path) -> bool:
    """Whether tests may have their folders here: programs run from them, and brokers and databases fit in."""
    try:
        mounted = os.statvfs(folder)
    except OSError:
        return False
    may_execute = not mounted.f_flag & os.ST_NOEXEC
    return may_execute and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= _MEMORY_NEEDED_BYTES


@pytest.fixture(scope="session", autouse=True)
def settings_from_outside() -> Iterator[Mapping[str, str]]:
    """Take every AFL_ variable out of the environment; return them."""
    taken = {name: value for name, value in os.environ.items() if name.startswith("AFL_")}
    for name in taken:
        del os.environ[name]
    yield taken
    os.environ.update(taken)


@pytest.fixture(scope="session")
def bootstrap_from_outside(settings_from_outside: Mapping[str, str]) -> str | None:
    """Return the address of the person's broker."""
    return settings_from_outside.get("AFL_KAFKA_BOOTSTRAP") or None


@pytest.fixture(scope="session")
def mongodb_from_outside(settings_from_outside: Mapping[str, str]) -> str | None:
    """Return the address of the person's MongoDB."""
    return settings_from_outside.get("AFL_MONGODB_URL") or None
