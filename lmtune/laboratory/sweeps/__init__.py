"""Bruch et al. (2019) and Qiu et al. (2022): training by ApproxNDCG and SONG, as sweeps."""
