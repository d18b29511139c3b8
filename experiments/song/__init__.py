"""SONG and K-SONG (Qiu et al. 2022): comparison of losses, running estimates, warm-up."""
