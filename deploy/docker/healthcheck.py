"""The image's health check: ask the service of this container whether it is ready.

HEALTH_URL is what is asked; without it, /health/ready on AFL_METRICS_PORT. A container that has neither runs a command,
and is healthy as long as it runs.
"""

import http.client
import os
import sys
from urllib.parse import urlsplit

_TIMEOUT_S = 5


def main() -> int:
    """Return 0 if the service says that it is ready, else 1 with what it said."""
    port = os.environ.get("AFL_METRICS_PORT")
    url = os.environ.get("HEALTH_URL") or (f"http://127.0.0.1:{port}/health/ready" if port else None)
    if url is None:
        return 0
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", parts.path)
        answer = connection.getresponse()
        said = answer.read(2000).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        sys.stdout.write(f"{url}: {error}\n")
        return 1
    finally:
        connection.close()
    sys.stdout.write(f"{said}\n")
    return 0 if answer.status == http.client.OK else 1


if __name__ == "__main__":
    sys.exit(main())
