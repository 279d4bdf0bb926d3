"""A mark for tests that a build with compiled modules cannot run."""

from typing import Final

import pytest

from afl.core.build import compiled_modules

#: Compiled code takes instances of the annotated class only; its functions have no code objects and no frames, its
#: classes no `__slots__`.
interpreted_only: Final = pytest.mark.skipif(
    bool(compiled_modules()), reason="it looks into what is compiled here, or stands in for it"
)
