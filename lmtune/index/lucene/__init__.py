"""Lucene and Anserini: Java in this process, started on demand, and the `Index` of a Lucene folder."""
