"""Handlers of `--handlers MODULE`: the three ways to write a handler module, and errors that name what is there."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from afl.core.handlers.calling import Handler
from afl.core.handlers.modules import HandlerModuleError, HandlersArgument, ModuleLoader, checksum_of, register_module


class Registrations:
    """Keeps what was registered."""

    def __init__(self) -> None:
        self.functions: dict[str, Handler] = {}
        self.modules: dict[str, tuple[str, str, int | None]] = {}

    def register(self, facet_name: str, handler: Handler, /) -> None:
        self.functions[facet_name] = handler

    def register_handler(
        self,
        facet_name: str,
        module_uri: str,
        entrypoint: str = "handle",
        version: str = "1.0.0",
        checksum: str = "",
        timeout_ms: int | None = None,
        requirements: Sequence[str] | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> None:
        self.modules[facet_name] = (module_uri, entrypoint, timeout_ms)


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    """Provide a directory on Python's path, whose modules are forgotten afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(tmp_path))
    yield tmp_path
    sys.path.remove(str(tmp_path))
    for name in set(sys.modules) - before:
        del sys.modules[name]


def registered(argument: str, facets: Sequence[str] = ()) -> Registrations:
    registrations = Registrations()
    named = HandlersArgument.parse(argument)
    register_module(
        registrations,
        ModuleLoader(),
        named.module_uri,
        named.facets,
        entrypoint=named.entrypoint,
        otherwise=facets,
    )
    return registrations


def refused(argument: str) -> str:
    with pytest.raises(HandlerModuleError) as caught:
        registered(argument)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "module_uri", "entrypoint", "facets"),
    [
        ("shop.billing", "shop.billing", None, ()),
        ("shop.billing=billing.Pay", "shop.billing", None, ("billing.Pay",)),
        (
            "shop.billing:refund=billing.Refund, billing.Void",
            "shop.billing",
            "refund",
            ("billing.Refund", "billing.Void"),
        ),
        ("file:///opt/pay.py", "file:///opt/pay.py", None, ()),
        ("file:///opt/pay.py:run=billing.Pay", "file:///opt/pay.py", "run", ("billing.Pay",)),
        ("./handlers/pay.py:run", "./handlers/pay.py", "run", ()),
    ],
)
def test_an_argument_names_a_module_maybe_a_function_and_maybe_facets(
    text: str, module_uri: str, entrypoint: str | None, facets: tuple[str, ...]
) -> None:
    assert HandlersArgument.parse(text) == HandlersArgument(module_uri=module_uri, entrypoint=entrypoint, facets=facets)


@pytest.mark.parametrize("text", ["", "=billing.Pay", "shop.billing=", "shop.billing=billing Pay", ":run"])
def test_an_argument_without_a_module_or_with_a_name_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(HandlerModuleError):
        HandlersArgument.parse(text)


def test_a_plain_handle_takes_the_facets_of_its_argument(package: Path) -> None:
    (package / "counting.py").write_text("def handle(payload):\n    return {}\n")

    assert registered("counting=docs.Count", facets=["docs.Other"]).modules == {
        "docs.Count": ("counting", "handle", None)
    }


def test_a_plain_handle_takes_the_facets_of_the_command_line_when_nothing_nearer_names_any(package: Path) -> None:
    (package / "counting.py").write_text("def handle(payload):\n    return {}\n")

    assert set(registered("counting", facets=["docs.Count", "docs.Sum"]).modules) == {"docs.Count", "docs.Sum"}


def test_a_plain_handle_without_any_facet_is_refused_with_the_ways_to_name_one(package: Path) -> None:
    (package / "counting.py").write_text("def handle(payload):\n    return {}\n")

    message = refused("counting")

    assert "--handlers counting=ns.Facet" in message
    assert "_DISPATCH" in message
    assert "--facet" in message


@pytest.mark.parametrize(
    "line",
    [
        '_DISPATCH = {"cache.Africa": lambda p: {}, "cache.Europe": lambda p: {}}',
        'FACETS = ["cache.Africa", "cache.Europe"]',
    ],
)
def test_a_dispatching_module_names_its_facets(package: Path, line: str) -> None:
    (package / "cache.py").write_text(f"{line}\ndef handle(payload):\n    return {{}}\n")

    assert set(registered("cache", facets=["unused.Name"]).modules) == {"cache.Africa", "cache.Europe"}


def test_a_module_may_name_its_only_facet(package: Path) -> None:
    (package / "one.py").write_text('FACET = "docs.Count"\nasync def handle(payload):\n    return {}\n')

    assert set(registered("one").modules) == {"docs.Count"}


def test_a_registering_module_is_asked_to_register(package: Path) -> None:
    (package / "regions.py").write_text(
        "def register_handlers(runner):\n"
        "    for name in ('Africa', 'Asia'):\n"
        "        runner.register_handler(facet_name=f'geo.{name}', module_uri='regions', timeout_ms=5000)\n"
        "    runner.register('geo.World', lambda payload: {})\n"
        "def handle(payload):\n"
        "    return {}\n"
    )

    found = registered("regions")

    assert found.modules == {"geo.Africa": ("regions", "handle", 5000), "geo.Asia": ("regions", "handle", 5000)}
    assert set(found.functions) == {"geo.World"}


def test_a_registering_module_that_registers_nothing_is_refused(package: Path) -> None:
    (package / "empty.py").write_text("def register_handlers(runner):\n    pass\n")

    assert "registered nothing" in refused("empty")


def test_a_registering_module_that_raises_is_refused_with_what_it_said(package: Path) -> None:
    (package / "broken.py").write_text("def register_handlers(runner):\n    raise KeyError('region')\n")

    assert "KeyError: 'region'" in refused("broken")


@pytest.mark.parametrize("form", ["{path}", "file://{path}"])
def test_a_module_may_be_a_file(tmp_path: Path, form: str) -> None:
    path = tmp_path / "pay.py"
    path.write_text("def run(payload):\n    return {'paid': payload['amount']}\n")
    uri = form.format(path=path)

    assert registered(f"{uri}:run=billing.Pay").modules == {"billing.Pay": (uri, "run", None)}
    assert ModuleLoader().function(uri, "run")({"amount": 3}) == {"paid": 3}


def test_a_module_that_is_not_there_is_named_with_near_names(package: Path) -> None:
    (package / "billing_handlers.py").write_text("def handle(payload):\n    return {}\n")

    message = refused("biling_handlers")

    assert "biling_handlers" in message
    assert "did you mean billing_handlers?" in message


def test_a_function_that_is_named_as_if_it_were_a_module_is_shown_how_to_be_named(package: Path) -> None:
    (package / "charging.py").write_text("def handle(payload):\n    return {}\n")

    message = refused("charging.handle")

    assert "there is no module charging.handle" in message
    assert "charging is a module; its functions are named as in charging:handle=ns.Facet" in message


def test_a_module_that_imports_what_is_not_installed_says_so(package: Path) -> None:
    (package / "needy.py").write_text("import a_package_nobody_has\n")

    assert "it imports a_package_nobody_has, which is not installed" in refused("needy=a.B")


def test_a_module_that_does_not_load_says_why(package: Path) -> None:
    (package / "wrong.py").write_text("value = 1 / 0\n")

    assert "ZeroDivisionError" in refused("wrong=a.B")


def test_a_file_that_is_not_there_is_named_with_near_names(tmp_path: Path) -> None:
    (tmp_path / "pay.py").write_text("def handle(payload):\n    return {}\n")

    assert "did you mean pay.py?" in refused(f"{tmp_path / 'pya.py'}=a.B")


def test_a_missing_function_is_named_with_near_names(package: Path) -> None:
    (package / "typo.py").write_text("def hanlde(payload):\n    return {}\n")

    message = refused("typo=a.B")

    assert "it has no 'handle'" in message
    assert "did you mean hanlde?" in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def register_handler(runner): ...\n", "('register_handler' looks like one of them)"),
        ("def handel(payload): ...\n", "('handel' looks like one of them)"),
        ("def pay(payload): ...\n", "(it has pay)"),
        ("", "(it has no functions)"),
    ],
)
def test_a_module_without_handlers_is_told_both_ways_to_have_them(package: Path, text: str, said: str) -> None:
    (package / "empty_handed.py").write_text(text)

    message = refused("empty_handed")

    assert "it has neither 'register_handlers' nor 'handle'" in message
    assert message.endswith(said)


def test_something_that_cannot_be_called_is_refused(package: Path) -> None:
    (package / "noun.py").write_text("handle = 3\n")

    assert "'handle' is a int, not callable; expected a function" in refused("noun=a.B")


def test_a_module_is_loaded_once_for_each_checksum(tmp_path: Path) -> None:
    path = tmp_path / "versioned.py"
    path.write_text("def handle(payload):\n    return {'version': 1}\n")
    loader = ModuleLoader()
    assert loader.function(str(path), "handle", "a")({}) == {"version": 1}

    path.write_text("def handle(payload):\n    return {'version': 20}\n")

    assert loader.function(str(path), "handle", "a")({}) == {"version": 1}
    assert loader.function(str(path), "handle", "b")({}) == {"version": 20}


def test_the_function_is_looked_up_at_each_call(tmp_path: Path) -> None:
    path = tmp_path / "switching.py"
    path.write_text(
        "def handle(payload):\n    return {'which': 'first'}\n\ndef other(p):\n    return {'which': 'second'}\n"
    )
    loader = ModuleLoader()
    module = loader.load(str(path))

    setattr(module, "handle", module.other)  # noqa: B010 - a module is open, mypy does not know this one

    assert loader.function(str(path), "handle")({}) == {"which": "second"}


def test_a_module_that_is_loaded_anew_stands_beside_the_one_before(package: Path) -> None:
    path = package / "counting_calls.py"
    path.write_text("count = 0\ndef handle(payload):\n    global count\n    count += 1\n    return {'one': count}\n")
    loader = ModuleLoader()
    before = loader.function("counting_calls", "handle", "a")
    assert before({}) == {"one": 1}

    # Of the same size, and within the second: a bytecode cache would not notice.
    path.write_text(path.read_text().replace("one", "two"))

    assert loader.function("counting_calls", "handle", "b")({}) == {"two": 1}
    assert before({}) == {"one": 2}
    assert loader.function("counting_calls", "handle", "a")({}) == {"one": 3}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def __getattr__(name): raise SystemExit(3)", "it raised SystemExit: 3"),
        ("def __getattr__(name): raise ZeroDivisionError('x')", "it raised ZeroDivisionError: x"),
        ("class Bad(dict):\n    def __iter__(self): raise SystemExit(3)\nFACETS = Bad()\n"
         "def handle(payload): ...", "it raised SystemExit: 3"),
        ("class Bad:\n    def __repr__(self): raise GeneratorExit\nFACET = Bad()\n"
         "def handle(payload): ...", "it raised GeneratorExit"),
    ],
)  # fmt: skip
def test_a_module_that_raises_when_it_is_asked_is_refused(package: Path, text: str, said: str) -> None:
    (package / "asked.py").write_text(text)

    assert said in refused("asked")


def test_a_module_whose_file_cannot_be_read_is_refused(package: Path) -> None:
    name = "n" * 300

    assert "File name too long" in refused(f"{package / name}.py=a.B")


def test_a_module_that_ends_the_process_is_refused(package: Path) -> None:
    (package / "quitting.py").write_text("raise SystemExit(3)\n")

    assert "it raised SystemExit: 3" in refused("quitting=a.B")
    assert "it raised SystemExit: 3" in refused(f"{package / 'quitting.py'}=a.B")


def test_a_change_that_does_not_load_leaves_what_was_loaded(package: Path) -> None:
    path = package / "mended.py"
    path.write_text("def handle(payload):\n    return {'version': 1}\n")
    loader = ModuleLoader()
    loader.load("mended", "a")
    path.write_text("def handle(payload) return\n")

    with pytest.raises(HandlerModuleError):
        loader.load("mended", "b")

    assert loader.function("mended", "handle", "a")({}) == {"version": 1}
    assert sys.modules["mended"] is loader.load("mended", "a")


def test_each_text_of_a_module_has_a_checksum_of_its_own(package: Path) -> None:
    path = package / "summed.py"
    path.write_text("def handle(payload):\n    return {}\n")
    first = checksum_of("summed")

    assert first
    assert checksum_of(str(path)) == checksum_of(path.as_uri()) == first
    path.write_text("def handle(payload):\n    return {'more': 1}\n")
    assert checksum_of("summed") not in ("", first)
    assert checksum_of("nowhere.to.be.found") == checksum_of("/nowhere.py") == ""
