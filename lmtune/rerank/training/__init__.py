"""The training loop of networks: steps, losses, checkpoints and processes."""
