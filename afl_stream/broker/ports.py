"""Free ports on the loopback address."""

import random
import socket
from collections.abc import Collection

HOST = "127.0.0.1"

#: Below the range from which the system takes ports of outgoing connections. A client that tries again and again to
#: reach a broker that is down could otherwise be given the broker's own port, and the broker could not come back.
_PORTS = range(15_000, 32_000)
_ATTEMPTS = 200


def is_free(port: int) -> bool:
    """Whether something could listen on this port now."""
    with socket.socket() as probe:
        # As the broker does: a port that only waits for old connections to end is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_ports(count: int, avoid: Collection[int] = ()) -> list[int]:
    """Return that many different ports on which nothing listens."""
    chosen: list[int] = []
    for _ in range(_ATTEMPTS):
        if len(chosen) == count:
            break
        port = random.choice(_PORTS)
        if port not in chosen and port not in avoid and is_free(port):
            chosen.append(port)
    if len(chosen) < count:
        raise OSError(f"no {count} free ports found between {_PORTS.start} and {_PORTS.stop - 1}")
    return chosen


def accepts_connections(port: int) -> bool:
    """Whether something listens on this port."""
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False
