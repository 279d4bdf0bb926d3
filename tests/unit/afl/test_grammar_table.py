"""The parse table: free of conflicts, complete, and the one that the package ships."""

import os
import subprocess
import sys

import pytest
from lark.exceptions import GrammarError

from afl.grammar.table import GRAMMAR_FILE, TABLE_FILE, load_table
from afl.syntax.tree_builder import TreeBuilder
from tests.architecture.page_tables import ROOT
from tools.grammar_table import table_document, table_text


def test_the_grammar_has_no_conflicts_and_a_conflict_would_be_refused() -> None:
    grammar = GRAMMAR_FILE.read_text(encoding="utf-8")
    table_document(grammar)

    with pytest.raises(GrammarError, match="conflict"):
        table_document(grammar.replace("?sum: product\n", "?sum: product\n    | sum sum -> binary\n"))


def test_every_production_has_its_callback() -> None:
    callbacks = {callback for _, _, callback in load_table().rules if callback is not None}

    assert {name for name in callbacks if not callable(getattr(TreeBuilder, name, None))} == set()


def test_the_table_that_is_shipped_is_the_grammars() -> None:
    made = table_text(table_document(GRAMMAR_FILE.read_text(encoding="utf-8")))

    assert TABLE_FILE.read_text(encoding="utf-8") == made, "afl/grammar.lark has changed: run `make grammar`"


def test_a_change_of_the_grammar_changes_the_table() -> None:
    grammar = GRAMMAR_FILE.read_text(encoding="utf-8")
    shipped = TABLE_FILE.read_text(encoding="utf-8")

    assert table_text(table_document(grammar + "\n// A comment.\n")) == shipped
    assert table_text(table_document(grammar.replace('"++"', '"+++"'))) != shipped
    assert table_text(table_document(grammar.replace("      | USES dotted\n", "", 1))) != shipped


@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_table_is_the_same_bytes_whatever_the_hash_seed(seed: str) -> None:
    code = (
        "import sys; from afl.grammar.table import GRAMMAR_FILE; from tools.grammar_table import *; "
        "sys.stdout.write(table_text(table_document(GRAMMAR_FILE.read_text(encoding='utf-8'))))"
    )
    made = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        check=True,
        timeout=60,
    )

    assert made.stdout == TABLE_FILE.read_bytes()


def test_a_text_is_compiled_where_there_is_no_lark() -> None:
    code = (
        "import sys; sys.modules['lark'] = None; import afl; "
        "print(afl.compile_text('facet F(x: Int) => (y: Int)').program_json['declarations'][0]['name'])"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (0, "F\n", "")
