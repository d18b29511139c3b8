"""Yue and Burges (2007): SPSA, and whether measures are smooth and trained nets at their tops."""
