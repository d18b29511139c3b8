"""Tables of results and the files that keep them."""
