"""The LALR parse table: built by Lark from grammar.lark, kept between runs as JSON.

Lark is only imported to build a table. JSON rather than Lark's own pickle cache: a cache that someone else wrote can
then at worst spoil a parse, never run code.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

GRAMMAR_FILE = Path(__file__).parent.parent / "grammar.lark"

#: Changes when the stored form below changes.
TABLE_FORMAT = 2

#: The terminal that stands for the end of the text.
END = "$END"


class TableDocument(TypedDict):
    """What is stored: plain JSON."""

    key: str
    keywords: dict[str, str]
    punctuation: dict[str, str]
    patterns: dict[str, str]
    rules: list[tuple[str, int, str | None]]
    actions: list[dict[str, int]]
    gotos: list[dict[str, int]]
    start: int


@dataclass(frozen=True, slots=True)
class ParseTable:
    """What the parser runs on.

    `actions[state][terminal]` is a state to shift to (zero or more) or the complement `~r` of a rule to reduce;
    `rules[r]` is (nonterminal, length, callback), callback None where the only child is handed on.
    """

    keywords: dict[str, str]
    punctuation: dict[str, str]
    patterns: dict[str, str]
    rules: list[tuple[str, int, str | None]]
    actions: list[dict[str, int]]
    gotos: list[dict[str, int]]
    start: int

    def wanted(self, state: int) -> set[str]:
        """Return the terminals that may come next in a state."""
        return set(self.actions[state])


def load_table(cache_dir: Path | None = None, grammar: str | None = None) -> ParseTable:
    """Return the grammar's table, from the cache if it holds just that, else built and cached.

    A cache that cannot be read or written costs a tenth of a second, nothing else.
    """
    grammar = GRAMMAR_FILE.read_text(encoding="utf-8") if grammar is None else grammar
    key = _cache_key(grammar)
    directory = cache_dir or user_cache_dir()
    path = directory / f"grammar-{key[:16]}.json" if directory is not None else None
    document = _read_document(path, key) if path is not None else None
    if document is None:
        document = build_document(grammar, key)
        if path is not None:
            _write_document(path, document)
    return _as_table(document)


def build_table(grammar: str | None = None) -> ParseTable:
    """Build the table from the grammar's text; raises lark.GrammarError on any conflict."""
    text = GRAMMAR_FILE.read_text(encoding="utf-8") if grammar is None else grammar
    return _as_table(build_document(text, _cache_key(text)))


def user_cache_dir() -> Path | None:
    """Return the directory of this user's own caches for this package; None for a user without a home."""
    chosen = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    base = Path(chosen) if chosen else Path(os.path.expanduser("~")) / ".cache"
    # A relative path would put the cache into whatever directory the command happens to run in.
    return base / "afl" if base.is_absolute() else None


def build_document(grammar: str, key: str) -> TableDocument:
    """Let Lark build the table and return it in its stored form."""
    import lark
    from lark.lexer import Lexer as LarkLexer
    from lark.lexer import PatternStr
    from lark.parsers.lalr_analysis import Shift

    class NoLexer(LarkLexer):
        """Stands in for Lark's lexer: the package brings its own."""

        def __init__(self, lexer_conf: object) -> None:
            pass

        def lex(self, lexer_state: object, parser_state: object) -> Any:
            raise NotImplementedError("the table is driven by afl.parser")

    built = lark.Lark(grammar, start="program", parser="lalr", lexer=NoLexer, strict=True)
    frontend: Any = built.parser
    table = frontend.parser.parser.parse_table

    rules: list[tuple[str, int, str | None]] = []
    for rule in built.rules:
        name = str(rule.origin.name)
        hands_on = rule.options.expand1 and rule.alias is None and len(rule.expansion) == 1
        rules.append((name, len(rule.expansion), None if hands_on else str(rule.alias or name)))

    nonterminals = {name for name, _, _ in rules}
    actions: list[dict[str, int]] = []
    gotos: list[dict[str, int]] = []
    by_content = {(rule.origin, tuple(rule.expansion)): number for number, rule in enumerate(built.rules)}
    numbers = _number_states(table.states, table.start_states["program"])
    for state in numbers:
        row: dict[str, int] = {}
        goto: dict[str, int] = {}
        for symbol, (kind, target) in sorted(table.states[state].items(), key=lambda item: item[0]):
            if symbol in nonterminals:
                goto[symbol] = numbers[target]
            elif kind is Shift:
                row[symbol] = numbers[target]
            else:
                row[symbol] = ~by_content[target.origin, tuple(target.expansion)]
        actions.append(row)
        gotos.append(goto)
    # Lark leaves accepting to its driver; as a shift on the end of the text it needs no case of its own in ours.
    end = numbers[table.end_states["program"]]
    actions[end][END] = end

    words = {terminal.name: terminal for terminal in built.terminals}
    fixed = {t.pattern.value: t.name for t in words.values() if isinstance(t.pattern, PatternStr)}
    free = sorted((t for t in words.values() if not isinstance(t.pattern, PatternStr)), key=lambda t: -t.priority)
    return TableDocument(
        key=key,
        keywords={text: name for text, name in fixed.items() if _is_word(text)},
        punctuation={text: name for text, name in fixed.items() if not _is_word(text)},
        patterns={t.name: t.pattern.to_regexp() for t in free},
        rules=rules,
        actions=actions,
        gotos=gotos,
        start=numbers[table.start_states["program"]],
    )


def _number_states(states: Any, start: int) -> dict[int, int]:
    """Number the states in the order in which a walk from the start meets them: Lark's own order is not stable."""
    numbers = {start: 0}
    waiting = [start]
    for state in waiting:
        for _, (_, target) in sorted(states[state].items(), key=lambda item: item[0]):
            if isinstance(target, int) and target not in numbers:
                numbers[target] = len(numbers)
                waiting.append(target)
    return numbers


def _is_word(text: str) -> bool:
    return re.fullmatch(r"\w+", text) is not None


def _cache_key(grammar: str) -> str:
    facts = [str(TABLE_FORMAT), sys.version, _lark_version(), grammar]
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()


def _lark_version() -> str:
    """Return Lark's version without importing it, which would cost more than the parse of a small file."""
    spec = importlib.util.find_spec("lark")
    if spec is None or spec.origin is None:
        return "?"
    found = re.search(r'^__version__[^=]*=\s*["\'](.+?)["\']', Path(spec.origin).read_text(encoding="utf-8"), re.M)
    return found.group(1) if found else "?"


def _as_table(document: TableDocument) -> ParseTable:
    return ParseTable(
        keywords=document["keywords"],
        punctuation=document["punctuation"],
        patterns=document["patterns"],
        rules=[(name, size, callback) for name, size, callback in document["rules"]],
        actions=document["actions"],
        gotos=document["gotos"],
        start=document["start"],
    )


def _read_document(path: Path, key: str) -> TableDocument | None:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.get("key") != key:
        return None
    return document if document.keys() == TableDocument.__annotations__.keys() else None  # type: ignore[return-value]


def _write_document(path: Path, document: TableDocument) -> None:
    # Only who builds a table pays for importing these.
    import tempfile

    from afl.core.process.private_files import PRIVATE_FOLDER, tighten_folder

    # Written aside and renamed, so that a reader never sees half a table.
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        tighten_folder(path.parent)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(document, file, separators=(",", ":"))
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
