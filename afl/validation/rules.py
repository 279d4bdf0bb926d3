"""The rules of the language in one table, which drives the messages and the tests."""

from __future__ import annotations

from afl.validation.rule import Rule
from afl.validation.rules_of_bodies import BODY_RULES
from afl.validation.rules_of_calls import CALL_RULES
from afl.validation.rules_of_names import NAME_RULES
from afl.validation.rules_of_steps import STEP_RULES
from afl.validation.rules_of_values import VALUE_RULES

__all__ = ["RULES", "Rule"]

#: The rules by key: the code, followed by a word or two where one code covers several cases.
RULES: dict[str, Rule] = {**NAME_RULES, **STEP_RULES, **CALL_RULES, **BODY_RULES, **VALUE_RULES}
