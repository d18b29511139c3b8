"""Learning to rank: data, features of runs, networks, trees and saved models.

Train on a folder of LETOR files and evaluate on its test queries:

    from lmtune.rerank import Settings, learn, load_model, parse_loss, read_letor_folder, save_model

    [split] = read_letor_folder("MQ2008/Fold1")
    reranker = learn(split.train, split.validation, Settings(loss=parse_loss("lambdarank")))
    print(list(reranker.report(split.test)))
    save_model("model", reranker, record={})
    scores = load_model("model").score(split.test)

``__init__.pyi`` lists the public names. They are imported on first use, because most need torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
