"""Bytes on disk: read strictly, written whole or not at all, locked, with digests, built once."""
