"""Rules about steps, references, calls and yields."""

from afl.validation.rule import Rule, error, warning

_G = "facet G(x: Int) => (y: Int)"

STEP_RULES: dict[str, Rule] = {
    "DUPLICATE_STEP_NAME": error(
        "DUPLICATE_STEP_NAME",
        "The steps of a block have different names.",
        "Duplicate step name '{name}': line {line} has one already",
        "namespace a { facet G() facet F() andThen { s = G(); «s» = G() } }",
        "namespace a { facet G() facet F() andThen { s = G() } andThen { s = G() } }",
    ),
    "SHADOWED_STEP_NAME": warning(
        "SHADOWED_STEP_NAME",
        "A step should not hide a step that its block can see.",
        "Step '{name}' hides the step of that name on line {line}; inside this block the inner one is meant",
        "namespace a { facet G() facet F() andThen { s = G() andThen { «s» = G() } } }",
        "namespace a { facet G() facet F() andThen { s = G() andThen { t = G() }; t = G() } }",
    ),
    "REF_INVALID_INPUT": error(
        "REF_INVALID_INPUT",
        "`$.x` is a parameter, a foreach variable, or an attribute of the step whose body this is.",
        "Invalid input reference '$.{name}': nothing of that name is known here; there is {known}",
        f"namespace a {{ {_G} facet F(a: Int) andThen {{ s = G(x = «$.b») }} }}",
        f"namespace a {{ {_G} facet F(a: Int) andThen {{ s = G(x = $.a) andThen {{ t = G(x = $.y + $.a) }} }} }}",
    ),
    "REF_UNDEFINED_STEP": error(
        "REF_UNDEFINED_STEP",
        "A reference names a step that is visible.",
        "Reference to undefined step '{name}'; visible here: {known}{hint}",
        f"namespace a {{ {_G} facet F() andThen {{ s = G(x = «t.y») }} }}",
        f"namespace a {{ {_G} facet F(xs: [Int]) andThen foreach v in $.xs {{ s = G(x = v) }} }}",
    ),
    "REF_FORWARD_STEP": error(
        "REF_FORWARD_STEP",
        "A step is defined above the statement that refers to it.",
        "Reference to undefined step '{name}': it is defined only on line {line}; move it up",
        f"namespace a {{ {_G} facet F() andThen {{ s = G(x = «t.y»); t = G(x = 1) }} }}",
        f"namespace a {{ {_G} facet F() andThen {{ t = G(x = 1); s = G(x = t.y) }} }}",
    ),
    "REF_CROSS_BLOCK_STEP": error(
        "REF_CROSS_BLOCK_STEP",
        "A block does not see the steps of the blocks beside it.",
        "Reference to undefined step '{name}': it belongs to another andThen block, which runs at the same time",
        f"namespace a {{ {_G} facet F() andThen {{ s = G(x = 1) }} andThen {{ t = G(x = «s.y») }} }}",
        f"namespace a {{ {_G} facet F() andThen {{ s = G(x = 1) andThen {{ t = G(x = s.y) }} }} }}",
        "put the statement into the same block, or into an andThen of the step",
    ),
    "REF_INVALID_STEP_FORMAT": error(
        "REF_INVALID_STEP_FORMAT",
        "A step's attribute is a value, the step itself is not.",
        "'{name}' is a step, not a value; write {name}.attribute",
        f"namespace a {{ {_G} facet F() andThen {{ s = G(x = 1); t = G(x = «s») }} }}",
        f"namespace a {{ {_G} facet F() andThen {{ s = G(x = 1); t = G(x = s.y) }} }}",
    ),
    "REF_INVALID_STEP_ATTRIBUTE": error(
        "REF_INVALID_STEP_ATTRIBUTE",
        "A step is read by a return of its facet (a parameter if it has no returns) or a field of its schema.",
        "Invalid attribute '{attribute}' for step '{step}'; it has {known}",
        f"namespace a {{ {_G} facet F() andThen {{ s = G(x = 1); t = G(x = «s.x») }} }}",
        "namespace a { facet G(x: Int) facet F() andThen { s = G(x = 1); t = G(x = s.x) } }",
    ),
    "YIELD_INVALID_TARGET": error(
        "YIELD_INVALID_TARGET",
        "A yield gives to the declaration around it, or to the facet of a step in whose body it stands.",
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
        "A yield gives declared returns of its target.",
        "'{name}' is not a return of '{facet}'; it returns {known}",
        "namespace a { facet F() => (y: Int) andThen { yield F(«z» = 1) } }",
        "namespace a { facet F() => (y: Int) andThen { yield F(y = 1) } }",
    ),
    "SCHEMA_UNKNOWN_FIELD": error(
        "SCHEMA_UNKNOWN_FIELD",
        "The arguments of a schema are its fields.",
        "Unknown field '{name}' for schema '{schema}'; it has {known}",
        "namespace a { schema S { x: Int } facet F() andThen { s = S(«y» = 1) } }",
        "namespace a { schema S { x: Int } facet F() andThen { s = S() } }",
    ),
    "SCHEMA_UNKNOWN_FIELD path": warning(
        "SCHEMA_UNKNOWN_FIELD",
        "A path through a schema names its fields.",
        "Unknown field '{name}' for schema '{schema}'",
        f"namespace a {{ {_G} schema S {{ x: Int }} facet F(s: S) andThen {{ t = G(x = «$.s.y») }} }}",
        f"namespace a {{ {_G} schema S {{ x: Int }} facet F(s: S) andThen {{ t = G(x = $.s.x) }} }}",
    ),
    "SCHEMA_INSTANTIATION_NO_BODY": error(
        "SCHEMA_INSTANTIATION_NO_BODY",
        "A schema is made, not run: it takes no andThen.",
        "'{name}' is a schema and takes no andThen",
        "namespace a { schema S { x: Int } facet F() andThen { s = S(x = 1) «andThen» { } } }",
        "namespace a { facet S(x: Int) facet F() andThen { s = S(x = 1) andThen { } } }",
    ),
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
    "ARG_MISSING": warning(
        "ARG_MISSING",
        "A parameter without default should be given a value; reading it fails otherwise.",
        "'{facet}' is called without {names}, which have no default",
        f"namespace a {{ {_G} facet F() andThen {{ s = «G»() }} }}",
        "namespace a { facet G(x: Int = 1) facet F() andThen { s = G() } }",
    ),
    "NOT_AVAILABLE bare step": error(
        "NOT_AVAILABLE",
        "Passing on a schema's value by the bare name of its step is part of the language, but not of this version.",
        "'{name}' as a value (a bare step) is not available yet in this version of the compiler",
        "namespace a { schema S { x: Int } facet G(s: S) facet F() andThen { s = S(x = 1); t = G(s = «s») } }",
        "namespace a { schema S { x: Int } facet G(s: S) facet F(s: S) andThen { t = G(s = $.s) } }",
    ),
}
