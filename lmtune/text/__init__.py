"""lmtune's losses for the training loops of sentence-transformers.

    from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer
    from lmtune.text import ApproxNDCGLoss

    model = CrossEncoder(name, num_labels=1)
    CrossEncoderTrainer(model, train_dataset=dataset, loss=ApproxNDCGLoss(model, alpha=5)).train()

They are imported when first used, for they need torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
