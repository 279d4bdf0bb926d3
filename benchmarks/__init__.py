"""Benchmarks behind the README's claims about speed, which anyone can repeat."""
