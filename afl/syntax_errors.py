"""Says what is wrong with a text that the grammar does not accept, in terms of the language."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from afl.diagnostics import Diagnostic, Severity
from afl.errors import ParseError
from afl.grammar.lexer import Lexer, Token
from afl.grammar.table import END, ParseTable

#: What to say, and programs that deserve it: a text that fails in the same state of the parser at a token of the same
#: kind gets the same help.
SYNTAX_HELP: list[tuple[str, list[str]]] = [
    ("a facet needs a parameter list, even an empty one: facet Ping()", ["facet Ping", "facet Ping facet B()"]),
    ("a facet needs a parameter list, even an empty one: facet Ping()", ["facet Ping => (a: Int)", "facet Ping {"]),
    ("a parameter needs a type: amount: Double", ["facet Pay(amount)", "facet Pay(a: Long, b)", "facet Pay(a = 1)"]),
    ("a type is a name or [name]: tags: [String]", ["facet Pay(a: 1)", 'facet Pay(a: "String")']),
    ("results stand in parentheses: => (total: Double)", ["facet Pay() => total", "facet Pay() => {"]),
    ("a body begins with andThen: facet Pay() andThen { ... }", ["facet Pay() {", "facet Pay() => (a: Int) {"]),
    ("andThen is followed by { or by foreach name in source {", ["facet F() andThen s", "facet F() andThen ("]),
    (
        "foreach goes over $.name or step.attribute",
        ["facet F() andThen foreach v in [1] {", 'facet F() andThen foreach v in "a" {'],
    ),
    ("foreach is written: foreach name in $.list { ... }", ["facet F() andThen foreach v of $.list {"]),
    ("say event facet, not just event", ["event Ping()", "namespace a { event Ping() }"]),
    ("the opposite of an event facet is a plain one: facet Ping()", ["event workflow Ping()"]),
    (
        "arguments are named: Charge(amount = 5)",
        [
            "facet F() andThen { a = G(1) }",
            "facet F() andThen { a = G($.x) }",
            'facet F() andThen { a = G("x") }',
            "facet F() andThen { a = G(x) }",
            "facet F() andThen { a = G(b = 1, c) }",
            "facet F() andThen { a = G(b = 1, 2) }",
            "facet F() andThen { yield F(s.x) }",
        ],
    ),
    ("an argument is given with =, not with a colon", ["facet F() andThen { a = G(x: 1) }"]),
    (
        "a step is written: name = Facet(argument = value)",
        [
            "facet F() andThen { G() }",
            "facet F() andThen { a.b = G() }",
            "facet F() andThen { a: G() }",
            "facet F() andThen { a }",
        ],
    ),
    (
        "a step calls a facet: name = Facet(argument = value)",
        [
            "facet F() andThen { a = 1 }",
            "facet F() andThen { a = $.x }",
            'facet F() andThen { a = "x" }',
            "facet F() andThen { a = b }",
            "facet F() andThen { a = [1] }",
        ],
    ),
    (
        "this word cannot name a step",
        [
            "facet F() andThen { true = G() }",
            "facet F() andThen { with = G() }",
            "facet F() andThen { as = G() }",
            "facet F() andThen { null = G() }",
            "facet F() andThen { false = G() }",
            "facet F() andThen { _ = G() }",
            "facet F() andThen { andThen = G() }",
            "facet F() andThen { catch = G() }",
            "facet F() andThen { yield = G() }",
        ],
    ),
    ("all yields come after the steps of their block", ["facet F() andThen { yield F() a = G() }"]),
    ("yield names what it gives to: yield Pay(total = s.total)", ["facet F() andThen { yield (a = 1) }"]),
    ("yield names what it gives to: yield Pay(total = s.total)", ["facet F() andThen { yield }"]),
    ("a bare $ means nothing; write $.name", ["facet F(a: Int = $)", "facet F() andThen { a = G(x = $ + 1) }"]),
    (
        "comparisons do not chain; join two of them: a < b && b < c",
        [
            "facet F(x: Boolean = 1 < 2 < 3)",
            "facet F(x: Boolean = 1 == 2 == 3)",
            "facet F(x: Boolean = 1 < 2 == true)",
            "facet F(x: Boolean = $.a in $.b == true)",
            "facet F(x: Boolean = 1 <= $.a <= 3)",
        ],
    ),
    (
        "equality is written ==",
        [
            "facet F(x: Boolean = 1 = 2)",
            "facet F(x: Boolean = $.a = 2)",
            "facet F() andThen { a = G(x = s.y = 1) }",
            "facet F() andThen { a = G(x = s.y[0] = 1) }",
            'facet F() andThen { a = G(x = "a" = "b") }',
        ],
    ),
    (
        "negation is written with ! in front, and `not` only as in: a not in b",
        ["facet F(x: Boolean = not $.a)", "facet F(x: Boolean = $.a && not $.b)"],
    ),
    ("`not` stands before `in` only: a not in b", ["facet F(x: Boolean = $.a not contains $.b)"]),
    ("there is no member access on an index result", ["facet F() andThen { a = G(x = s.a[0].b) }"]),
    ("map entries are written key: value", ["facet F(a: Json = #{k = 1})", 'facet F(a: Json = #{"k" = 1})']),
    ("a map is written #{key: value}", ["facet F(a: Json = {", "facet F(a: Json = [{"]),
    ("numbers have digits on both sides of the point: 0.5", ["facet F(a: Double = .5)", "facet F(a: Double = 5.)"]),
    (
        "calls stand alone in a step; use its result: s = G() and then s.value",
        ["facet F() andThen { a = G(x = H()) }", "facet F() andThen { a = G(x = m.H()) }"],
    ),
    (
        "a comma is missing",
        [
            "facet F(x: Int y: Int)",
            "facet F(x: Int = 1 y: Int)",
            "facet F() andThen { a = G(x = 1 y = 2) }",
            "facet F(x: Json = [1 2])",
            "facet F(x: Json = #{a: 1 b: 2})",
        ],
    ),
    ("a field is written name: Type", ["namespace a { schema S { x } }", "namespace a { schema S { x = Int } }"]),
    ("fields have no defaults", ["namespace a { schema S { x: Int = 1 } }"]),
    ("schema fields stand in braces: schema Money { amount: Double }", ["schema S(a: Int)", "schema S: Int"]),
    ("a namespace without braces must come first in its file", ["facet F() namespace a.b facet G()"]),
    ("namespaces do not nest; write the whole name: namespace a.b { }", ["namespace a { namespace b { } }"]),
    ("use stands inside a namespace", ["use a.b", "facet F() use a.b", "facet F() uses a.b"]),
    ("a namespace has a name: namespace shop.orders { }", ["namespace { }", 'namespace "a" { }', "namespace a. { }"]),
    ("a } too many", ["facet F() }", "namespace a { } }"]),
    (
        "a } is missing",
        [
            "namespace a { facet F()",
            "namespace a { facet F() andThen {",
            "facet F() andThen { a = G()",
            "facet F() andThen { yield F()",
            "namespace a {",
        ],
    ),
    (
        "a declaration begins with namespace, facet, event facet, workflow or schema",
        ["function F()", "F()", "a = F()", "task F()", "123", '"text"', "{ }", "namespace a { x = F() }"],
    ),
]


class _NotYet(NamedTuple):
    """A construct of the language that this version cannot compile yet."""

    #: What it is called in the message.
    name: str
    #: A terminal that the parser would have taken in its place: tells the construct from a stray word.
    instead_of: str


_NOT_AVAILABLE: dict[str, _NotYet] = {
    "CATCH": _NotYet("`catch`", "ANDTHEN"),
    "SCRIPT": _NotYet("`script`", "ANDTHEN"),
    "PROMPT": _NotYet("`prompt`", "ANDTHEN"),
    "IMPLICIT": _NotYet("`implicit`", "FACET"),
}

#: How to call a terminal that is not written as such in a program.
_WORDS = {
    "NAME": "a name",
    "STRING": "a string",
    "INT": "a number",
    END: "the end of the text",
}

_JOINING = frozenset(["PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "CONCAT", "AND", "OR"])
_COMPARING = frozenset(["EQ", "NE", "LT", "LE", "GT", "GE", "IN", "NOT", "CONTAINS", "STARTSWITH", "ENDSWITH"])

#: Terminals that say more under one name than as a list.
_TOGETHER: list[tuple[str, frozenset[str]]] = [
    (
        "a value",
        frozenset(["NAME", "STRING", "INT", "FLOAT", "DOLLAR", "LSQB", "LPAR", "MAP_OPEN", "MINUS", "PLUS", "BANG"]),
    ),
    ("an operator", _JOINING | _COMPARING),
    ("an operator", _JOINING),
    ("a declaration", frozenset(["NAMESPACE", "FACET", "EVENT", "WORKFLOW", "SCHEMA"])),
    ("a declaration", frozenset(["FACET", "EVENT", "WORKFLOW", "SCHEMA"])),
]

#: Longer lists of what was wanted help nobody.
_MAX_WANTED = 6


class SyntaxExplainer:
    """Explains refusals of the parser that runs on a table."""

    def __init__(self, table: ParseTable, lexer: Lexer) -> None:
        self._table = table
        self._lexer = lexer

    def explain(self, tokens: list[Token], number: int, source_id: str | None) -> ParseError:
        """Return the error for a text whose token `number` is not accepted."""
        table, token = self._table, tokens[number]
        states = _states_before(table, tokens, number)
        wanted = {terminal for terminal in table.actions[states[-1]] if _accepts(table, states, terminal)}
        unavailable = _unavailable(token, tokens[number - 1] if number else None, wanted)
        if unavailable is not None:
            name, at = unavailable
            message = f"{name} is not available yet in this version of the compiler"
            return _error("NOT_AVAILABLE", message, at, source_id, None)
        message = f"syntax: found {_found(token)}, wanted {_list_wanted(table, wanted)}"
        _advance(table, states, token.type)
        return _error("PARSE_ERROR", message, token, source_id, self._help.get((states[-1], token.type)))

    @cached_property
    def _help(self) -> dict[tuple[int, str], str]:
        """The help by state and kind of token, found by letting every program of the list fail."""
        failures = ((text, self._failure_of(program)) for text, programs in SYNTAX_HELP for program in programs)
        return {failure: text for text, failure in failures if failure is not None}

    def _failure_of(self, program: str) -> tuple[int, str] | None:
        """Return the state in which the parser refuses a text and the kind of token it refuses; None if it does not."""
        states = [self._table.start]
        for token in self._lexer.tokens(program):
            if not _advance(self._table, states, token.type):
                return states[-1], token.type
        return None


def _error(code: str, message: str, at: Token, source_id: str | None, hint: str | None) -> ParseError:
    end_line, end_column = at.end()
    diagnostic = Diagnostic(
        code=code,
        severity=Severity.ERROR,
        message=message,
        line=at.line,
        column=at.column,
        end_line=end_line,
        end_column=max(end_column, at.column + 1) if end_line == at.line else end_column,
        source_id=source_id,
        hint=hint,
    )
    return ParseError(message, at.line, at.column, source_id, diagnostic=diagnostic)


def _unavailable(token: Token, before: Token | None, wanted: set[str]) -> tuple[str, Token] | None:
    """Return the construct that the text tries to use, and its first token; None if it is an ordinary mistake."""
    row = _NOT_AVAILABLE.get(token.type)
    if row is not None and row.instead_of in wanted:
        return row.name, token
    if before is None:
        return None
    if token.type == "WITH" and before.type == "RPAR" and ("ANDTHEN" in wanted or "YIELD" in wanted):
        return "`with`", token
    if before.type == "ANDTHEN" and token.type in ("WHEN", "SCRIPT"):
        return f"`andThen {token.text}`", before
    if before.type == "SYS" and token.type == "DOT" and "EQUAL" in wanted:
        return "`sys`", before
    return None


def _found(token: Token) -> str:
    if token.type == END:
        return "the end of the text"
    text = token.text if len(token.text) <= 40 else token.text[:37] + "..."
    return f"`{text}`" if text.isprintable() else repr(text)


def _list_wanted(table: ParseTable, wanted: set[str]) -> str:
    names: list[str] = []
    rest = set(wanted)
    if "NAME" in rest:
        # Keywords are names too; only where they begin something of their own are they worth a word.
        own = {"YIELD"} if "RBRACE" in rest and "EQUAL" not in rest else set()
        rest -= set(table.keywords.values()) - own
    for name, members in _TOGETHER:
        if rest >= members:
            names.append(name)
            rest -= members
    # A separator may stand nearly everywhere and is needed nowhere.
    rest -= {"SEMICOLON"}
    spelled = {name: f"`{text}`" for text, name in {**table.punctuation, **table.keywords}.items()} | _WORDS
    order = {name: number for number, name in enumerate(spelled)}
    names += [spelled.get(name, name) for name in sorted(rest, key=lambda name: order.get(name, 0))]
    if len(names) > _MAX_WANTED:
        names = [*names[: _MAX_WANTED - 1], "..."]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]


# -- the automaton without its actions --------------------------------------------------------------------------------


def _states_before(table: ParseTable, tokens: list[Token], number: int) -> list[int]:
    """Return the parser's states when it first looks at a token, before it reduces anything because of it."""
    states = [table.start]
    for token in tokens[:number]:
        shifted = _advance(table, states, token.type)
        assert shifted, "the tokens before the failing one are acceptable"
    return states


def _accepts(table: ParseTable, states: list[int], terminal: str) -> bool:
    # Copying a deep stack for every terminal would be slow, and reductions rarely reach far down.
    return _advance(table, states[-64:] if len(states) > 64 else list(states), terminal)


def _advance(table: ParseTable, states: list[int], terminal: str) -> bool:
    """Take one terminal, changing the states; False if it is not acceptable."""
    while True:
        action = table.actions[states[-1]].get(terminal)
        if action is None:
            return False
        if action >= 0:
            states.append(action)
            return True
        name, size, _ = table.rules[~action]
        if size >= len(states):
            return True
        if size:
            del states[-size:]
        states.append(table.gotos[states[-1]][name])
