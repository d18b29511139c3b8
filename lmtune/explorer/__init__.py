"""A page on which parameters are dragged: every setting's rankings and measures at once."""
