"""Rules about calls, mixins, implicits and yields."""

from afl.validation.rule import Rule, error, left_open, warning

_G = "facet G(x: Int) => (y: Int)"

CALL_RULES: dict[str, Rule] = {
    "ARG_UNKNOWN": error(
        "ARG_UNKNOWN",
        "The arguments of a call are parameters of its facet.",
        "'{name}' is not a parameter of '{facet}'; it has {known}",
        f"namespace a {{ {_G} facet F() andThen {{ s = G(x = 1, «z» = 2) }} }}",
        "namespace a { facet F() andThen { s = F2(x = 1) } facet F2(x: Int) }",
    ),
    "ARG_DUPLICATE": error(
        "ARG_DUPLICATE",
        "An argument is given once.",
        "Argument '{name}' is given twice",
        f"namespace a {{ {_G} facet F() andThen {{ s = G(x = 1, «x» = 2) }} }}",
        "namespace a { facet G(x: Int, y: Int) facet F() andThen { s = G(x = 1, y = 2) } }",
    ),
    "ARG_MISSING": left_open(
        "ARG_MISSING",
        "A parameter without default should be given a value; reading it fails otherwise.",
        "'{facet}' is called without {names}: no default stands in",
        f"namespace a {{ {_G} facet F() andThen {{ s = «G»() }} }}",
        "namespace a { facet G(x: Int = 1) facet F() andThen { s = G() } }",
    ),
    "SCHEMA_UNKNOWN_FIELD": error(
        "SCHEMA_UNKNOWN_FIELD",
        "The arguments of a schema are its fields.",
        "Unknown field '{name}' for schema '{schema}'; it has {known}",
        "namespace a { schema S { x: Int } facet F() andThen { s = S(«y» = 1) } }",
        "namespace a { schema S { x: Int } facet F() andThen { s = S() } }",
    ),
    "SCHEMA_INSTANTIATION_NO_BODY": error(
        "SCHEMA_INSTANTIATION_NO_BODY",
        "A schema is made, not run: it takes no andThen.",
        "'{name}' is a schema and takes no andThen",
        "namespace a { schema S { x: Int } facet F() andThen { s = S(x = 1) «andThen» { } } }",
        "namespace a { facet S(x: Int) facet F() andThen { s = S(x = 1) andThen { } } }",
    ),
    "SCHEMA_INSTANTIATION_NO_MIXINS": error(
        "SCHEMA_INSTANTIATION_NO_MIXINS",
        "A schema is made, not run: it takes no mixins.",
        "'{name}' is a schema and cannot have mixins",
        "namespace a { schema S { x: Int } facet G() facet F() andThen { s = S(x = 1) with «G»() } }",
        "namespace a { facet S(x: Int) facet G() facet F() andThen { s = S(x = 1) with G() } }",
    ),
    "MIXIN_ALIAS_NAME_CONFLICT": error(
        "MIXIN_ALIAS_NAME_CONFLICT",
        "The alias of a mixin is a name of its own among the parameters, returns and other aliases of the signature.",
        "Alias '{name}' of this mixin is {what} of the signature already",
        "namespace a { facet G() facet F(x: Int) with G() as «x» }",
        "namespace a { facet G() facet F(x: Int) with G() as g with G() as h }",
        "choose another alias",
    ),
    "MIXIN_NOT_EVENT": warning(
        "MIXIN_NOT_EVENT",
        "`Timeout` and `Retry` of the library are for event facets that agents answer; nothing reads them elsewhere.",
        "{name} has no effect on '{facet}', which no agent answers",
        f"namespace a {{ {_G} facet F() andThen {{ s = G(x = 1) with «Retry»(times = 2) }} }}",
        "namespace a { event facet G() facet F() andThen { s = G() with Retry(times = 2) with Timeout(ms = 5) } }",
        "put it on the event facet itself, or on its call",
    ),
    "MIXIN_NOT_LITERAL": error(
        "MIXIN_NOT_LITERAL",
        "The values of `Retry` are literals: they are part of the program, not of a run.",
        "'{name}' of {mixin} is a literal; this is computed while the program runs",
        "namespace a { event facet G() facet F(n: Int) andThen { s = G() with Retry(times = «$.n») } }",
        'namespace a { event facet G() facet F(n: Int) andThen { s = G() with Retry(errors = ["Busy"]) } }',
    ),
    "MIXIN_NOT_LITERAL time": warning(
        "MIXIN_NOT_LITERAL",
        "The values of `Timeout` should be literal whole numbers of at least 0; others count as nothing.",
        "'{name}' of {mixin} is a literal of at least 0; this value has no effect",
        "namespace a { event facet G() facet F(n: Int) andThen { s = G() with Timeout(ms = «$.n») } }",
        "namespace a { event facet G() facet F() andThen { s = G() with Timeout(ms = 0) } }",
    ),
    "MIXIN_OUT_OF_RANGE": error(
        "MIXIN_OUT_OF_RANGE",
        "The numbers of `Retry` and `Timeout` are not negative, a factor is 1 or more, a time a hundred years or less.",
        "{name} of {mixin} is {wanted}, found {found}",
        "namespace a { event facet G() facet F() andThen { s = G() with Retry(factor = «0.5») } }",
        "namespace a { event facet G() facet F() andThen { s = G() with Retry(factor = 1, times = 0) } }",
    ),
    "IMPLICIT_UNKNOWN_PARAM": error(
        "IMPLICIT_UNKNOWN_PARAM",
        "An implicit supplies parameters of its facet.",
        "'{name}' is not a parameter of '{facet}'; it has {known}",
        f"namespace a {{ {_G} implicit g = G(«z» = 1) }}",
        f"namespace a {{ {_G} implicit g = G(x = 1) facet F() andThen {{ s = G() }} }}",
    ),
    "IMPLICIT_NOT_CONSTANT": error(
        "IMPLICIT_NOT_CONSTANT",
        "An implicit supplies constants.",
        "The implicit value of '{name}' uses {written}; only constants may be used",
        f"namespace a {{ {_G} implicit g = G(x = «$.y») }}",
        f"namespace a {{ {_G} implicit g = G(x = -(1 + 2)) }}",
    ),
    "RETURN_UNSET": warning(
        "RETURN_UNSET",
        "Each return of a workflow should have a default, or be set by a yield; it is not among the outputs otherwise.",
        "No yield of '{name}' sets {returns}, and there is no default",
        "namespace a { workflow W(x: Int) => («y»: Int) andThen { } }",
        "namespace a { workflow W(x: Int) => (y: Int, z: Int = 1) andThen { yield W(y = $.x) } }",
    ),
    "YIELD_INVALID_TARGET": error(
        "YIELD_INVALID_TARGET",
        "A yield gives to the declaration around it, to one of its mixins, or to the facet of a step in whose body or "
        "catch it stands.",
        "Invalid yield target '{name}': it must be the containing facet or one of its mixins, or the facet of an "
        "enclosing step; here: {allowed}",
        f"namespace a {{ {_G} facet F() => (y: Int) andThen {{ yield «G»(y = 1) }} }}",
        f"namespace a {{ {_G} facet F() => (y: Int) andThen {{ s = G(x = 1) andThen {{ yield G(y = 1) }} }} }}",
    ),
    "YIELD_DUPLICATE_TARGET": error(
        "YIELD_DUPLICATE_TARGET",
        "A block gives to a target once.",
        "Duplicate yield target '{name}' in this block",
        "namespace a { facet F() => (y: Int, z: Int) andThen { yield F(y = 1) yield «F»(z = 2) } }",
        "namespace a { facet F() => (y: Int, z: Int) andThen { yield F(y = 1) } andThen { yield F(z = 2) } }",
        "one yield may give several fields",
    ),
    "YIELD_UNKNOWN_FIELD": error(
        "YIELD_UNKNOWN_FIELD",
        "A yield gives declared returns of its target, or parameters of a mixin.",
        "'{name}' is not a return of '{facet}'; it returns {known}",
        "namespace a { facet F() => (y: Int) andThen { yield F(«z» = 1) } }",
        "namespace a { facet F() => (y: Int) andThen { yield F(y = 1) } }",
    ),
    "YIELD_TARGET_AMBIGUOUS": error(
        "YIELD_TARGET_AMBIGUOUS",
        "A mixin that the signature has several times is yielded to by an alias.",
        "Ambiguous yield target '{name}': the signature has {count} mixins of that name; yield to an alias: {aliases}",
        f"namespace a {{ {_G} facet F() with G(x = 1) as g with G(x = 2) as h andThen {{ yield «G»(y = 1) }} }}",
        f"namespace a {{ {_G} facet F() with G(x = 1) as g with G(x = 2) as h andThen {{ yield h(y = 1) }} }}",
    ),
}
