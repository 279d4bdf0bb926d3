"""What operators do to runs: cancel, retry, run again and reset."""
