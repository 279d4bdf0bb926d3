"""Finds handlers in Python modules: what `--handlers MODULE` means, and how a module says which facets it handles.

A module is named by a dotted path (`shop.billing`), a `file://` URI or a path to a `.py` file. It may be written in
three ways:

1. `def handle(payload)`: one function for one facet, or for several that it tells apart by `payload["_facet_name"]`.
2. `def handle(payload)` beside a mapping `_DISPATCH` (or `FACETS`, or `FACET = "ns.Name"`): its keys are the facets.
3. `def register_handlers(runner)`: the module calls `runner.register_handler(facet_name=..., module_uri=..., ...)` or
   `runner.register("ns.Name", function)` itself.

A plain `handle` cannot know its facets. They are those of the argument
(`--handlers shop.billing=billing.Pay,billing.Void`; another function is named as in
`--handlers shop.billing:refund=billing.Refund`), else those of the module (form 2),
else those of `--facet`. None of the three is an error.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import unquote, urlparse

from afl_stream.errors import StreamError

DEFAULT_ENTRYPOINT: Final = "handle"
REGISTER_FUNCTION: Final = "register_handlers"
#: Where a module may say which facets its entrypoint handles, in the order in which they are looked at.
FACET_ATTRIBUTES: Final = ("FACET", "FACETS", "_DISPATCH", "DISPATCH")

#: A handler takes the payload, or the payload and a `HandlerContext`; it returns a dict, None, or an awaitable of them.
Handler: TypeAlias = Callable[..., Any]

_FACET_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*\Z")


class HandlerModuleError(StreamError):
    """A handler module cannot be used as it was named."""

    def __init__(self, module_uri: str, found: str, expected: str) -> None:
        super().__init__(f"handler module {module_uri}: {found}; expected {expected}")
        self.module_uri = module_uri
        self.found = found
        self.expected = expected


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlersArgument:
    """One `--handlers` argument, taken apart: `MODULE[:ENTRYPOINT][=FACET[,FACET...]]`."""

    module_uri: str
    entrypoint: str | None = None
    facets: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> HandlersArgument:
        """Take the argument apart. Raises HandlerModuleError when a part is empty or a facet name is none."""
        rest, equals, names = text.partition("=")
        facets = tuple(name.strip() for name in names.split(",")) if equals else ()
        for name in facets:
            if not _FACET_NAME.match(name):
                raise HandlerModuleError(text, f"{name!r} is no facet name", "MODULE=namespace.Facet,namespace.Other")
        module_uri, colon, entrypoint = rest.rpartition(":")
        if not colon or not entrypoint.isidentifier():
            module_uri, entrypoint = rest, ""
        if not module_uri:
            raise HandlerModuleError(text, "no module is named", "a dotted path, a file:// URI or a path to a .py file")
        return cls(module_uri=module_uri, entrypoint=entrypoint or None, facets=facets)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerRegistration:
    """Which function handles a facet. `timeout_ms` None: as long as it takes."""

    facet_name: str
    module_uri: str
    entrypoint: str = DEFAULT_ENTRYPOINT
    version: str = "1.0.0"
    checksum: str = ""
    timeout_ms: int | None = None
    requirements: tuple[str, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)


class HandlerRegistrar(Protocol):
    """What `register_handlers(runner)` is given."""

    def register(self, facet_name: str, handler: Handler) -> None: ...

    def register_handler(
        self,
        facet_name: str,
        module_uri: str,
        entrypoint: str = DEFAULT_ENTRYPOINT,
        version: str = "1.0.0",
        checksum: str = "",
        timeout_ms: int | None = None,
        requirements: Sequence[str] | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> None: ...


class ModuleLoader:
    """Loads handler modules once for each (module_uri, checksum). Any thread may use it."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._modules: dict[tuple[str, str], ModuleType] = {}

    def load(self, module_uri: str, checksum: str = "") -> ModuleType:
        """Return the module; a checksum that is new for it loads it anew. Raises HandlerModuleError."""
        with self._lock:
            key = (module_uri, checksum)
            if key not in self._modules:
                path = _path_of(module_uri)
                loaded_before = any(uri == module_uri for uri, _ in self._modules)
                self._modules[key] = (
                    _import_file(module_uri, path, checksum) if path else _import_dotted(module_uri, loaded_before)
                )
            return self._modules[key]

    def function(self, module_uri: str, entrypoint: str, checksum: str = "") -> Handler:
        """Return the module's function of this name, looked up now: a module may change what it points to.

        Raises HandlerModuleError naming the module, what was found, and near names.
        """
        module = self.load(module_uri, checksum)
        if not hasattr(module, entrypoint):
            functions = sorted(n for n, v in vars(module).items() if callable(v) and not n.startswith("__"))
            near = difflib.get_close_matches(entrypoint, functions, 3)
            there = f"did you mean {', '.join(near)}?" if near else f"it has {', '.join(functions) or 'no functions'}"
            raise HandlerModuleError(module_uri, f"it has no {entrypoint!r}", f"a function of that name ({there})")
        function = getattr(module, entrypoint)
        if not callable(function):
            raise HandlerModuleError(module_uri, f"{entrypoint!r} is a {type(function).__name__}", "a function")
        handler: Handler = function
        return handler


def register_module(
    argument: HandlersArgument, registrar: HandlerRegistrar, loader: ModuleLoader, facets: Sequence[str] = ()
) -> None:
    """Register all handlers of the module that a `--handlers` argument names.

    `facets` are the names of `--facet`, for modules that name none. Raises HandlerModuleError.
    """
    module = loader.load(argument.module_uri)
    by_itself = not argument.facets and argument.entrypoint is None
    if by_itself and hasattr(module, REGISTER_FUNCTION):
        _call_register_handlers(argument.module_uri, registrar, loader)
        return
    entrypoint = argument.entrypoint or DEFAULT_ENTRYPOINT
    loader.function(argument.module_uri, entrypoint)
    names = argument.facets or _facets_of(argument.module_uri, module) or tuple(facets)
    if not names:
        raise HandlerModuleError(
            argument.module_uri,
            f"it has a {entrypoint}() that could handle anything",
            f"facet names: --handlers {argument.module_uri}=ns.Facet, a mapping _DISPATCH or FACET in the module, "
            "or --facet ns.Facet",
        )
    for name in names:
        registrar.register_handler(facet_name=name, module_uri=argument.module_uri, entrypoint=entrypoint)


def _call_register_handlers(module_uri: str, registrar: HandlerRegistrar, loader: ModuleLoader) -> None:
    counted = _Counted(registrar)
    register = loader.function(module_uri, REGISTER_FUNCTION)
    try:
        register(counted)
    except HandlerModuleError:
        raise
    except Exception as error:
        raise HandlerModuleError(
            module_uri,
            f"{REGISTER_FUNCTION}() raised {type(error).__name__}: {error}",
            "that it registers its handlers",
        ) from error
    if not counted.count:
        raise HandlerModuleError(
            module_uri, f"{REGISTER_FUNCTION}() registered nothing", "a call of runner.register_handler or register"
        )


class _Counted:
    """A registrar that counts: a module that registers nothing is a mistake that should be heard of at start."""

    def __init__(self, registrar: HandlerRegistrar) -> None:
        self._registrar = registrar
        self.count = 0

    def register(self, *args: Any, **kwargs: Any) -> None:
        self._registrar.register(*args, **kwargs)
        self.count += 1

    def register_handler(self, *args: Any, **kwargs: Any) -> None:
        self._registrar.register_handler(*args, **kwargs)
        self.count += 1


def _facets_of(module_uri: str, module: ModuleType) -> tuple[str, ...]:
    for attribute in FACET_ATTRIBUTES:
        value = getattr(module, attribute, None)
        if value is None:
            continue
        names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, (Mapping, Sequence)) else ()
        if not names or not all(isinstance(name, str) and _FACET_NAME.match(name) for name in names):
            raise HandlerModuleError(module_uri, f"{attribute} is {value!r}", "facet names such as 'billing.Pay'")
        return names
    return ()


def _path_of(module_uri: str) -> Path | None:
    """The file that the URI names, or None when it is a dotted path."""
    if module_uri.startswith("file:"):
        return Path(unquote(urlparse(module_uri).path))
    if module_uri.endswith(".py") or "/" in module_uri:
        return Path(module_uri)
    return None


def _import_file(module_uri: str, path: Path, checksum: str) -> ModuleType:
    if not path.is_file():
        beside = sorted(p.name for p in path.parent.glob("*.py")) if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, beside, 3)
        raise HandlerModuleError(
            module_uri, "there is no such file", f"a .py file ({_or_near(near, f'{path.parent} has', beside)})"
        )
    name = "afl_handlers_" + hashlib.sha256(f"{path.resolve()}\0{checksum}".encode()).hexdigest()[:16]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise HandlerModuleError(module_uri, "Python has no loader for it", "a file whose name ends in .py")
    module = importlib.util.module_from_spec(spec)
    # Before it runs: dataclasses and pickle look their module up by name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise HandlerModuleError(
            module_uri, f"it raised {type(error).__name__}: {error}", "a module that loads"
        ) from error
    return module


def _import_dotted(module_uri: str, loaded_before: bool) -> ModuleType:
    try:
        module = importlib.import_module(module_uri)
        return importlib.reload(module) if loaded_before else module
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if not (module_uri == missing or module_uri.startswith(missing + ".")):
            raise HandlerModuleError(
                module_uri, f"it imports {missing}, which is not installed", "a module that loads"
            ) from error
        raise HandlerModuleError(
            module_uri, f"there is no module {missing}", f"one that Python finds ({_near_modules(missing)})"
        ) from error
    except Exception as error:
        raise HandlerModuleError(
            module_uri, f"it raised {type(error).__name__}: {error}", "a module that loads"
        ) from error


def _near_modules(missing: str) -> str:
    """What stands where the missing module was looked for."""
    parent, _, last = missing.rpartition(".")
    places = [Path(p) for p in (sys.modules[parent].__path__ if parent in sys.modules else sys.path[:3])]
    names = sorted(
        {p.stem for place in places if place.is_dir() for p in place.iterdir() if p.suffix == ".py" or p.is_dir()}
    )
    names = [name for name in names if name.isidentifier() and not name.startswith("__")]
    return _or_near(difflib.get_close_matches(last, names, 3), f"{parent or 'the path'} has", names[:10])


def _or_near(near: Sequence[str], lead: str, names: Sequence[str]) -> str:
    if near:
        return f"did you mean {', '.join(near)}?"
    return f"{lead} {', '.join(names) or 'none'}"
