"""Learning to rank: data, features of a run, networks and trees that learn from them, models on disk.

Train on a folder of LETOR files, and measure on its test queries:

    from lmtune.rerank import Settings, learn, load_model, parse_loss, read_letor_folder, save_model

    [split] = read_letor_folder("MQ2008/Fold1")
    reranker = learn(split.train, split.validation, Settings(loss=parse_loss("lambdarank")))
    print(list(reranker.report(split.test)))
    save_model("model", reranker, record={})
    scores = load_model("model").score(split.test)

``__init__.pyi`` lists the public names; each is imported when first used, for most need torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
