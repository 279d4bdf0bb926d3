"""Templates of group ids, with placeholders for prefix and facet."""

import re
from typing import Final

from afl_stream.errors import ConfigError

_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")


def check_template(source: str, key: str, template: str, allowed: set[str]) -> None:
    """Raise ConfigError for a template with another placeholder than those allowed, or for an empty one."""
    rest = _PLACEHOLDER.sub("", template)
    if not template or "{" in rest or "}" in rest or not set(_PLACEHOLDER.findall(template)) <= allowed:
        wanted = " and ".join(f"{{{name}}}" for name in sorted(allowed))
        raise ConfigError(source, key, template, f"a group id with no placeholder but {wanted}")


def filled(template: str, prefix: str, facet: str) -> str:
    """Return the group id of a prefix and a facet."""
    return template.replace("{prefix}", prefix).replace("{facet}", facet)
