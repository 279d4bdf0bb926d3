"""Peers: ours, Faust, Quix Streams and Celery as processes, and DBOS; `python -m benchmarks.peers` runs them."""
