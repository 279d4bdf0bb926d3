"""Thumbnails: an image pipeline on files, with nothing but Python's own library."""
