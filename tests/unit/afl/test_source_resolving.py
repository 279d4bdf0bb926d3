"""Sources, their origins, and finding those that a program lacks."""

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from afl.compiler import check_input
from afl.config import AFLConfig, ResolverConfig
from afl.errors import ParseError
from afl.parser import AFLParser, parse
from afl.resolver import DependencyResolver, NamespaceIndex
from afl.source import (
    CompilerInput,
    FileOrigin,
    MavenOrigin,
    MongoDBOrigin,
    SourceEntry,
    SourceRegistry,
)
from afl.sources.needed_names import needed_namespaces

_MAIN = "namespace main { use a.lib facet F() andThen { s = A() t = b.lib.B() } }"
_A = "namespace a.lib { use c.lib facet A() facet Unused(x: c.lib.S) }"
_B = "namespace b.lib { facet B() }"
_C = "namespace c.lib { schema S { x: Int } }"


class Published:
    """Published sources in a dictionary, which counts the questions."""

    def __init__(self, **texts: str) -> None:
        self.texts = {name.replace("_", "."): text for name, text in texts.items()}
        self.questions: list[list[str]] = []

    def batch_find(self, names: Sequence[str]) -> dict[str, str]:
        self.questions.append(list(names))
        return {name: self.texts[name] for name in names if name in self.texts}


def entry(text: str, path: str = "main.afl") -> SourceEntry:
    return SourceEntry(text, FileOrigin(path))


def resolved(resolver: DependencyResolver, text: str) -> tuple[list[str], CompilerInput]:
    sources = CompilerInput([entry(text)])
    program, registry = AFLParser().parse_sources(sources)
    program, registry, sources = resolver.resolve(program, registry, sources)
    assert set(registry.sources) == {item.source_id for item in sources.all_sources}
    return [namespace.name for namespace in program.namespaces], sources


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "deep/er").mkdir(parents=True)
    (tmp_path / "a.afl").write_text(_A)
    (tmp_path / "deep/b.ffl").write_text(_B)
    (tmp_path / "deep/er/c.afl").write_text(_C)
    return tmp_path


def test_origins_have_ids() -> None:
    assert FileOrigin("x/y.afl").to_source_id() == "file://x/y.afl"
    assert MongoDBOrigin("c", "d").to_source_id() == "mongodb://c/d"
    assert MavenOrigin("g", "a", "1").to_source_id() == "maven://g/a/1"
    assert MavenOrigin("g", "a", "1", "sources").to_source_id() == "maven://g/a/1/sources"


def test_a_registry_knows_the_sources_of_an_input() -> None:
    main, lib = entry("facet F()"), SourceEntry("", MongoDBOrigin("c", "d"), is_library=True)
    sources = CompilerInput([main], [lib])

    registry = SourceRegistry.from_compiler_input(sources)

    assert sources.all_sources == [main, lib]
    assert (registry.get("file://main.afl"), registry.get("mongodb://c/d")) == (main.origin, lib.origin)
    assert registry.get("nothing") is None


def test_what_a_program_asks_for_is_told_with_its_place() -> None:
    text = """
namespace m {
    use by.use
    implicit i = by.implicit.F()
    facet F(a: by.type.S, b: [[by.array.S]]) => (c: by.returned.S) with by.mixin.M() andThen {
        s = by.call.F() with by.call.mixin.M() andThen { t = Plain(x = s.y) }
    }
}"""
    needed = needed_namespaces(parse(text))

    assert set(needed) == {
        f"by.{what}" for what in ("use", "implicit", "type", "array", "returned", "mixin", "call", "call.mixin")
    }
    place = needed["by.use"]
    assert place is not None
    assert place.line == 3


def test_folders_are_read_with_all_that_is_in_them(library: Path) -> None:
    index = NamespaceIndex([library])

    assert index.all_namespaces() == {
        "a.lib": library / "a.afl",
        "b.lib": library / "deep/b.ffl",
        "c.lib": library / "deep/er/c.afl",
    }
    assert index.find_namespace("b.lib") == library / "deep/b.ffl"
    assert index.find_namespace("lib") is None


def test_a_file_with_a_mistake_is_left_out_and_told(library: Path, caplog: pytest.LogCaptureFixture) -> None:
    (library / "bad.afl").write_text("namespace bad { facet }")
    (library / "latin.afl").write_bytes(b"// caf\xe9")

    with caplog.at_level(logging.WARNING, "afl.resolver"):
        assert NamespaceIndex([library, library / "none"]).find_namespace("bad") is None

    assert [record.message.split(":")[0] for record in caplog.records] == [
        f"The source path {library / 'none'} does not exist",
        f"Skipped {library / 'bad.afl'}",
        f"Skipped {library / 'latin.afl'}",
    ]


def test_the_first_of_two_files_with_a_namespace_is_taken(library: Path, caplog: pytest.LogCaptureFixture) -> None:
    (library / "z.afl").write_text(_A)

    with caplog.at_level(logging.WARNING, "afl.resolver"):
        assert NamespaceIndex([library]).find_namespace("a.lib") == library / "a.afl"

    assert [record.message for record in caplog.records] == [
        f"Duplicate namespace a.lib: {library / 'a.afl'} is taken, not {library / 'z.afl'}"
    ]


def test_a_folder_named_twice_is_read_once(library: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert len(NamespaceIndex([library, library / "deep"]).all_namespaces()) == 3
    assert caplog.records == []


def test_what_libraries_use_is_found_too(library: Path) -> None:
    names, sources = resolved(DependencyResolver(NamespaceIndex([library])), _MAIN)

    assert names == ["main", "a.lib", "b.lib", "c.lib"]
    assert [item.is_library for item in sources.all_sources] == [False, True, True, True]


def test_nothing_is_added_that_nobody_asks_for(library: Path) -> None:
    names, _ = resolved(DependencyResolver(NamespaceIndex([library])), "namespace main { use b.lib }")

    assert names == ["main", "b.lib"]


def test_a_file_with_several_namespaces_is_added_once(tmp_path: Path) -> None:
    (tmp_path / "both.afl").write_text(f"{_A}\n{_B}\nnamespace c.lib {{ use a.lib schema S {{ x: Int }} }}")

    names, sources = resolved(DependencyResolver(NamespaceIndex([tmp_path])), _MAIN)

    assert names == ["main", "a.lib", "b.lib", "c.lib"]
    assert len(sources.library_sources) == 1


def test_a_file_that_is_compiled_anyway_is_not_added_again(tmp_path: Path) -> None:
    path = tmp_path / "main.afl"
    path.write_text("namespace main { use other }")
    sources = CompilerInput([SourceEntry(path.read_text(), FileOrigin(str(path)))])
    (tmp_path / "other.afl").write_text("namespace other { use main }")

    checked = check_input(sources, config=AFLConfig(resolver=ResolverConfig([str(tmp_path)])))

    assert [namespace.name for namespace in checked.program.namespaces] == ["main", "other"]
    assert checked.diagnostics == ()


def test_files_win_over_published_sources_which_are_asked_once_for_all_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a.afl").write_text(_A)
    published = Published(a_lib="namespace a.lib { wrong", b_lib=_B, c_lib=_C)

    names, sources = resolved(DependencyResolver(NamespaceIndex([tmp_path]), published), _MAIN)

    assert names == ["main", "a.lib", "b.lib", "c.lib"]
    assert published.questions == [["b.lib"], ["c.lib"]]
    assert [item.source_id for item in sources.library_sources[1:]] == [
        "mongodb://afl_sources/b.lib",
        "mongodb://afl_sources/c.lib",
    ]


def test_a_text_that_was_published_under_several_namespaces_is_added_once() -> None:
    both = f"{_A} {_B} {_C}"

    names, sources = resolved(DependencyResolver(None, Published(a_lib=both, b_lib=both, c_lib=both)), _MAIN)

    assert names == ["main", "a.lib", "b.lib", "c.lib"]
    assert len(sources.library_sources) == 1


def test_what_nobody_has_is_left_for_the_validator() -> None:
    names, sources = resolved(DependencyResolver(NamespaceIndex([]), Published()), _MAIN)

    assert (names, sources.library_sources) == (["main"], [])


def test_a_published_source_with_a_mistake_is_named() -> None:
    with pytest.raises(ParseError) as wrong:
        resolved(DependencyResolver(None, Published(b_lib="namespace b.lib { facet }")), "namespace main { use b.lib }")

    assert wrong.value.source_id == "mongodb://afl_sources/b.lib"


def test_a_parser_resolves_as_it_is_configured(library: Path) -> None:
    config = AFLConfig(resolver=ResolverConfig(auto_resolve=True))
    sources = CompilerInput([entry(_MAIN, str(library / "main.afl"))])

    program, registry = AFLParser().parse_and_resolve(sources, config)

    assert [namespace.name for namespace in program.namespaces] == ["main", "a.lib", "b.lib", "c.lib"]
    assert len(registry.sources) == len(sources.all_sources) == 4
    assert len(AFLParser().parse_and_resolve(CompilerInput([entry(_MAIN)]), AFLConfig())[0].namespaces) == 1


def test_warnings_about_libraries_are_not_told_errors_are() -> None:
    warned, wrong = "workflow Top()", "namespace lib { facet F(x: Nope) }"

    def codes(text: str, *, is_library: bool) -> list[str]:
        source = SourceEntry(text, FileOrigin("x.afl"), is_library)
        sources = CompilerInput([], [source]) if is_library else CompilerInput([source])
        return [finding.code for finding in check_input(sources).diagnostics]

    assert codes(warned, is_library=False) == ["WORKFLOW_AT_TOP_LEVEL"]
    assert codes(warned, is_library=True) == []
    assert codes(wrong, is_library=True) == ["REF_UNKNOWN_TYPE"]


def test_the_input_of_a_check_is_left_as_it_was(library: Path) -> None:
    sources = CompilerInput([entry(_MAIN)])

    checked = check_input(sources, config=AFLConfig(resolver=ResolverConfig([str(library)])))

    assert sources.library_sources == []
    assert len(checked.sources.library_sources) == 3
