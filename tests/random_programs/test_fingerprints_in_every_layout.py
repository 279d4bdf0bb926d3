"""The fingerprint of a generated program: any layout of its source keeps it, and any change of a node makes another."""

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.formatting import format_text
from afl.syntax.comments import pieces
from tests.fuzzing.layout import laid_out
from tests.fuzzing.programs import valid_program
from tests.random_programs.whole_generator import generate_whole

Json = dict[str, Any]
#: A place in a tree: the object or list, and the key or index in it.
Place = tuple[Any, Any]

_SEEDS = [*range(12), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(12, 72))]


def _text(seed: int) -> str:
    return valid_program(seed) if seed % 2 else generate_whole(seed).text


def _program(text: str, *, include_locations: bool = True) -> CompiledProgram:
    return CompiledProgram(compile_text(text, include_locations=include_locations).program_json)


def _laid_out_anew(text: str, seed: int) -> str:
    """Return the same tokens with other blanks, line ends and comments; doc comments are left out."""
    tokens = [piece.text for piece in pieces(text) if not piece.is_comment]
    return laid_out([token for token in tokens if token], Random(f"layout-{seed}"))


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_fingerprint_is_the_same_in_every_layout(seed: int) -> None:
    text = _text(seed)
    fingerprint = _program(text).fingerprint

    assert _program(format_text(text)).fingerprint == fingerprint
    assert _program(_laid_out_anew(text, seed)).fingerprint == fingerprint
    moved = "// moved down\n\n\n" + text.removeprefix("\ufeff") + "\n/* the end */"
    assert _program(moved).fingerprint == fingerprint
    assert _program(text, include_locations=False).fingerprint == fingerprint


@pytest.mark.parametrize("seed", _SEEDS[:4] + _SEEDS[-8:])
def test_a_fingerprint_changes_with_every_value_of_every_node(seed: int) -> None:
    tree = compile_text(_text(seed)).program_json
    fingerprint = CompiledProgram(tree).fingerprint

    places = list(_places(tree))

    missed = [
        f"{key}: {holder[key]!r}"
        for holder, key in Random(f"nodes-{seed}").sample(places, min(80, len(places)))
        for change in _CHANGES
        if _changed(tree, holder, key, change) == fingerprint
    ]

    assert len(places) > 20
    assert not missed


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_program_is_put_together_again_from_its_text_and_what_stands_beside_it(seed: int) -> None:
    program = _program(_text(seed))

    stored = CompiledProgram.stored(program.fingerprint, program.text, program.annotations)

    assert stored.tree == program.tree
    again = CompiledProgram(stored.tree)
    assert (again.text, again.annotations) == (program.text, program.annotations)


def _removed(holder: Any, key: Any) -> None:
    del holder[key]


def _replaced(holder: Any, key: Any) -> None:
    value = holder[key]
    holder[key] = not value if isinstance(value, bool) else [value] if isinstance(value, dict | list) else f"{value}~"


def _doubled(holder: Any, key: Any) -> None:
    if isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    else:
        holder[f"{key}~"] = holder[key]


_CHANGES: tuple[Callable[[Any, Any], None], ...] = (_removed, _replaced, _doubled)


def _changed(tree: Json, holder: Any, key: Any, change: Callable[[Any, Any], None]) -> str:
    """Return the fingerprint with one change, which is taken back."""
    before = copy.copy(holder)
    change(holder, key)
    found = CompiledProgram.__new__(CompiledProgram)  # After most changes the mapping is not a program.
    found.tree = tree
    fingerprint = found.fingerprint
    holder.clear()
    holder.update(before) if isinstance(holder, dict) else holder.extend(before)
    return fingerprint


def _places(node: Any) -> Iterator[Place]:
    """Every place in a tree but those of source places and doc comments."""
    if isinstance(node, dict):
        for key, child in node.items():
            if key not in ("location", "doc"):
                yield node, key
                yield from _places(child)
    elif isinstance(node, list):
        for index, child in enumerate(node):
            yield node, index
            yield from _places(child)
