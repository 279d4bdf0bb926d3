"""The command line as a module: `python -m afl_stream`."""

import sys

from afl_stream.cli import main

if __name__ == "__main__":
    sys.exit(main())
