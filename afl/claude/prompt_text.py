"""Prompts of event facets: the text of a template for one step."""

from __future__ import annotations

import re
from collections.abc import Mapping

from afl.core.text.placeholders import PLACEHOLDER
from afl.engine.values.rendering import render_text


def fill_prompt(text: str, values: Mapping[str, object]) -> str:
    """Replace each `{name}` by its value, as `++` renders it; `{{` and `}}` are braces.

    A placeholder without a value of that name stays as it is.
    """

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0][0]
        return render_text(values[name]) if name in values else match[0]

    return PLACEHOLDER.sub(replace, text)
