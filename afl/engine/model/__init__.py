"""What the engine works on: plans, records, rows, batches, and the port of the store."""
