"""The best setting of a range, with a proof that no other does much better."""
