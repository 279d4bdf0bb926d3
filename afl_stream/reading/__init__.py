"""Reading logs: progress, ranges, and offsets of work that is finished."""
