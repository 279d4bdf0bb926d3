"""Make the tokens of a dashboard once, in the file that is given, for its owner alone; print them the first time."""

import os
import secrets
import sys
from pathlib import Path

_ROLES = ("operate", "read")


def main() -> int:
    """Write the file unless it is there."""
    path = Path(sys.argv[1])
    if path.exists():
        sys.stdout.write(f"{path} stays as it is\n")
        return 0
    lines = [f"compose-{role} {role} {secrets.token_urlsafe(32)}" for role in _ROLES]
    beside = path.with_suffix(".new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    beside.rename(path)
    sys.stdout.write("Sign in with one of these:\n" + "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
