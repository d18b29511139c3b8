"""SONG and K-SONG (Qiu et al. 2022): their table, their running estimates, their warm-up."""
