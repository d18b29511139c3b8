"""Tuned settings put to work in search engines: their own files, and what they compute otherwise."""
