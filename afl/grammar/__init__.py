"""The grammar of AFL and its derived parts: parse table and lexer."""

from afl.grammar.lexer import Lexer, Token
from afl.grammar.table import GRAMMAR_FILE, ParseTable, load_table

__all__ = ["GRAMMAR_FILE", "Lexer", "ParseTable", "Token", "load_table"]

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "lexer",
    "moves",
    "script_bodies",
    "table",
)
