"""Loads handlers from Python modules, and registers what a module says it handles.

A module is named by a dotted path (`shop.billing`), a `file://` URI or a path to a `.py` file. It may be written in
three ways:

1. `def handle(payload)`: one function for one facet, or for several that it tells apart by `payload["_facet_name"]`.
2. `def handle(payload)` beside a mapping `_DISPATCH` (or `FACETS`, or `FACET = "ns.Name"`): its keys are the facets.
3. `def register_handlers(runner)`: the module calls `runner.register_handler(...)` or `runner.register(...)` itself.

Agents on Kafka read modules in the same way. They deploy without this package, and this package without them: neither
can import the other's loader, so there are two, and a test that runs the same modules under both.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Final, Protocol
from urllib.parse import unquote, urlparse

from afl.runtime.tool_registry import Handler

DEFAULT_ENTRYPOINT: Final = "handle"
REGISTER_FUNCTION: Final = "register_handlers"
#: Where a module may say which facets its entrypoint handles, in the order in which they are looked at.
FACET_ATTRIBUTES: Final = ("FACET", "FACETS", "_DISPATCH", "DISPATCH")


class HandlerRegistrar(Protocol):
    """What `register_handlers(runner)` is given."""

    @property
    def register(self) -> Callable[..., None]:
        """`register(facet_name, function, ...)`."""

    @property
    def register_handler(self) -> Callable[..., None]:
        """`register_handler(facet_name, module_uri, entrypoint, ...)`."""


class ModuleLoader:
    """Loads modules once for each (module_uri, checksum); another checksum loads anew. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._modules: dict[tuple[str, str], ModuleType] = {}

    def load(self, module_uri: str, checksum: str = "") -> ModuleType:
        """Return the module. Raises ImportError that names it, with what it raised itself as the cause."""
        key = (module_uri, checksum)
        with self._lock:
            module = self._modules.get(key)
            if module is None:
                known = any(uri == module_uri for uri, _ in self._modules)
                path = _path_of(module_uri)
                try:
                    module = _import_file(module_uri, path, checksum) if path else _import_dotted(module_uri, known)
                except ImportError:
                    raise
                except Exception as error:
                    raise ImportError(
                        f"handler module {module_uri} raised {type(error).__name__}: {error}", name=module_uri
                    ) from error
                self._modules[key] = module
            return module

    def function(self, module_uri: str, entrypoint: str = DEFAULT_ENTRYPOINT, checksum: str = "") -> Handler:
        """Return the module's function of this name, looked up now: a module may change what it points to.

        Raises ImportError, AttributeError when the module has no such name, TypeError when it is not callable.
        """
        module = self.load(module_uri, checksum)
        if not hasattr(module, entrypoint):
            functions = sorted(name for name, value in vars(module).items() if callable(value) and name[0] != "_")
            near = difflib.get_close_matches(entrypoint, functions, 3) or functions[:10]
            raise AttributeError(
                f"handler module {module_uri} has no {entrypoint!r}; it has {', '.join(near) or 'no functions'}"
            )
        found = getattr(module, entrypoint)
        if not callable(found):
            raise TypeError(f"{entrypoint!r} of handler module {module_uri} is a {type(found).__name__}, not callable")
        handler: Handler = found
        return handler


def register_module(
    registrar: HandlerRegistrar, loader: ModuleLoader, module_uri: str, facets: Sequence[str] = ()
) -> None:
    """
    Register all handlers of a module.

    `facets`, when given, are those of its `handle`; else the module says itself. Raises ValueError when neither does,
    and what the loader raises.
    """
    module = loader.load(module_uri)
    if not facets and hasattr(module, REGISTER_FUNCTION):
        loader.function(module_uri, REGISTER_FUNCTION)(registrar)
        return
    loader.function(module_uri)
    names = tuple(facets) or _facets_of(module_uri, module)
    if not names:
        raise ValueError(
            f"handler module {module_uri} does not say which facets its {DEFAULT_ENTRYPOINT}() is for; name them, or "
            f"give it one of {', '.join(FACET_ATTRIBUTES)} or a function {REGISTER_FUNCTION}"
        )
    for name in names:
        registrar.register_handler(facet_name=name, module_uri=module_uri)


def _facets_of(module_uri: str, module: ModuleType) -> tuple[str, ...]:
    for attribute in FACET_ATTRIBUTES:
        value = getattr(module, attribute, None)
        if value is None:
            continue
        names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, (Mapping, Sequence)) else ()
        if not names or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{attribute} of handler module {module_uri} is {value!r}, expected names of facets")
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
        raise ImportError(f"handler module {module_uri}: there is no file {path}", name=module_uri)
    name = "afl_handlers_" + hashlib.sha256(f"{path.resolve()}\0{checksum}".encode()).hexdigest()[:16]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"handler module {module_uri}: Python loads files whose names end in .py", name=module_uri)
    module = importlib.util.module_from_spec(spec)
    # Before it runs: dataclasses and pickle look their module up by name.
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        # From the text itself: a bytecode cache goes by the second, and a changed file may be younger than that.
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    except BaseException:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise
    return module


def _import_dotted(module_uri: str, known: bool) -> ModuleType:
    importlib.invalidate_caches()
    module = importlib.import_module(module_uri)
    spec = module.__spec__
    if not known or spec is None or not isinstance(spec.loader, importlib.abc.InspectLoader):
        return module
    # A new one beside the old one: who was registered with the old checksum keeps what it had.
    code = spec.loader.get_source(module_uri)
    fresh = importlib.util.module_from_spec(spec)
    sys.modules[module_uri] = fresh
    try:
        exec(compile(code or "", spec.origin or module_uri, "exec"), fresh.__dict__)
    except BaseException:
        sys.modules[module_uri] = module
        raise
    return fresh
