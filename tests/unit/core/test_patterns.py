"""Regular expressions that are compiled when they are first used."""

import re
import subprocess
import sys

import pytest

from afl.core.text.patterns import lazy_pattern


def test_a_lazy_pattern_finds_what_a_compiled_one_finds() -> None:
    given, text = (r"(?P<word>b\w+)-(\d)", re.IGNORECASE), "a-1 BC-2 bd-3"
    lazy, compiled = lazy_pattern(*given), re.compile(*given)

    for _ in range(2):
        found, expected = lazy.search(text), compiled.search(text)
        assert found is not None
        assert expected is not None
        assert (found.span(), found["word"]) == (expected.span(), expected["word"])
        assert lazy.sub(r"<\2>", text) == compiled.sub(r"<\2>", text)
        assert [each.group() for each in lazy.finditer(text, 4)] == [
            each.group() for each in compiled.finditer(text, 4)
        ]
        assert (lazy.match(text), lazy.split(text)) == (compiled.match(text), compiled.split(text))
    assert lazy.pattern == given[0]


def test_a_wrong_pattern_is_refused_at_its_first_use() -> None:
    with pytest.raises(re.error):
        lazy_pattern("(").search("x")


@pytest.mark.parametrize("arguments", [["afl_stream", "--help"], ["afl", "--help"]])
def test_a_command_that_shows_its_help_loads_no_numbers_and_compiles_no_mask(arguments: list[str]) -> None:
    code = (
        "import runpy, sys\n"
        f"sys.argv = {arguments!r}\n"
        "try: runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\n"
        "except SystemExit: pass\n"
        "from afl.core.text import masking\n"
        "compiled = [name for name, found in vars(masking).items() if len(vars(found) if name.isupper() and "
        "hasattr(found, '_given') else ()) > 1]\n"
        "print(compiled + [name for name in ('decimal', 'fractions') if name in sys.modules], file=sys.stderr)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)

    assert ended.stderr.splitlines()[-1:] == ["[]"]
