"""What stands in for a measure when it is to be followed downhill: losses with values and gradients.

Values and gradients are in the scores, by compiled kernels on arrays. PyTorch wraps them in
`lmtune.reranking.losses`; nothing here imports it.
"""
