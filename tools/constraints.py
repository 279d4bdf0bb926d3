"""The pinned versions in the files of `constraints/`: for running, for development, for benchmarks.

    python -m tools.constraints

rewrites the three files from the versions that are installed beside this interpreter. Run it in a fresh
environment, into which `pip install -e '.[dev,broker,mongodb-server,benchmarks]'` has put the newest versions that the
ranges of pyproject.toml admit. A file names the one below it, so that `pip install -c` takes one file.

Files of environments that stand apart are written by `python -m tools.environments NAME --pin`.
"""

import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "constraints"

#: Interpreters and systems that the pins are for: a dependency that one of them needs is pinned for all.
_MINOR_VERSIONS: Final = (11, 12, 13, 14)
_SYSTEMS: Final = (("linux", "Linux"), ("darwin", "Darwin"))


class Group(NamedTuple):
    """One file of pins: what it is for, and the extras whose dependencies it pins."""

    name: str
    purpose: str
    extras: tuple[str, ...]

    @property
    def path(self) -> Path:
        """Return the group's file."""
        return FOLDER / f"{self.name}.txt"


#: From the smallest installation to the largest. A version stands in the first group that needs it.
GROUPS: Final = (
    Group(
        "run",
        "What a deployment installs: the package with the extras that it may use.",
        (
            "mongodb",
            "otel",
            "claude",
            "editors",
            "llm",
            "registry",
            "metrics",
            "parquet",
            "encryption",
            "dashboard",
            "gateway",
            "mcp",
        ),
    ),
    Group(
        "dev",
        "What `make` installs besides: tests and checks, and what the broker and the MongoDB server of the tests need.",
        ("dev", "broker", "mongodb-server"),
    ),
    Group("benchmarks", "What only benchmarks compare with.", ("benchmarks",)),
)
#: Each is for an environment of its own, since it does not go together with the pins above: Faust needs an older
#: croniter and click, Quix Streams an older confluent-kafka and pydantic, Celery would bring its own click.
APART: Final = (
    Group("faust", "What an environment of agents and audits in Faust installs.", ("faust",)),
    Group("quix", "What the environment of Quix Streams installs, which a benchmark compares with.", ("quix",)),
    Group("celery", "What the environment of Celery installs, which a benchmark compares with.", ("celery",)),
)
#: The image's tools. Its file has digests, made by `python -m tools.hashes`.
IMAGE: Final = Group("image", "What the image is built with, and what lists its parts.", ("image",))


def project() -> Mapping[str, object]:
    """Return the table `project` of pyproject.toml."""
    table: Mapping[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def requirements(extras: Iterable[str], *, with_package: bool = True) -> Iterator[Requirement]:
    """Yield what the package itself needs, unless it is left out, then what these extras add."""
    table = project()
    dependencies, optional = table["dependencies"], table["optional-dependencies"]
    assert isinstance(dependencies, list)
    assert isinstance(optional, dict)
    for text in (dependencies if with_package else []) + [text for extra in extras for text in optional[extra]]:
        yield Requirement(text)


def closure(wanted: Iterable[Requirement]) -> tuple[set[str], set[str]]:
    """Return the names of all that these need, and those of them that are not installed here."""
    names: set[str] = set()
    missing: set[str] = set()
    done: set[tuple[str, tuple[str, ...]]] = set()
    waiting = list(wanted)
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        key = (name, tuple(sorted(requirement.extras)))
        if key in done:
            continue
        done.add(key)
        names.add(name)
        try:
            texts = distribution(requirement.name).requires or []
        except PackageNotFoundError:
            missing.add(name)
            continue
        needed = (Requirement(text) for text in texts)
        waiting.extend(each for each in needed if _is_needed_anywhere(each, requirement.extras))
    return names, missing


def _is_needed_anywhere(requirement: Requirement, extras: set[str]) -> bool:
    if requirement.marker is None:
        return True
    return any(
        requirement.marker.evaluate(
            {
                "python_version": f"3.{minor}",
                "python_full_version": f"3.{minor}.0",
                "sys_platform": platform,
                "platform_system": system,
                "os_name": "posix",
                "extra": extra,
            }
        )
        for minor in _MINOR_VERSIONS
        for platform, system in _SYSTEMS
        for extra in extras or {""}
    )


def pins(path: Path) -> dict[str, str]:
    """Return the versions that a file pins, by the normalised name of the distribution."""
    pinned = (line.split("==") for line in path.read_text().splitlines() if "==" in line)
    return {canonicalize_name(name): version for name, version in pinned}


def write() -> None:
    """Rewrite the files from the installed versions."""
    taken: set[str] = set()
    for below, group in zip((None, *GROUPS), GROUPS, strict=False):
        names, missing = closure(requirements(group.extras))
        if absent := missing - taken:
            wanted = ",".join(extra for each in GROUPS for extra in each.extras if each.name != "run")
            sys.exit(f"not installed: {', '.join(sorted(absent))}; pip install -e '.[{wanted}]' brings them")
        found = sorted((distribution(name) for name in names - taken), key=lambda one: canonicalize_name(one.name))
        lines = [f"# {group.purpose}", "# Made by `python -m tools.constraints`; ranges: pyproject.toml."]
        lines += [f"-c {below.path.name}"] if below else []
        lines += [f"{one.name}=={one.version}" for one in found]
        FOLDER.mkdir(exist_ok=True)
        group.path.write_text("\n".join(lines) + "\n")
        taken |= names


if __name__ == "__main__":
    write()
