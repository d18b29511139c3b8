"""Metzler (2007): estimating lambda and mu by RankNet, and how smooth MAP is in them."""
