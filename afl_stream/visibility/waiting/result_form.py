"""The form of an answer by hand."""

from __future__ import annotations

import json

from afl.core.types import type_name
from afl.engine.model.plan import FacetPlan


def result_form(facet: FacetPlan) -> str:
    """Return the form of an answer: each return's name, with its type in place of the value."""
    return f"{{{', '.join(f'{json.dumps(name)}: <{type_name(kind)}>' for name, kind in facet.return_types.items())}}}"
