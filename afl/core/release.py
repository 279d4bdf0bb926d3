"""The number of this release: the one place that states it.

The wheel's name, `afl.__version__`, `--version` of both commands, and what records, stored rows and telemetry say of
their writer are all this number. It is a literal, because the build reads this file without running it, and a checkout
that is not installed has a version as well.
"""

from typing import Final

#: `major.minor.patch`, three plain numbers: stores and records compare them.
VERSION: Final = "0.1.0"
