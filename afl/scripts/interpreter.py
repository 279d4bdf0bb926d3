"""Run scripts inside an isolated process: the names they see, their printed text, and the form of their result."""

from __future__ import annotations

import builtins
import gc
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from types import CodeType, ModuleType
from typing import Any, Final

from afl.core.values import plain_values
from afl.scripts.check import SCRIPT_FILE, check_script
from afl.scripts.errors import MEMORY_ERROR, SCRIPT_ERROR
from afl.scripts.frames import FramesEnded, encode_frame, read_frame, write_all
from afl.scripts.limits import ScriptLimits
from afl.scripts.outcomes import CUT, EXIT_OUT_OF_MEMORY, FAILED, MAX_TEXT_CHARS, SUCCEEDED
from afl.scripts.replies import as_json
from afl.scripts.vocabulary import BUILTIN_NAMES, MODULES, WITHHELD, is_refused_name

#: Modules that Python loads on first use, which is too late here: time zones and parsing of dates, names of characters,
#: and the common encodings.
_LOADED_LATE: Final = (
    "_strptime bisect calendar fractions heapq locale operator unicodedata encodings.ascii encodings.latin_1 "
    "encodings.utf_8_sig encodings.utf_16 encodings.utf_32 encodings.cp1252 encodings.shift_jis encodings.cp932 "
    "encodings.euc_jp encodings.iso2022_jp encodings.hex_codec encodings.unicode_escape"
)


def load_modules() -> dict[str, ModuleType]:
    """Load all modules that scripts may need, and return the modules they may import, by name."""
    for name in _LOADED_LATE.split():
        importlib.import_module(name)
    os.environ["TZ"] = "UTC0"
    time.tzset()
    for codec in ("utf_16", "utf_32", "shift_jis", "cp932", "euc_jp", "iso2022_jp"):
        "あ".encode(codec)
    return {name: importlib.import_module(name) for name in sorted(MODULES)}


_WARM_UP: Final = b"""
def shown(text, times=2):
    return f"{text:>8}" * times + "%s" % str(times).upper()
import datetime, math
texts = sorted(shown(text) for text in params["texts"] if len(text) < 10)
try:
    texts[5]
except IndexError as error:
    result["error"] = repr(error)
result["all"] = {"texts": texts, "number": round(params["number"] * 3), "json": json.loads(json.dumps(texts))}
print(datetime.datetime(2024, 1, 1).isoformat(), math.floor(1.5))
"""


class _Refused(Exception):
    """The script's text is refused."""


class _Printed:
    """The printed text of a script, up to a bound."""

    def __init__(self, max_bytes: int) -> None:
        self._parts: list[str] = []
        self._left = max_bytes

    def print(self, *values: object, sep: str | None = " ", end: str | None = "\n", **_: object) -> None:
        """Print like Python's `print`, but without other files."""
        text = (" " if sep is None else sep).join(map(str, values)) + ("\n" if end is None else end)
        if self._left <= 0:
            return
        # UTF-8 cannot encode a half of a surrogate pair: it is printed as a question mark.
        written = text.encode("utf-8", "replace")
        if len(written) > self._left:
            self._parts.append(written[: self._left].decode("utf-8", "ignore") + CUT)
        else:
            self._parts.append(written.decode())
        self._left -= len(written)

    def text(self) -> str:
        return "".join(self._parts)


class ScriptInterpreter:
    """Interpreter of one script's text, which may run any number of times."""

    def __init__(self, limits: ScriptLimits, modules: Mapping[str, ModuleType]) -> None:
        self._limits = limits
        self._public = {name: _public_names(module) for name, module in modules.items()}
        self._code: CodeType | None = None
        self._text: bytes | None = None

    def run(self, text: bytes, params: bytes) -> bytes:
        """Return the reply to a run: SUCCEEDED or FAILED, then JSON in UTF-8.

        A success is `{"result": {...}, "printed": "..."}`, a failure
        `{"error_type": "...", "text": "...", "line": 1, "printed": "..."}`.
        """
        printed = _Printed(self._limits.printed_bytes)
        names: dict[str, Any] = {}
        try:
            result = self._run(text, params, printed, names)
            return SUCCEEDED + b'{"result":' + result + b',"printed":' + as_json(printed.text()) + b"}"
        except _Refused as refused:
            failure = refused.args[0]
        except BaseException as error:  # noqa: BLE001 - whatever a script raises is its answer
            failure = _describe(error)
            # The traceback holds the script's values, which may fill the memory that the answer needs.
            error.__traceback__ = None
            names.clear()
        return FAILED + as_json({**failure, "printed": printed.text()})

    def warm_up(self) -> None:
        """Run a script while no caller waits: the first touch of the memory shared with the parent takes 2 ms."""
        self.run(_WARM_UP, b'{"number":1.5,"texts":["a","b"]}')
        self._code = self._text = None

    def _run(self, text: bytes, params: bytes, printed: _Printed, names: dict[str, Any]) -> bytes:
        if self._code is None or text != self._text:
            self._code, self._text = _compile(text.decode()), text
        names["__builtins__"] = self._builtins(printed)
        names["json"] = self._facade("json")
        names["params"] = json.loads(params)
        names["result"] = {}
        exec(self._code, names)
        result = names.get("result")
        if not isinstance(result, dict):
            raise _refused("TypeError", f"result must be a dict, not {type(result).__name__}")
        encoded = as_json(plain_values(result, "result"))
        if len(encoded) > self._limits.output_bytes:
            raise _refused(
                SCRIPT_ERROR,
                f"the result takes {len(encoded)} bytes, more than the {self._limits.output_bytes} allowed",
            )
        return encoded

    def _builtins(self, printed: _Printed) -> dict[str, object]:
        names: dict[str, object] = {name: getattr(builtins, name) for name in BUILTIN_NAMES}
        names.update(
            print=printed.print, getattr=_getattr, hasattr=_hasattr, setattr=_setattr, __import__=self._importer()
        )
        return names

    def _importer(self) -> Callable[..., ModuleType | None]:
        """Return the function behind `import`: the check has seen every module name of the text."""
        facades: dict[str, ModuleType] = {}

        def import_module(name: str, *_: object) -> ModuleType | None:
            if name not in self._public:
                if name in sys.modules:
                    # Python's own code imports on a script's behalf (strptime, "\N{BULLET}") and reads it from
                    # elsewhere.
                    return None
                raise ImportError(f"{name} cannot be imported in a script")
            if name not in facades:
                facades[name] = self._facade(name)
            return facades[name]

        return import_module

    def _facade(self, name: str) -> ModuleType:
        """Return a module's public names without the modules it has imported itself, newly made for each run."""
        facade = ModuleType(name)
        vars(facade).update(self._public[name])
        return facade


def serve_scripts(interpreter: ScriptInterpreter) -> None:
    """Answer runs at descriptors 0 and 1 until the pool closes them."""
    while True:
        try:
            reply = interpreter.run(read_frame(0), read_frame(0))
            write_all(1, encode_frame(reply))
        except FramesEnded:
            os._exit(0)
        except MemoryError:
            os._exit(EXIT_OUT_OF_MEMORY)
        gc.collect(0)


def _compile(text: str) -> CodeType:
    checked = check_script(text)
    refusal = checked.refusal
    if refusal is not None or checked.tree is None:
        assert refusal is not None
        raise _refused(refusal.error_type, f"{refusal.message} (line {refusal.line})", refusal.line)
    return compile(checked.tree, SCRIPT_FILE, "exec", dont_inherit=True)


def _refused(error_type: str, text: str, line: int | None = None) -> _Refused:
    return _Refused({"error_type": error_type, "text": text, "line": line})


def _public_names(module: ModuleType) -> dict[str, object]:
    withheld = WITHHELD.get(module.__name__, frozenset())
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    public = {name: getattr(module, name) for name in names if name not in withheld and hasattr(module, name)}
    public = {name: value for name, value in public.items() if not isinstance(value, ModuleType)}
    return {**public, "__all__": sorted(public)}


def _describe(error: BaseException) -> dict[str, object]:
    """Return name, text and line of an exception, whose `str` may be the script's own and may fail as well."""
    if isinstance(error, MemoryError):
        return {"error_type": MEMORY_ERROR, "text": "the script needs more memory than it may have", "line": None}
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == SCRIPT_FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    try:
        text = str(error)[:MAX_TEXT_CHARS].encode("utf-8", "replace").decode()
    except BaseException:  # noqa: BLE001 - see above
        text = ""
    name = type(error).__name__
    return {"error_type": name[:200] if name.isidentifier() else "Exception", "text": text, "line": line}


def _require_open(name: object) -> None:
    # A str subclass could give one name when it is checked and another when it is used.
    if type(name) is not str:
        raise TypeError("attribute name must be string, not " + repr(type(name).__name__))
    if is_refused_name(name):
        raise AttributeError(f"{name} may not be used in a script")


def _getattr(target: object, name: str, *default: object) -> object:
    _require_open(name)
    return getattr(target, name, *default)


def _hasattr(target: object, name: str) -> bool:
    return not (type(name) is str and is_refused_name(name)) and hasattr(target, name)


def _setattr(target: object, name: str, value: object) -> None:
    _require_open(name)
    setattr(target, name, value)


for _guard, _name in ((_getattr, "getattr"), (_hasattr, "hasattr"), (_setattr, "setattr")):
    # Errors name the builtin that the script called.
    _guard.__name__ = _guard.__qualname__ = _name
