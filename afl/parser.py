"""The parser: AFL text into a syntax tree, with lookup of missing namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.ast import Program
from afl.errors import ParseError
from afl.source import CompilerInput, SourceRegistry
from afl.syntax.parser import TextParser, decode_source, read_source

if TYPE_CHECKING:
    from afl.config import AFLConfig

__all__ = ["AFLParser", "ParseError", "decode_source", "parse", "read_source"]


class AFLParser(TextParser):
    """Parses texts. Instances share the parse table, hold no state and may be used from several threads."""

    def parse_and_resolve(
        self, compiler_input: CompilerInput, config: AFLConfig | None = None
    ) -> tuple[Program, SourceRegistry]:
        """Return one tree for all texts and for the namespaces they lack, as far as `config` can find them.

        Without a config, `load_config` decides. The found sources are added to the registry, and to the library sources
        of the input.
        """
        from afl.config import load_config
        from afl.resolver import resolver_of

        program, registry = self.parse_sources(compiler_input)
        resolver = resolver_of(config or load_config(), compiler_input)
        if resolver is not None:
            program, registry, _ = resolver.resolve(program, registry, compiler_input)
        return program, registry


def parse(source: str) -> Program:
    """Return the tree of one text; raises ParseError."""
    return AFLParser().parse(source)
