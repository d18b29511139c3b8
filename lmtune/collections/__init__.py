"""Test collections: loading by name, from a folder or from files, and their indexes."""
