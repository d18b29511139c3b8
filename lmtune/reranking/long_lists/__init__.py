"""Rankings of all items of a catalogue: users' ratings, examples' labels."""
