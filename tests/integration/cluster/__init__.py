"""Tests on a cluster of three brokers that the tests kill and start again."""
