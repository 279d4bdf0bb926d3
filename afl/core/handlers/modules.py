"""Load handlers from Python modules, and register the facets that a module handles.

A module is named by a dotted path (`shop.billing`), a `file://` URI or a path to a `.py` file. It may be written in
three ways:

  1. `def handle(payload)`: one function for one facet, or for several, distinguished by `payload["_facet_name"]`.
  2. `def handle(payload)` beside a mapping `_DISPATCH` (or `FACETS`, or `FACET = "ns.Name"`): its keys are the facets.
  3. `def register_handlers(runner)`: the module itself calls `runner.register("ns.Name", function)` or
     `runner.register_handler(facet_name=..., module_uri=..., ...)`.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import importlib.abc
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlparse

from afl.core.errors import AFLError
from afl.core.handlers.calling import Handler
from afl.core.text.exception_text import class_name, exception_line
from afl.core.text.near_names import close_names

DEFAULT_ENTRYPOINT: Final = "handle"
#: The prefix of the module names given to files; a digest follows.
_OF_FILE: Final = "afl_handlers_"
REGISTER_FUNCTION: Final = "register_handlers"
#: The names by which a module may declare the facets of its entrypoint, in the order in which they are looked at.
FACET_ATTRIBUTES: Final = ("FACET", "FACETS", "_DISPATCH", "DISPATCH")

#: Names that a hint about a missing module leaves out.
_OURS: Final = frozenset({"afl", "afl_stream"})

#: The exceptions that loading a module may raise. KeyboardInterrupt is excluded: it is Ctrl-C during the load.
_ITS_OWN: Final = (Exception, SystemExit, GeneratorExit, asyncio.CancelledError)

FACET_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*\Z")


class HandlerModuleError(AFLError):
    """A handler module cannot be used as it was named."""

    def __init__(self, module_uri: str, found: str, expected: str) -> None:
        super().__init__(f"handler module {module_uri}: {found}; expected {expected}")
        self.module_uri = module_uri
        self.found = found
        self.expected = expected


class ModuleNotLoaded(HandlerModuleError, ImportError):
    """A module that does not exist, or that raised while it was loaded."""


class FunctionMissing(HandlerModuleError, AttributeError):
    """A module without the named function."""


class NotAFunction(HandlerModuleError, TypeError):
    """An object of the module that cannot be called as a function."""


class FacetsUnknown(HandlerModuleError, ValueError):
    """The facets of a module are not declared, or not in a usable way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlersArgument:
    """One `--handlers` argument, taken apart: `MODULE[:ENTRYPOINT][=FACET[,FACET...]]`.

    A plain `handle` cannot know its facets. They are those of the argument
    (`--handlers shop.billing=billing.Pay,billing.Void`; another function is named as in
    `--handlers shop.billing:refund=billing.Refund`), else those that the module names, else those of `--facet`. None of
    the three is an error.
    """

    module_uri: str
    entrypoint: str | None = None
    facets: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> HandlersArgument:
        """Parse the argument. Raises FacetsUnknown when a part is empty or a facet name is invalid."""
        rest, equals, names = text.partition("=")
        facets = tuple(name.strip() for name in names.split(",")) if equals else ()
        for name in facets:
            if not FACET_NAME.match(name):
                raise FacetsUnknown(text, f"{name!r} is not a facet name", "MODULE=namespace.Facet,namespace.Other")
        module_uri, colon, entrypoint = rest.rpartition(":")
        if not colon or not entrypoint.isidentifier():
            module_uri, entrypoint = rest, ""
        if not module_uri:
            raise FacetsUnknown(text, "no module is named", "a dotted path, a file:// URI or a path to a .py file")
        return cls(module_uri=module_uri, entrypoint=entrypoint or None, facets=facets)


class HandlerRegistrar(Protocol):
    """The argument of `register_handlers(runner)`. Some runners accept more options for a handler."""

    def register(self, facet_name: str, handler: Handler, /) -> None:
        """Handle a facet with a function."""

    def register_handler(self, facet_name: str, module_uri: str, entrypoint: str = DEFAULT_ENTRYPOINT) -> None:
        """Handle a facet with a function of a module."""


class ModuleLoader:
    """Loader that loads each (module_uri, checksum) once; another checksum loads again. Any thread may use it.

    A newly loaded module stands beside the old one: a running handler keeps the old one.
    """

    def __init__(self, *, reads_again: bool = False) -> None:
        """`reads_again`: modules that this process has imported already are made anew from their text, too."""
        self._reads_again = reads_again
        self._lock = RLock()
        self._modules: dict[tuple[str, str], ModuleType] = {}

    def load(self, module_uri: str, checksum: str = "") -> ModuleType:
        """Return the module. Raises ModuleNotLoaded that names it, with the module's own exception as the cause."""
        key = (module_uri, checksum)
        # An RLock: a module may load others while it is loaded.
        with self._lock:
            module = self._modules.get(key)
            if module is not None:
                return module
            with _guarded(module_uri):
                known = self._reads_again or any(uri == module_uri for uri, _ in self._modules)
                path = path_of(module_uri)
                module = _import_file(module_uri, path, checksum) if path else _import_dotted(module_uri, known)
            self._modules[key] = module
            return module

    def function(self, module_uri: str, entrypoint: str = DEFAULT_ENTRYPOINT, checksum: str = "") -> Handler:
        """Return the module's function of this name, looked up now: a module may rebind the name.

        Raises ModuleNotLoaded, FunctionMissing and NotAFunction, with the module, the object found, and near names.
        """
        module = self.load(module_uri, checksum)
        # Without `_guarded`, which costs a microsecond: an agent looks its handler up for each event.
        try:
            has_it, function = hasattr(module, entrypoint), getattr(module, entrypoint, None)
        except _ITS_OWN as error:
            raise _raised(module_uri, error) from error
        if not has_it:
            functions = sorted(n for n, v in vars(module).items() if callable(v) and not n.startswith("__"))
            near = close_names(entrypoint, functions, 3)
            there = f"did you mean {', '.join(near)}?" if near else f"it has {', '.join(functions) or 'no functions'}"
            raise FunctionMissing(module_uri, f"it has no {entrypoint!r}", f"a function of that name ({there})")
        if not callable(function):
            found = f"{entrypoint!r} is a {class_name(type(function))}, not callable"
            raise NotAFunction(module_uri, found, "a function")
        handler: Handler = function
        return handler


def register_module(
    registrar: HandlerRegistrar,
    loader: ModuleLoader,
    module_uri: str,
    facets: Sequence[str] = (),
    *,
    entrypoint: str | None = None,
    otherwise: Sequence[str] = (),
) -> None:
    """Register all handlers of a module.

    `facets`, when given, are those of its `entrypoint`; else the module declares them; `otherwise` is for a module that
    does not. Raises HandlerModuleError.
    """
    module = loader.load(module_uri)
    with _guarded(module_uri):
        registers_itself = not facets and entrypoint is None and hasattr(module, REGISTER_FUNCTION)
    if registers_itself:
        _call_register_handlers(module_uri, registrar, loader)
        return
    name = entrypoint or DEFAULT_ENTRYPOINT
    if entrypoint is None and not facets:
        _require_handlers(module_uri, module)
    loader.function(module_uri, name)
    with _guarded(module_uri):
        found = tuple(facets) or _facets_of(module_uri, module) or tuple(otherwise)
    if not found:
        raise FacetsUnknown(
            module_uri,
            f"it has a {name}() that could handle anything",
            f"facet names: --handlers {module_uri}=ns.Facet, a mapping _DISPATCH or FACET in the module, a function "
            f"{REGISTER_FUNCTION}, or --facet ns.Facet",
        )
    for facet in found:
        registrar.register_handler(facet_name=facet, module_uri=module_uri, entrypoint=name)


def _require_handlers(module_uri: str, module: ModuleType) -> None:
    """Raise FunctionMissing for a module without either of the two functions, with the name that comes nearest."""
    with _guarded(module_uri):
        if hasattr(module, DEFAULT_ENTRYPOINT):
            return
        functions = sorted(n for n, v in vars(module).items() if callable(v) and not n.startswith("__"))
    near = close_names(REGISTER_FUNCTION, functions, min_likeness=0.8)
    near = near or close_names(DEFAULT_ENTRYPOINT, functions, min_likeness=0.8)
    there = f"{near[0]!r} looks like one of them" if near else f"it has {', '.join(functions) or 'no functions'}"
    raise FunctionMissing(
        module_uri,
        f"it has neither {REGISTER_FUNCTION!r} nor {DEFAULT_ENTRYPOINT!r}",
        f"{REGISTER_FUNCTION}(runner), which registers functions by facet, or {DEFAULT_ENTRYPOINT}(payload) ({there})",
    )


def checksum_of(module_uri: str) -> str:
    """Return a digest of the module's text, which changes with it; empty without a text, or where it is not here."""
    path = path_of(module_uri)
    try:
        if path is None:
            spec = importlib.util.find_spec(module_uri)
            path = Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None
        return "" if path is None else hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except (ImportError, OSError, ValueError):
        return ""


def path_of(module_uri: str) -> Path | None:
    """Return the file that the URI names, or None when it is a dotted path."""
    if module_uri.startswith("file:"):
        return Path(unquote(urlparse(module_uri).path))
    if module_uri.endswith(".py") or "/" in module_uri:
        return Path(module_uri)
    return None


def module_of(handler: Handler) -> str:
    """Return the module of a function: its dotted path, or its file where it was loaded from one."""
    name = getattr(handler, "__module__", None) or ""
    file = getattr(sys.modules.get(name), "__file__", None) if name.startswith(_OF_FILE) else None
    return file or name


def full_uri(module_uri: str) -> str:
    """Return the module in a form that any process finds, wherever it runs: a path becomes a file:// URI."""
    path = path_of(module_uri)
    return module_uri if path is None or module_uri.startswith("file:") else path.resolve().as_uri()


def _call_register_handlers(module_uri: str, registrar: HandlerRegistrar, loader: ModuleLoader) -> None:
    counted = _Counted(registrar)
    register = loader.function(module_uri, REGISTER_FUNCTION)
    try:
        register(counted)
    except HandlerModuleError:
        raise
    except _ITS_OWN as error:
        raise ModuleNotLoaded(
            module_uri,
            f"{REGISTER_FUNCTION}() raised {exception_line(error)}",
            "that it registers its handlers",
        ) from error
    if not counted.count:
        raise FacetsUnknown(
            module_uri, f"{REGISTER_FUNCTION}() registered nothing", "a call of runner.register_handler or register"
        )


class _Counted:
    """A registrar that counts: a module that registers no handler is a mistake, to be reported at start."""

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
        if not names or not all(isinstance(name, str) and FACET_NAME.match(name) for name in names):
            raise FacetsUnknown(module_uri, f"{attribute} is {value!r:.200}", "facet names such as 'billing.Pay'")
        return names
    return ()


def _import_file(module_uri: str, path: Path, checksum: str) -> ModuleType:
    if not path.is_file():
        beside = sorted(p.name for p in path.parent.glob("*.py")) if path.parent.is_dir() else []
        near = close_names(path.name, beside, 3)
        hint = _or_near(near, f"{path.parent} has", beside)
        raise ModuleNotLoaded(module_uri, f"there is no file {path}", f"a .py file ({hint})")
    name = _OF_FILE + hashlib.sha256(f"{path.resolve()}\0{checksum}".encode()).hexdigest()[:16]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ModuleNotLoaded(module_uri, "Python has no loader for it", "a file whose name ends in .py")
    return _run(module_uri, spec, path.read_bytes())


def _import_dotted(module_uri: str, known: bool) -> ModuleType:
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(module_uri)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if not (module_uri == missing or module_uri.startswith(missing + ".")):
            raise ModuleNotLoaded(
                module_uri, f"it imports {missing}, which is not installed", "a module that loads"
            ) from error
        raise ModuleNotLoaded(
            module_uri, f"there is no module {missing}", f"one that Python finds ({_near_modules(missing)})"
        ) from error
    except _ITS_OWN as error:
        raise _raised(module_uri, error) from error
    spec = module.__spec__
    if not known or spec is None or not isinstance(spec.loader, importlib.abc.InspectLoader):
        return module
    source = spec.loader.get_source(module_uri)
    # A module without a source, such as an extension, stays the same.
    return module if source is None else _run(module_uri, spec, source)


def _run(module_uri: str, spec: ModuleSpec, source: str | bytes) -> ModuleType:
    """Make a new module from this text.

    The text itself is compiled: a bytecode cache only compares whole seconds, and a changed file may be younger than
    that.
    """
    module, name = importlib.util.module_from_spec(spec), spec.name
    before = sys.modules.get(name)
    # Registered before it runs: dataclasses and pickle look their module up by name.
    sys.modules[name] = module
    try:
        exec(compile(source, spec.origin or module_uri, "exec"), module.__dict__)
    except BaseException as error:
        if before is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = before
        if isinstance(error, _ITS_OWN):
            raise _raised(module_uri, error) from error
        raise
    return module


@contextmanager
def _guarded(module_uri: str) -> Iterator[None]:
    """Turn an exception of a module that is read or called, or of opening its file, into ModuleNotLoaded."""
    try:
        yield
    except HandlerModuleError:
        raise
    except _ITS_OWN as error:
        raise _raised(module_uri, error) from error


def _raised(module_uri: str, error: BaseException) -> ModuleNotLoaded:
    return ModuleNotLoaded(module_uri, f"it raised {exception_line(error)}", "a module that loads")


def _near_modules(missing: str) -> str:
    """Return names of modules where the missing one was looked for."""
    parent, _, last = missing.rpartition(".")
    if parent in sys.modules and not hasattr(sys.modules[parent], "__path__"):
        return f"{parent} is a module; its functions are named as in {parent}:{last}=ns.Facet"
    places = [Path(p) for p in (sys.modules[parent].__path__ if parent in sys.modules else sys.path[:3])]
    names = sorted(
        {p.stem for place in places if place.is_dir() for p in place.iterdir() if p.suffix == ".py" or p.is_dir()}
    )
    names = [name for name in names if name.isidentifier() and not name.startswith("__") and name not in _OURS]
    return _or_near(close_names(last, names, 3), f"{parent or 'the path'} has", names[:10])


def _or_near(near: Sequence[str], lead: str, names: Sequence[str]) -> str:
    if near:
        return f"did you mean {', '.join(near)}?"
    return f"{lead} {', '.join(names) or 'none'}"
