"""Lucene and Anserini: Java in this process, started when needed, and the `Index` of a Lucene folder."""
