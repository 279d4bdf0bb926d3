"""Checking a store against its invariants, and purging finished workflows."""
