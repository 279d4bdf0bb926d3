"""Hints about words, types and values of other languages, wherever the grammar refuses them."""

from __future__ import annotations

CASES_HELP = "andThen when { case condition => { ... } case _ => { ... } }"
_IF = f"there is no else and no if: {CASES_HELP}"
_LOOP = "a loop is a block of its own: andThen foreach name in $.list { ... }"
_FAILURES = "failures are caught behind a step or a block: s = Pay() catch { ... }"
_RESULT = "a block gives its results with yield: yield Pay(total = s.total)"
_DECLARED = "a declaration begins with namespace, facet, event facet, workflow, schema or implicit"
_TYPE = "a type of your own is a schema, inside a namespace: schema Money { amount: Double }"
_USED = "names of another namespace are brought in inside a namespace: use shop.orders"
_SPACE = "a namespace holds what is in its braces, or with none the rest of its file: namespace shop.orders { ... }"
_STEPS = "a step is written: name = Facet(argument = value)"
_WAITING = "every step waits by itself for the steps that it refers to: s = Pay()"
_BODY = "a body begins with andThen: facet Pay() andThen { ... }"
_ELSE = "the case for everything else is written: case _ => { ... }"
_THEN = "steps that follow stand in a block: andThen { ... }"
_LOG = "what is to be seen is logged by name: sys.log(total = s.total)"
_NOTHING = "a block that does nothing is empty: { }; there is no break and no continue"

#: Hints for words of other languages, wherever they are refused.
WORD_HELP: dict[str, str] = {
    **dict.fromkeys(["else", "elif", "elseif", "otherwise", "default"], _ELSE),
    "and": "and is written &&",
    "or": "or is written ||",
    "is": "equality is written ==",
    "then": _THEN,
    "finally": "there is no finally; what is to happen in any case stands behind the step, and in its catch",
    **dict.fromkeys(["except", "rescue"], _FAILURES),
    **dict.fromkeys(["import", "include", "require", "from", "using"], _USED),
    **dict.fromkeys(["package", "module"], _SPACE),
    **dict.fromkeys(["def", "function", "func", "fn", "fun", "proc", "task", "job", "class", "interface"], _DECLARED),
    **dict.fromkeys(["struct", "type", "record", "enum", "union", "data"], _TYPE),
    "extends": "what a facet takes over stands behind with: facet Pay() with Retry()",
    "returns": "results follow =>: facet Pay() => (total: Double)",
}

#: Hints for words in the place of a block or behind a value. A step may have such a name.
BLOCK_WORD_HELP: dict[str, str] = {
    **dict.fromkeys(["if", "unless", "switch", "match"], _IF),
    **dict.fromkeys(["for", "while", "loop", "repeat", "until"], _LOOP),
    "try": _FAILURES,
    **dict.fromkeys(["do", "begin"], _BODY),
}

#: Hints for words of other languages that were read as a name, when the text behind it is refused.
AFTER_WORD_HELP: dict[str, str] = {
    **dict.fromkeys(["if", "unless", "switch", "match"], _IF),
    **dict.fromkeys(["else", "elif", "elseif", "otherwise"], f"{_ELSE}, in a when: {CASES_HELP}"),
    **dict.fromkeys(["for", "foreach", "while", "loop", "repeat", "until"], _LOOP),
    **dict.fromkeys(["try", "throw", "raise"], _FAILURES),
    "return": _RESULT,
    "then": _THEN,
    **dict.fromkeys(["let", "var", "val", "const", "set", "final", "auto"], _STEPS),
    **dict.fromkeys(["await", "async", "call", "run", "do", "go", "new"], _WAITING),
    **dict.fromkeys(["print", "println", "echo", "console"], _LOG),
    **dict.fromkeys(["pass", "break", "continue"], _NOTHING),
}

#: Hints for generic types, by the type in lower case: Map<String, Int>, Optional[Int].
GENERIC_HELP: dict[str, str] = {
    **dict.fromkeys(
        ["map", "dict", "hashmap", "record", "object"],
        "a map is a Json, or a schema of your own where its keys are known: schema Money { amount: Double }",
    ),
    **dict.fromkeys(
        ["optional", "option", "maybe", "nullable"],
        "a parameter that may be left out has a default: note: String = null",
    ),
}

#: Types of this and of other languages, with the hint for one in front of a step's name.
TYPE_WORDS = frozenset(
    """
    String Int Long Double Boolean Json string int integer long double float bool boolean str any object map list dict
    number
    """.split()  # noqa: SIM905 - words
)
TYPED_STEP_HELP = f"{_STEPS}; it has no type"

#: Hints for a letter in front of a string, as in f"...".
PREFIXED_STRING_HELP = 'strings have no prefixes; values are joined with ++: "hello " ++ $.name'
NUMBER_HELP = "numbers are written in decimal digits: 1000, 0.5"
