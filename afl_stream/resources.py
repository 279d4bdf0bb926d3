"""The files that ship with the package: `schemas/` and `topics/`, in a checkout and in an installed wheel."""

from __future__ import annotations

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from afl_stream.errors import ResourceMissing

_CHECKOUT: Final = Path(__file__).resolve().parent.parent


@cache
def schema_text(name: str) -> str:
    """Return the text of `schemas/<name>.avsc`; raise ResourceMissing when it does not exist."""
    return _read("schemas", f"{name}.avsc")


def topic_texts() -> dict[str, str]:
    """Return the shipped topic declarations: file name without suffix to TOML text."""
    folder = _folder("topics")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return {name.removesuffix(".toml"): (folder / name).read_text(encoding="utf-8") for name in names}


def _read(folder: str, name: str) -> str:
    file = _folder(folder) / name
    if not file.is_file():
        raise ResourceMissing(name, [str(file)])
    return file.read_text(encoding="utf-8")


def _folder(name: str) -> Traversable:
    # A wheel has them inside the package; a checkout, also an editable install, next to it.
    inside = resources.files("afl_stream") / f"_{name}"
    beside = _CHECKOUT / name
    for candidate in (inside, beside):
        if candidate.is_dir():
            return candidate
    raise ResourceMissing(f"{name}/", [str(inside), str(beside)])
