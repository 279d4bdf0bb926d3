"""The approval: a purchase waits for days for a person, reminds, escalates, and is declined when nobody answers."""
