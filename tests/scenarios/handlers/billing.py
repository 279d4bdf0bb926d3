"""The handler of a facet under a name of its own."""

from typing import Any


def process_payment(payload: dict[str, Any]) -> dict[str, Any]:
    return {"transaction_id": f"txn-{payload['amount']:g}-{payload['currency']}", "status": "approved"}
