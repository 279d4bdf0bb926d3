"""The same audit as a plain loop: what the workflow must arrive at."""

from typing import Any

from examples.licence_audit import distributions


def licence_audit(limit: int = 0) -> dict[str, Any]:
    """Return the outputs of the workflow `licences.LicenceAudit`."""
    names = distributions.installed_names()
    reports = [distributions.inspect(name) for name in (names[:limit] if limit > 0 else names)]
    return {
        "totals": distributions.totals_by_licence(reports),
        "reports": reports,
        "files": sum(report["files"] for report in reports),
        "bytes": sum(report["bytes"] for report in reports),
    }
