"""One module an experiment: how its tables are drawn."""
