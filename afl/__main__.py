"""Run the `afl` command: `python -m afl`."""

from afl.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
