"""Avro's binary encoding, for schemas of ours and of others."""
