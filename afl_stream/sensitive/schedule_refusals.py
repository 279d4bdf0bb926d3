"""Why the inputs of a schedule are refused: they are kept for no run, so for no key that could be dropped."""

from __future__ import annotations

from collections.abc import Collection

from afl_stream.errors import StreamError


class SensitiveSchedule(StreamError):
    """A schedule with sensitive inputs, in a deployment that encrypts them per run."""

    def __init__(self, schedule_id: str, names: Collection[str]) -> None:
        listed = ", ".join(sorted(names))
        super().__init__(
            f"schedule {schedule_id} has sensitive inputs ({listed}), and values are encrypted per run in this "
            "deployment: let the runs look them up, and give the schedule a reference"
        )


class EncryptedSchedule(StreamError):
    """A schedule with inputs that are encrypted already: each of its runs would need a ciphertext of its own."""

    def __init__(self, schedule_id: str, names: Collection[str]) -> None:
        listed = ", ".join(sorted(names))
        super().__init__(
            f"schedule {schedule_id} has encrypted inputs ({listed}), which no run of it could read: values are "
            "encrypted for one run; let the runs look them up, and give the schedule a reference"
        )
