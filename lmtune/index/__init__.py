"""From text to an inverted index: analysis, the `Index` protocol, the embedded columnar index."""
