"""The parse table: free of conflicts, complete, and kept between runs without being trusted."""

import json
import sys
from pathlib import Path

import lark
import pytest
from lark.exceptions import GrammarError

from afl.grammar.table import GRAMMAR_FILE, build_table, load_table, user_cache_dir
from afl.syntax.tree_builder import TreeBuilder


def test_the_grammar_has_no_conflicts_and_a_conflict_would_be_refused() -> None:
    grammar = GRAMMAR_FILE.read_text(encoding="utf-8")
    build_table(grammar)

    with pytest.raises(GrammarError, match="conflict"):
        build_table(grammar.replace("?sum: product\n", "?sum: product\n    | sum sum -> binary\n"))


def test_every_production_has_its_callback() -> None:
    callbacks = {callback for _, _, callback in build_table().rules if callback is not None}

    assert {name for name in callbacks if not callable(getattr(TreeBuilder, name, None))} == set()


def test_a_table_is_written_once_and_read_back_equal(tmp_path: Path) -> None:
    built = load_table(tmp_path)
    written = [path.read_bytes() for path in tmp_path.iterdir()]

    assert len(written) == 1
    assert load_table(tmp_path) == built == build_table()
    assert [path.read_bytes() for path in tmp_path.iterdir()] == written


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"key": "other"}', b"\xff\xfe", b"[" * 100_000])
def test_a_spoilt_cache_is_built_anew(tmp_path: Path, content: bytes) -> None:
    built = load_table(tmp_path)
    (cached,) = tmp_path.iterdir()
    cached.write_bytes(content)

    assert load_table(tmp_path) == built
    assert json.loads(cached.read_bytes())["start"] == built.start


@pytest.mark.parametrize("other", ["grammar", "python", "lark"])
def test_another_grammar_python_or_lark_reads_no_table_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    before = load_table(tmp_path / "cache")
    if other == "grammar":
        after = load_table(tmp_path / "cache", GRAMMAR_FILE.read_text(encoding="utf-8") + "\n// changed\n")
    elif other == "python":
        monkeypatch.setattr(sys, "version", "4.0")
        after = load_table(tmp_path / "cache")
    else:
        source = tmp_path / "__init__.py"
        source.write_text('__version__: str = "99.0"\n', encoding="utf-8")
        monkeypatch.setattr(lark.__spec__, "origin", str(source))
        after = load_table(tmp_path / "cache")

    assert after == before
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_cache_belongs_to_its_user_alone(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o755)
    load_table(cache)
    (cached,) = cache.iterdir()

    assert (cache.stat().st_mode & 0o777, cached.stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a directory")

    assert load_table(in_the_way / "cache") == build_table()


def test_without_a_home_there_is_no_cache_and_none_in_the_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert user_cache_dir() is None

    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert user_cache_dir() == Path("/caches/afl")
