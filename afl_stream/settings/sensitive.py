"""The settings of sensitive values: which they are, whether they are encrypted, and where the keys are."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from afl.core.sensitive import PATTERN_FORM, SensitivePatterns
from afl_stream.errors import ConfigError
from afl_stream.settings.sections import flag, listed, text


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitiveSettings:
    """The values that are kept from everyone who need not see them, besides those that programs mark `@sensitive`."""

    fields: str | None = listed(
        None, "sensitive parameters and returns besides those that programs mark: `shop.Charge.card, *.password, card`"
    )
    encrypt: bool = flag(
        False, "whether sensitive values are encrypted in topics and in the store, with the extra `encryption`"
    )
    plain_topics: str | None = listed(
        None,
        "facets whose events hold sensitive values in plain, for agents without keys: names or patterns (`desk.*`)",
    )

    def __post_init__(self) -> None:
        """Refuse a pattern that can be none."""
        try:
            _ = self.patterns
        except ValueError as error:
            raise ConfigError("settings", "sensitive.fields", str(error), PATTERN_FORM) from None

    @property
    def patterns(self) -> SensitivePatterns:
        """The patterns of `fields`. Raises ValueError for a text that is none."""
        return SensitivePatterns(names_in(self.fields))

    def is_plain_topic(self, facet: str) -> bool:
        """Return whether the events of a facet hold its sensitive values as they are."""
        return any(fnmatchcase(facet, pattern) for pattern in names_in(self.plain_topics))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySettings:
    """The keys of encrypted values. Without a path and a master key nothing is opened."""

    path: str | None = text(
        None,
        "folder of the keys, which only its owner may read; by default `keys` in the data folder, if there are keys",
    )
    master: str | None = text(
        None,
        "the master keys in place of the file in that folder: ID=BASE64, separated by commas, the current one first",
        secret=True,
    )


def names_in(listing: str | None) -> tuple[str, ...]:
    """Return the names of a list that is separated by commas."""
    return tuple(name.strip() for name in (listing or "").split(",") if name.strip())


def keys_folder(sensitive: SensitiveSettings, keys: KeySettings, data_dir: Path) -> Path | None:
    """Return the folder of the keys; None where nothing is encrypted, nor was."""
    if keys.path is not None:
        return Path(keys.path)
    return data_dir / "keys" if sensitive.encrypt or keys.master is not None else None
