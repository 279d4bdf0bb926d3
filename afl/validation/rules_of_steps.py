"""Rules about steps, references, calls and yields."""

from afl.validation.rule import Rule, error, left_open, warning

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
        "Reference to undefined step '{name}'; visible here: {known}",
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
    "REF_FORWARD_STEP cycle": error(
        "REF_FORWARD_STEP",
        "No step waits for itself, over other steps neither.",
        "Steps wait for each other, so that none can begin: {cycle}",
        f"namespace a {{ {_G} facet F() andThen {{ s = G(x = «t.y»); t = G(x = s.y) }} }}",
        f"namespace a {{ {_G} facet F() andThen {{ s = G(x = 1); t = G(x = s.y) }} }}",
        "take the value from a parameter or from a step that does not need this one",
    ),
    "REF_CROSS_BLOCK_STEP": error(
        "REF_CROSS_BLOCK_STEP",
        "A block does not see the steps of the blocks beside it.",
        "Reference to undefined step '{name}': it belongs to another andThen block, which runs at the same time",
        f"namespace a {{ {_G} facet F() andThen {{ s = G(x = 1) }} andThen {{ t = G(x = «s.y») }} }}",
        f"namespace a {{ {_G} facet F() andThen {{ s = G(x = 1) andThen {{ t = G(x = s.y) }} }} }}",
        "put the statement into the same block, into an andThen of the step, or into an andThen when",
    ),
    "REF_INVALID_STEP_FORMAT": error(
        "REF_INVALID_STEP_FORMAT",
        "Where no step is asked for, an attribute of the step is the value, the step itself is not.",
        "'{name}' is a step, not a value; write {name}.attribute",
        f"namespace a {{ {_G} facet F() andThen {{ s = G(x = 1); t = G(x = «s») }} }}",
        f"namespace a {{ {_G} facet F() andThen {{ s = G(x = 1); t = G(x = s.y) }} }}",
    ),
    "REF_INVALID_STEP_FORMAT empty": error(
        "REF_INVALID_STEP_FORMAT",
        "A reference names something; one without a name only a tree made by hand can have.",
        "Empty reference: write step.attribute or $.name",
        "",
        "",
    ),
    "REF_INVALID_STEP_ATTRIBUTE": error(
        "REF_INVALID_STEP_ATTRIBUTE",
        "A step is read by a return of its facet (a parameter if it has no returns) or a field of its schema.",
        "Invalid attribute '{attribute}' for step '{step}'; it has {known}",
        f"namespace a {{ {_G} facet F() andThen {{ s = G(x = 1); t = G(x = «s.x») }} }}",
        "namespace a { facet G(x: Int) facet F() andThen { s = G(x = 1); t = G(x = s.x) } }",
    ),
    "SCHEMA_UNKNOWN_FIELD path": left_open(
        "SCHEMA_UNKNOWN_FIELD",
        "A path through a schema names its fields.",
        "Unknown field '{name}' for schema '{owner}'; it has {known}",
        f"namespace a {{ {_G} schema S {{ x: Int }} facet F(s: S) andThen {{ t = G(x = «$.s.y») }} }}",
        f"namespace a {{ {_G} schema S {{ x: Int }} facet F(s: S) andThen {{ t = G(x = $.s.x) }} }}",
    ),
    "REF_INVALID_FACET_REF_ATTRIBUTE": error(
        "REF_INVALID_FACET_REF_ATTRIBUTE",
        "A reference to a step, or the map of a mixin, is read by a parameter, a return or an alias of its facet.",
        "Invalid attribute '{name}' after '{path}': {owner} has no such parameter, return or alias; it has {known}",
        f"namespace a {{ {_G} facet F(of: G) andThen {{ s = G(x = «$.of.z») }} }}",
        f"namespace a {{ {_G} facet F(of: G) andThen {{ s = G(x = $.of.x + $.of.y) }} }}",
    ),
    "STEP_REF_FACET_MISMATCH": error(
        "STEP_REF_FACET_MISMATCH",
        "A parameter of a facet's type takes steps of that facet, and of facets that mix it in.",
        "'{name}' wants a {wanted} step, {found}",
        "namespace a { facet G() facet H(of: G) facet I() facet F() andThen { i = I(); h = H(of = «i») } }",
        "namespace a { facet G() facet H(of: G) facet I() with G() facet F() andThen { i = I(); h = H(of = i) } }",
    ),
}
