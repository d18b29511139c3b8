"""How smooth a measure is in a network's weights and in a model's parameters."""
