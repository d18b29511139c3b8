"""Yue and Burges (2007): SPSA against finite differences."""
