"""The documentation as a site: the repository's pages, with links that are checked.

    python -m tools.site [FOLDER]

writes static pages into FOLDER (`build/site`). The pages stand as they do in the repository, so that each link means
the same here and there. Ends with 1 when a page has a link to what is not there, or a page is not in the navigation.
"""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort, ConfigurationError

ROOT: Final = Path(__file__).parents[1]
DEFAULT: Final = ROOT / "build" / "site"
#: Files that pages link to, beside the pages: by folder, with the endings that are taken along.
_FOLDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "docs": (".md", ".png", ".svg"),
    "schemas": (".md", ".avsc"),
    "examples": (".md", ".py", ".afl", ".java", ".rb"),
    "clients": (".md",),
    "deploy": (".json", ".yml", ".md"),
    "editors": (".md", ".json", ".js"),
    "tests/fixtures": ("README.md",),
}
_FILES: Final = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docker-compose.yml")
#: Parts of paths that are no pages of ours.
_LEFT_OUT: Final = frozenset({"node_modules", "__pycache__", ".venv", "target", "build"})
#: The sections of the navigation, and their pages in order; what is missing here is an error.
_SECTIONS: Final[Mapping[str, Sequence[str]]] = {
    "Start": ("README.md", "docs/examples.md", "docs/running.md", "docs/dashboard.md", "docs/commands.md"),
    "Language": ("docs/language/*", "docs/language-tools.md", "docs/editors.md", "docs/scripts.md", "docs/codegen.md"),
    "Workflows": ("docs/guide/*", "docs/client.md", "docs/delivery.md"),
    "Agents": (
        *("docs/agents.md", "docs/any-language.md", "schemas/README.md", "docs/schemas.md", "docs/runners.md"),
        *("docs/gateway.md", "docs/claude.md", "docs/mcp.md", "clients/*/README.md"),
    ),
    "Looking": (
        *("docs/looking-back.md", "docs/why.md", "docs/dead-letters.md", "docs/lifecycle.md", "docs/audit.md"),
        *("docs/logging.md", "docs/monitoring.md", "docs/telemetry.md", "docs/tracing.md"),
    ),
    "Operating": (
        *(
            "docs/deploying.md",
            "docs/kafka.md",
            "docs/security.md",
            "docs/stores.md",
            "docs/operations.md",
            "docs/migrating.md",
            "docs/limits.md",
            "docs/sensitive-data.md",
        ),
        *("docs/failure-matrix.md", "docs/performance.md", "docs/benchmarks.md", "SECURITY.md"),
    ),
    "Examples": ("examples/*/README.md",),
    "Project": ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/testing.md", "docs/decisions/README.md"),
}
#: Pages that others lead to: they are in no section.
_ELSEWHERE: Final = (
    "docs/decisions/*",
    "editors/README.md",
    "deploy/**/README.md",
    "tests/**/README.md",
    "examples/**",
)


class _Counting(logging.Handler):
    """Counts what mkdocs complains of, and says it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1
        sys.stderr.write(f"{record.getMessage()}\n")


def stage(folder: Path) -> None:
    """Copy the pages, and the files that they link to, to where the site is made from."""
    shutil.rmtree(folder, ignore_errors=True)
    for source in _sources():
        target = folder / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _sources() -> Iterator[Path]:
    yield from (ROOT / name for name in _FILES)
    for name, endings in _FOLDERS.items():
        for path in sorted((ROOT / name).rglob("*")):
            if path.is_file() and path.name.endswith(endings) and not _LEFT_OUT & set(path.relative_to(ROOT).parts):
                yield path


def navigation(staged: Path) -> tuple[list[dict[str, list[str]]], list[str]]:
    """Return the navigation, and the pages that are in none of its sections."""
    found: list[dict[str, list[str]]] = []
    seen: set[str] = set()
    for section, patterns in _SECTIONS.items():
        pages = [page for pattern in patterns for page in _pages(staged, pattern) if page not in seen]
        # A page of its own name comes before those of a pattern that take it, too.
        seen.update(pages)
        found.append({section: list(dict.fromkeys(pages))})
    elsewhere = {page for pattern in _ELSEWHERE for page in _pages(staged, pattern)}
    return found, sorted(set(_pages(staged, "**/*.md")) - seen - elsewhere)


def _pages(staged: Path, pattern: str) -> list[str]:
    names = [path.relative_to(staged).as_posix() for path in staged.glob(pattern) if path.suffix == ".md"]
    # A folder's own page first.
    return sorted(names, key=lambda name: (not name.endswith("README.md"), name))


def settings(staged: Path, site: Path) -> dict[str, Any]:
    """Return the settings of mkdocs: nothing comes from other servers, and every link is looked at."""
    return {
        "site_name": "AFL Stream",
        "docs_dir": str(staged),
        "site_dir": str(site),
        "use_directory_urls": False,
        "theme": {
            "name": "material",
            "font": False,
            "features": ["navigation.tabs", "navigation.indexes", "navigation.top", "content.code.copy"],
            "palette": [
                {
                    "media": "(prefers-color-scheme: light)",
                    "scheme": "default",
                    "toggle": {"icon": "material/weather-night", "name": "Dark"},
                },
                {
                    "media": "(prefers-color-scheme: dark)",
                    "scheme": "slate",
                    "toggle": {"icon": "material/weather-sunny", "name": "Light"},
                },
            ],
        },
        "markdown_extensions": [
            "tables",
            {"toc": {"permalink": True, "slugify": _slug}},
            "pymdownx.highlight",
            "pymdownx.superfences",
        ],
        "plugins": ["search"],
        "validation": {
            "nav": {"omitted_files": "ignore"},
            # Links to folders and to sources are right where the repository is looked at.
            "links": {"not_found": "warn", "anchors": "warn", "unrecognized_links": "ignore"},
        },
    }


def _slug(text: str, separator: str) -> str:
    """Return the anchor of a heading, as the repository's own pages have it."""
    kept = "".join(char for char in text.strip().lower() if char.isalnum() or char in " -_")
    return kept.replace(" ", separator)


def main(words: Sequence[str] | None = None) -> int:
    """Make the site; return the exit code."""
    given = sys.argv[1:] if words is None else list(words)
    site = Path(given[0]).absolute() if given else DEFAULT
    staged = site.with_name(f"{site.name}-pages")
    stage(staged)
    sections, lost = navigation(staged)
    complaints = _Counting()
    logger = logging.getLogger("mkdocs")
    logger.addHandler(complaints)
    try:
        # mkdocs wants a file; all that it says is given beside it.
        config_file = site.with_name(f"{site.name}.yml")
        config_file.write_text("site_name: AFL Stream\n")
        build(load_config(config_file=str(config_file), nav=sections, **settings(staged, site)))
    except (Abort, ConfigurationError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        logger.removeHandler(complaints)
    for page in lost:
        sys.stderr.write(f"{page} is in no section of the site: see _SECTIONS in tools/site.py\n")
    sys.stdout.write(f"{site / 'index.html'}\n")
    return 1 if complaints.count or lost else 0


if __name__ == "__main__":
    sys.exit(main())
