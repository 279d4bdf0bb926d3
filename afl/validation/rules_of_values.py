"""Rules about values and their types."""

from afl.validation.rule import Rule, error, warning

_HEAD = "namespace a { schema S { n: Int } facet G(x: Json) facet F(s: S, t: String, b: Boolean, n: Int, j: Json) "


def _with_value(value: str) -> str:
    return f"{_HEAD} andThen {{ s = G(x = {value}) }} }}"


VALUE_RULES: dict[str, Rule] = {
    "TYPE_ARITHMETIC_STRING": error(
        "TYPE_ARITHMETIC_STRING",
        "Arithmetic is for numbers; strings are joined by ++.",
        "Type error: arithmetic operator '{operator}' with String operand; strings are joined with ++",
        _with_value("$.n + «$.t»"),
        _with_value("$.n ++ $.t"),
    ),
    "TYPE_ARITHMETIC_BOOLEAN": error(
        "TYPE_ARITHMETIC_BOOLEAN",
        "Arithmetic is for numbers.",
        "Type error: arithmetic operator '{operator}' with Boolean operand",
        _with_value("«true» * 2"),
        _with_value("$.j * 2"),
    ),
    "TYPE_ARITHMETIC_SCHEMA": error(
        "TYPE_ARITHMETIC_SCHEMA",
        "Arithmetic is for numbers, not for objects, arrays, maps or null.",
        "Type error: arithmetic operator '{operator}' with {found} operand",
        _with_value("1 - «$.s»"),
        _with_value("1 - $.s.n"),
    ),
    "TYPE_NEGATE_STRING": error(
        "TYPE_NEGATE_STRING",
        "Only numbers have a negative.",
        "Type error: cannot negate String operand",
        _with_value('«-"a"»'),
        _with_value("-$.n"),
    ),
    "TYPE_NEGATE_BOOLEAN": error(
        "TYPE_NEGATE_BOOLEAN",
        "Only numbers have a negative.",
        "Type error: cannot negate Boolean operand",
        _with_value("«-$.b»"),
        _with_value("-$.j"),
    ),
    "TYPE_NEGATE_SCHEMA": error(
        "TYPE_NEGATE_SCHEMA",
        "Only numbers have a negative.",
        "Type error: cannot negate {found} operand",
        _with_value("«-[1]»"),
        _with_value("-[1][0]"),
    ),
    "TYPE_BOOLEAN_OPERAND_REQUIRED": error(
        "TYPE_BOOLEAN_OPERAND_REQUIRED",
        "`&&` and `||` join Booleans; nothing else counts as true or false.",
        "Type error: '{operator}' wants Boolean operands, this is {found}",
        _with_value("$.b && «$.t»"),
        _with_value('$.b && $.t != "" || $.j'),
    ),
    "TYPE_NOT_OPERAND_REQUIRED": error(
        "TYPE_NOT_OPERAND_REQUIRED",
        "`!` inverts a Boolean; nothing else counts as true or false.",
        "Type error: '!' wants a Boolean operand, this is {found}",
        _with_value("!«$.n»"),
        _with_value("!($.n == 0) == !$.j"),
    ),
    "TYPE_ORDERED_COMPARISON_BOOLEAN": error(
        "TYPE_ORDERED_COMPARISON_BOOLEAN",
        "Numbers have an order, and strings; Booleans have none.",
        "Type error: ordered comparison '{operator}' with Boolean operand",
        _with_value("$.j < «$.b»"),
        _with_value("($.j < $.n) == $.b"),
    ),
    "TYPE_ORDERED_COMPARISON_SCHEMA": error(
        "TYPE_ORDERED_COMPARISON_SCHEMA",
        "Numbers have an order, and strings; objects have none.",
        "Type error: ordered comparison '{operator}' with {found} operand",
        _with_value("«$.s» >= $.j"),
        _with_value("$.s.n >= $.j || $.s == $.j"),
        "compare a field",
    ),
    "TYPE_CONTAINMENT_OPERAND": error(
        "TYPE_CONTAINMENT_OPERAND",
        "`in`, `not in` and `contains` look into an array, the keys of a map, or a string.",
        "Type error: '{operator}' looks into an array, a map or a string, not into {found}",
        _with_value("$.t in «$.n»"),
        _with_value('$.n in [1, $.n] && $.t not in $.j && $.t contains "x" && "n" in $.s'),
    ),
    "TYPE_STRING_MATCH_OPERAND": error(
        "TYPE_STRING_MATCH_OPERAND",
        "`startsWith` and `endsWith` compare strings.",
        "Type error: '{operator}' compares strings, this is {found}",
        _with_value("$.t startsWith «$.n»"),
        _with_value('$.t startsWith "" ++ $.n && $.j endsWith $.t'),
    ),
    "TYPE_ARG_MISMATCH": error(
        "TYPE_ARG_MISMATCH",
        "A constant, or the bare name of a schema's step, has the declared type of what it is given to.",
        "'{name}' wants {wanted}, this is {found}",
        'namespace a { facet F(n: Int = «"one"») }',
        "namespace a { facet F(n: Long = 1, d: Double = 2, e: Double = -1.5, x: Int = null, j: Json = [1]) }",
    ),
    "DEFAULT_NOT_CONSTANT": error(
        "DEFAULT_NOT_CONSTANT",
        "A default uses constants and parameters declared before it.",
        "The default of '{name}' uses {written}; only constants and earlier parameters may be used",
        "namespace a { facet F(a: Int = «$.b», b: Int = 1) }",
        "namespace a { facet F(b: Int = 1, a: Int = $.b + 1) => (c: Int = $.a) }",
    ),
    "FOREACH_NOT_ITERABLE": error(
        "FOREACH_NOT_ITERABLE",
        "foreach goes over an array, or the keys of a map.",
        "foreach needs an array or a map, this is {found}",
        "namespace a { facet F(n: Int) andThen foreach v in «$.n» { } }",
        "namespace a { facet F(n: Json) andThen foreach v in $.n { } }",
    ),
    "INT_INEXACT": error(
        "INT_INEXACT",
        "An integer that is given to a Double is one that a Double holds exactly.",
        "No Double holds this integer exactly, and '{name}' wants one",
        "namespace a { facet F(d: Double = «9007199254740993») }",
        "namespace a { facet F(d: Double = 9007199254740992, e: [Double] = [-3, 18014398509481984]) }",
    ),
    "INT_BEYOND_LONG": warning(
        "INT_BEYOND_LONG",
        "An integer should fit into 64 bits: other languages' agents cannot read it otherwise.",
        "This integer does not fit into 64 bits",
        "namespace a { facet F(n: Long = «9223372036854775808») }",
        "namespace a { facet F(n: Long = -9223372036854775808, m: Long = 9223372036854775807) }",
    ),
}
