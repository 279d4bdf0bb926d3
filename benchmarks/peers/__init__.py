"""Peers, each a process of its own: ours, Faust, Quix Streams and Celery; `python -m benchmarks.peers` runs all."""
