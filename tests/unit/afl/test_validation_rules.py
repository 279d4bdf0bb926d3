"""Every rule of the table is broken by its example, exactly once and in the right place, and kept by its near miss."""

import re

import pytest

from afl.diagnostics import Severity
from afl.validation import RULES
from tests.unit.afl.checking import check_texts

#: The rules that a text can break; the others are for trees made by hand, and tested with such.
OF_TEXTS = [key for key, rule in RULES.items() if rule.example]

#: The codes that other compilers of the language have as well, with their severities here.
SHARED_ERRORS = """
    DUPLICATE_NAME DUPLICATE_STEP_NAME SCHEMA_AT_TOP_LEVEL USE_UNKNOWN_NAMESPACE REF_UNKNOWN_FACET REF_AMBIGUOUS_FACET
    REF_UNKNOWN_TYPE REF_UNKNOWN_SCHEMA REF_AMBIGUOUS_SCHEMA REF_INVALID_INPUT REF_UNDEFINED_STEP REF_FORWARD_STEP
    REF_CROSS_BLOCK_STEP REF_INVALID_STEP_FORMAT REF_INVALID_STEP_ATTRIBUTE REF_INVALID_FACET_REF_ATTRIBUTE
    STEP_REF_FACET_MISMATCH MIXIN_ALIAS_NAME_CONFLICT YIELD_INVALID_TARGET YIELD_DUPLICATE_TARGET
    YIELD_TARGET_AMBIGUOUS SCHEMA_UNKNOWN_FIELD SCHEMA_INSTANTIATION_NO_BODY SCHEMA_INSTANTIATION_NO_MIXINS
    IMPLICIT_UNKNOWN_PARAM PROMPT_MISSING_TEMPLATE PROMPT_INVALID_PLACEHOLDER SCRIPT_EMPTY SCRIPT_UNSUPPORTED_LANGUAGE
    SYS_ASSERT_NOT_BOOLEAN WHEN_NO_CASES WHEN_MISSING_DEFAULT WHEN_MULTIPLE_DEFAULTS WHEN_DEFAULT_NOT_LAST
    WHEN_CONDITION_NOT_BOOLEAN TYPE_ARITHMETIC_STRING TYPE_ARITHMETIC_BOOLEAN TYPE_ARITHMETIC_SCHEMA TYPE_NEGATE_STRING
    TYPE_NEGATE_BOOLEAN TYPE_NEGATE_SCHEMA TYPE_BOOLEAN_OPERAND_REQUIRED TYPE_NOT_OPERAND_REQUIRED
    TYPE_ORDERED_COMPARISON_BOOLEAN TYPE_ORDERED_COMPARISON_SCHEMA TYPE_CONTAINMENT_OPERAND TYPE_STRING_MATCH_OPERAND
"""
SHARED_WARNINGS = "WORKFLOW_AT_TOP_LEVEL REF_UNKNOWN_FACET REF_AMBIGUOUS_FACET SCHEMA_UNKNOWN_FIELD"
OWN_ERRORS = """
    ARG_UNKNOWN ARG_DUPLICATE DUPLICATE_PARAM YIELD_UNKNOWN_FIELD TYPE_ARG_MISMATCH INT_INEXACT DEFAULT_NOT_CONSTANT
    IMPLICIT_NOT_CONSTANT SCRIPT_SYNTAX SCRIPT_NOT_ALLOWED FOREACH_NOT_ITERABLE LIBRARY_NAME MIXIN_OUT_OF_RANGE
    MIXIN_NOT_LITERAL SENSITIVE_UNKNOWN
"""
OWN_WARNINGS = """
    ARG_MISSING PROMPT_NOT_EVENT RECURSIVE_CALL SHADOWED_STEP_NAME INT_BEYOND_LONG EVENT_NAME_TOO_LONG EVENT_NAME_CLASH
    SCRIPT_UNKNOWN_BUILTIN BIDI_CONTROL RETURN_UNSET MIXIN_NOT_EVENT MIXIN_NOT_LITERAL
    CONTINUES_AT_ONCE
"""


def test_the_table_has_every_code_at_its_severity_and_no_others() -> None:
    errors, warnings = f"{SHARED_ERRORS} {OWN_ERRORS}".split(), f"{SHARED_WARNINGS} {OWN_WARNINGS}".split()

    assert {rule.code for rule in RULES.values() if rule.severity is Severity.ERROR} == set(errors)
    assert {rule.code for rule in RULES.values() if rule.severity is Severity.WARNING} == set(warnings)


def test_a_key_is_a_code_and_perhaps_a_word_or_two_and_meanings_are_sentences() -> None:
    for key, rule in RULES.items():
        assert re.fullmatch(rf"{rule.code}( [a-z ]+)?", key)
        assert rule.meaning.endswith(".")


@pytest.mark.parametrize("key", OF_TEXTS)
def test_the_example_of_a_rule_breaks_it_once_at_the_marked_place(key: str) -> None:
    rule = RULES[key]
    start, end = rule.example.index("«"), rule.example.index("»") - 1
    text = rule.example.replace("«", "").replace("»", "")

    found = [
        (item.code, item.severity, item.line, item.column, item.end_line, item.end_column)
        for item in check_texts([(text, None)]).diagnostics
    ]

    assert found == [(rule.code, rule.severity, *_place(text, start), *_place(text, end))]


@pytest.mark.parametrize("key", OF_TEXTS)
def test_the_near_miss_of_a_rule_is_clean(key: str) -> None:
    assert [item.headline() for item in check_texts([(RULES[key].near_miss, None)]).diagnostics] == []


def _place(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("event facet F() prompt { }", "Prompt block must have a 'template' directive"),
        ('event facet F() prompt { template "{p}" }', "Invalid placeholder '{p}' in template"),
        ('event facet F() prompt { template "" system "{p}" }', "Invalid placeholder '{p}' in system"),
        ("facet F() script { }", "Script block must contain code"),
        ("schema S { } facet M() facet F() andThen { s = S() with M() }", "cannot have mixins"),
        ("workflow F() workflow F()", "Duplicate workflow name 'F'"),
        ("facet F(x: Json = 1 - true)", "Type error: arithmetic operator '-' with Boolean operand"),
    ],
)
def test_messages_keep_the_words_that_users_look_for(text: str, fragment: str) -> None:
    found = check_texts([(f"namespace n {{ {text} }}", None)]).diagnostics

    assert any(fragment in item.message and item.is_error for item in found)
