"""SONG and K-SONG on long lists: users' rankings of all items, and multi-label examples (Qiu et al. 2022)."""
