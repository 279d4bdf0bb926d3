"""Run the `afl` command: `python -m afl`."""

from afl.core.process.collector import expect_a_short_life


def main() -> int:
    """Run the command and return its exit code; see afl.core.exit_codes."""
    expect_a_short_life()
    # Only now: a collection costs the most while modules are loaded, and finds nothing.
    from afl.cli import main as command

    return command()


if __name__ == "__main__":
    raise SystemExit(main())
