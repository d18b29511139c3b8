"""Whether systems differ by more than chance, and by how much: tests, effect sizes, comparisons."""
