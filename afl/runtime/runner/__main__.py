"""Run the runner service: `python -m afl.runtime.runner`."""

from afl.workers.service.__main__ import main, run

__all__ = ["main"]

if __name__ == "__main__":
    run()
