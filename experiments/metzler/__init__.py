"""Two-stage smoothing by direct search and by RankNet's cost (Metzler 2007)."""
