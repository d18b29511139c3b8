"""One module an experiment: its settings, pieces of work, tables and conclusions."""
