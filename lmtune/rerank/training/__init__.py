"""Training, whatever is learnt: steps, losses in them, checkpoints, devices, processes."""
