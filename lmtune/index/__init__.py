"""Text analysis, the `Index` protocol, and the embedded inverted index."""
