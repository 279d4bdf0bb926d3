"""Where a crate is built: a kept folder outside of the tree, with the librdkafka that is on the machine already."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka

from afl_stream.broker.jars import cache_root, locked
from tests.worlds.requirements import required_tool


@dataclass(frozen=True, kw_only=True)
class RustBuild:
    """How a crate is built: cargo's environment, the words that choose features, and where the examples are then."""

    environment: Mapping[str, str]
    features: Sequence[str]
    examples: Path


@contextmanager
def rust_build(crate: Path) -> Iterator[RustBuild]:
    """Give a crate a kept folder to be built in, alone, and the librdkafka that this process has loaded.

    Another would take a core more than a minute. Where confluent-kafka has brought none, cargo builds it.
    """
    digest = hashlib.sha256((crate / "Cargo.lock").read_bytes()).hexdigest()[:8]
    folder = cache_root() / f"rust-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    environment = {"CARGO_TARGET_DIR": str(folder / "target"), "CARGO_INCREMENTAL": "0"}
    features: tuple[str, ...] = ()
    with locked(folder / "lock"):
        libraries = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
        for library in libraries.glob("librdkafka-*.so*"):
            shared = _described(library, folder / library.name)
            environment |= {"PKG_CONFIG_PATH": str(shared), "LD_LIBRARY_PATH": str(shared)}
            features = ("--no-default-features", "--features", "dynamic-linking")
        yield RustBuild(environment=environment, features=features, examples=folder / "target" / "debug" / "examples")


def _described(library: Path, folder: Path) -> Path:
    """Return a folder with a copy of a librdkafka, under the name that linkers seek, and words for pkg-config."""
    required_tool("pkg-config")
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="copying-") as scratch:
            made = Path(scratch) / "made"
            made.mkdir()
            shutil.copy(library, made)
            (made / "librdkafka.so").symlink_to(library.name)
            lines = ("Name: librdkafka", "Description: Kafka", f"Version: {confluent_kafka.libversion()[0]}")
            (made / "rdkafka.pc").write_text("\n".join((*lines, f"Libs: -L{folder} -lrdkafka", "")))
            made.rename(folder)
    return folder
