"""Rules about when, prompt, script and sys."""

from afl.validation.rule import Rule, error, warning

_EVENT = "namespace a {{ event facet F(x: Int) prompt {{ {} }} }}"
_F = "namespace a {{ facet F(b: Boolean, n: Int) {} }}"


def _when(cases: str) -> str:
    return _F.format(f"andThen when {{ {cases} }}")


def _script(code: str) -> str:
    return _F.format(f"script {{ {code} }}")


BODY_RULES: dict[str, Rule] = {
    "WHEN_NO_CASES": error(
        "WHEN_NO_CASES",
        "A `when` has cases.",
        "This when has no cases",
        _F.format("andThen «when» { }"),
        _when("case _ => { }"),
        "it needs at least a case _ => { }",
    ),
    "WHEN_MISSING_DEFAULT": error(
        "WHEN_MISSING_DEFAULT",
        "A `when` says what to do if no condition holds.",
        "This when has no default case",
        _F.format("andThen «when» { case $.b => { } }"),
        _when("case $.b => { } case _ => { }"),
        "add a case _ => { } at the end",
    ),
    "WHEN_MULTIPLE_DEFAULTS": error(
        "WHEN_MULTIPLE_DEFAULTS",
        "A `when` has one default case.",
        "Only one case _ is allowed in a when",
        _when("case $.b => { } case _ => { } «case» _ => { }"),
        _when("case $.b => { } case $.b => { } case _ => { }"),
    ),
    "WHEN_DEFAULT_NOT_LAST": error(
        "WHEN_DEFAULT_NOT_LAST",
        "The default case comes last.",
        "The default case must be the last one",
        _when("«case» _ => { } case $.b => { }"),
        _when("case $.b => { } case _ => { }"),
        "move case _ to the end",
    ),
    "WHEN_CONDITION_NOT_BOOLEAN": error(
        "WHEN_CONDITION_NOT_BOOLEAN",
        "The condition of a case is true or false; nothing else counts as either.",
        "Type error: a case wants a Boolean condition, this is {found}",
        _when("case «$.n» => { } case _ => { }"),
        _when("case $.n > 0 => { } case _ => { }"),
    ),
    "SYS_ASSERT_NOT_BOOLEAN": error(
        "SYS_ASSERT_NOT_BOOLEAN",
        "sys.assert checks something that is true or false.",
        "Type error: sys.assert wants a Boolean condition, this is {found}",
        _F.format('andThen { sys.assert(«"n"») }'),
        _F.format("andThen { sys.assert($.n != 0 && $.b) }"),
    ),
    "PROMPT_MISSING_TEMPLATE": error(
        "PROMPT_MISSING_TEMPLATE",
        "A prompt has a template.",
        "Prompt block must have a 'template' directive",
        'namespace a { event facet F() «prompt» { system "Be brief." } }',
        _EVENT.format('template "Say {x}"'),
    ),
    "PROMPT_INVALID_PLACEHOLDER": error(
        "PROMPT_INVALID_PLACEHOLDER",
        "A word in braces, in the template or system text of a prompt, is a parameter.",
        "Invalid placeholder '{{{name}}}' in {directive}: it is not a parameter; there is {known}",
        'namespace a { event facet F(x: Int) prompt { template «"Say {y}"» } }',
        _EVENT.format('template "Say {x} in {{braces}}" model "{any}"'),
        "braces that mean themselves are doubled: {{ and }}",
    ),
    "PROMPT_NOT_EVENT": warning(
        "PROMPT_NOT_EVENT",
        "A prompt is for the agent of an event facet; nothing reads it elsewhere.",
        "'{name}' is not an event facet, so no agent gets this prompt",
        'namespace a { facet F() «prompt» { template "Hi" } }',
        _EVENT.format('template "Hi"'),
        "declare it as an event facet",
    ),
    "SCRIPT_EMPTY": error(
        "SCRIPT_EMPTY",
        "A script has code.",
        "Script block must contain code",
        _F.format("«script» { }"),
        _script("pass"),
    ),
    "SCRIPT_UNSUPPORTED_LANGUAGE": error(
        "SCRIPT_UNSUPPORTED_LANGUAGE",
        "Scripts are written in Python.",
        "Unsupported script language '{language}'; there is only python",
        "",
        "",
    ),
    "SCRIPT_SYNTAX": error(
        "SCRIPT_SYNTAX",
        "A script is valid Python.",
        "Syntax error in this script: {problem}",
        _script('result["n"] = «)»'),
        _script('result["n"] = +1'),
    ),
    "SCRIPT_NOT_ALLOWED": error(
        "SCRIPT_NOT_ALLOWED",
        "A script keeps to a short list of modules and away from Python's internals; others are not run at all.",
        "This script is refused: {problem}",
        _script("«import» os"),
        _script("import math"),
    ),
    "SCRIPT_UNKNOWN_BUILTIN": warning(
        "SCRIPT_UNKNOWN_BUILTIN",
        "A script uses the builtins that it has; the name of another one fails when it is reached.",
        "{problem}",
        _script("«open»"),
        _script("sorted"),
    ),
}
