"""The keys of a deployment, as its settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.core.text.masking import MASK
from afl_stream.errors import ConfigError
from afl_stream.settings.config import StreamConfig
from afl_stream.settings.sensitive import keys_folder

if TYPE_CHECKING:
    from afl_stream.sensitive.key_files import KeyFolder
    from afl_stream.sensitive.sealing import Sealer


def deployment_keys(config: StreamConfig) -> KeyFolder | None:
    """Return the keys; None where nothing is encrypted, nor was. Raises ConfigError for unusable master keys."""
    path = keys_folder(config.sensitive, config.keys, config.data_dir)
    if path is None:
        return None
    # Most deployments have no keys.
    from afl_stream.sensitive.key_files import KeyFolder, read_master_keys

    master = None
    if config.keys.master is not None:
        try:
            master = read_master_keys(config.keys.master)
        except ValueError as error:
            raise ConfigError("settings", "keys.master", MASK, f"ID=BASE64 of 32 bytes ({error})") from None
    return KeyFolder(path, master)


def deployment_sealer(config: StreamConfig) -> Sealer | None:
    """Return what encrypts and decrypts values; None where nothing is encrypted, nor was.

    Raises ConfigError, and what keeps the keys from being used: KeysMissing, KeyFileRefused, KeyUnavailable.
    """
    keys = deployment_keys(config)
    if keys is None:
        return None
    from afl_stream.sensitive.sealing import Sealer

    keys.check()
    return Sealer(keys, seals=config.sensitive.encrypt)
