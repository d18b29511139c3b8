"""PyTerrier transformers, for ``pt.Experiment`` and pipelines; they do not start Java.

Input and output are the data frames of PyTerrier. `collection` returns the topics and judgments of an
experiment:

    import lmtune
    import pyterrier as pt
    from lmtune.pyterrier import Rerank, Retriever, collection

    data = lmtune.load("pydocs")
    index = lmtune.index_for(data.documents)
    topics, qrels = collection(data)
    first = Retriever(index, "bm25", k1=0.9, b=0.4)
    pt.Experiment([first, first % 100 >> Rerank(model, index)], topics, qrels, ["map", "ndcg_cut_10"])
"""

from __future__ import annotations

from collections.abc import Iterable
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

import pandas as pd

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.errors import InputError, install_command
from lmtune.io.frames import as_topics, run_frame
from lmtune.io.runs import Ranking
from lmtune.models.model import Model, find_model
from lmtune.models.parameter import as_settings
from lmtune.models.two_stage import TWO_STAGE

try:
    import pyterrier as pt
except ImportError as error:
    raise ImportError("lmtune.pyterrier needs PyTerrier: " + install_command("pyterrier")) from error

if TYPE_CHECKING:
    from lmtune.collections.dataset import Dataset
    from lmtune.index.protocol import Index
    from lmtune.models.formula import Formula
    from lmtune.rerank.reranker import Reranker


class Retriever(pt.Transformer):
    """Retrieve documents: maps topics (``qid query``) to results (``qid query docno score rank``).

    Parameters
    ----------
    index : Index
        An index of `lmtune.index_for` or `lmtune.LuceneIndex.open`.
    model : str, Model or Formula
        The retrieval model, as for `lmtune.CandidatePool.build`.
    hits : int
        Maximum number of documents per topic.
    **parameters : float
        Parameters of the model, such as ``k1=0.9, b=0.4`` or ``**tuner.best_params_``; write ``lambda_`` for
        ``lambda``. Other parameters have their defaults.

    Raises
    ------
    InputError
        If `index` is not an index, or for an unknown model, an unknown parameter, or a value outside its
        domain.
    """

    def __init__(
        self, index: Index, model: str | Model | Formula = TWO_STAGE, *, hits: int = 1000, **parameters: float
    ) -> None:
        self.index, self.model, self.hits = index, find_model(model), hits
        if not hasattr(index, "docnos"):
            raise InputError(
                "not an index", value=index, accepted="lmtune.index_for(documents), then the model"
            )
        changed = {name.removesuffix("_"): value for name, value in parameters.items()}
        self.model.check(changed)
        self.setting = {**self.model.default, **changed}

    def __repr__(self) -> str:
        """Return the call of the constructor, with the name of the index."""
        names = {name: f"{name}_" if iskeyword(name) else name for name in self.setting}
        values = [f"{names[name]}={value!r}" for name, value in self.setting.items()]
        return f"Retriever({self.index.name}, {self.model.name!r}, hits={self.hits}, {', '.join(values)})"

    def get_parameter(self, name: str) -> Any:
        """Return the value of a parameter of the model, or `hits`; see ``pt.GridSearch``."""
        parameter = name.removesuffix("_")
        return self.setting[parameter] if parameter in self.setting else super().get_parameter(name)

    def set_parameter(self, name: str, value: Any) -> None:
        """Set a parameter of the model, or `hits`; `transform` checks the values."""
        parameter = name.removesuffix("_")
        if parameter in self.setting:
            self.setting[parameter] = value
        else:
            super().set_parameter(name, value)

    def transform(self, topics: pd.DataFrame) -> pd.DataFrame:
        """Rank documents for each topic; documents without a query term are not retrieved."""
        pt.validate.query_frame(topics, extra_columns=["query"])
        rankings: Iterable[Ranking] = ()
        if len(topics):
            [setting] = as_settings(self.model.parameters, self.setting)
            pool = CandidatePool.build(
                self.index, topics, model=self.model.formula.with_first_search(setting)
            )
            rankings = rank(pool, self.setting, hits=self.hits)
        return _joined(run_frame(rankings), topics)


class Rerank(pt.Transformer):
    """Rerank results with a learnt model: replaces the scores of results (``qid query docno score``).

    Parameters
    ----------
    model : Reranker or path-like
        A model of `lmtune.rerank.learn`, trained on features of a run (`lmtune.rerank.run_data`), or the
        folder that ``lmtune rerank train`` wrote.
    index : Index
        The index from which the features are computed.

    Raises
    ------
    InputError
        If the model was trained on other features.
    """

    def __init__(self, model: Any, index: Index) -> None:
        from lmtune.rerank.features import features_of
        from lmtune.rerank.reranker import load_model

        self.model: Reranker = model if hasattr(model, "score") else load_model(model)
        self.index = index
        self.fields = tuple(self.model.facts.get("fields", ()))
        self.model.check_features([feature.name for feature in features_of(self.fields)])

    def transform(self, results: pd.DataFrame) -> pd.DataFrame:
        """Rescore the results; documents of a topic with equal new scores keep their order."""
        from lmtune.rerank.sources import reranked, run_data

        pt.validate.result_frame(results, extra_columns=["query", "score"])
        rankings: Iterable[Ranking] = ()
        if len(results):
            facts = self.model.facts
            settings = {"lambda_": facts.get("lambda", 0.4), "mu": facts.get("mu", 2500.0)}
            data = run_data(results, self.index, as_topics(results), fields=self.fields, **settings)
            rankings = reranked(results, data, self.model.score(data))
        return _joined(run_frame(rankings), results)


def collection(data: Dataset) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the topics and judgments of a collection in the format of ``pt.Experiment``.

    Parameters
    ----------
    data : Dataset
        A dataset of `lmtune.load`.

    Returns
    -------
    topics, qrels : pandas.DataFrame
        Columns ``qid query``, and ``qid docno label`` without negative gains.

    Raises
    ------
    InputError
        If there are no judgments.
    """
    rows = [
        (topic, docno, gain)
        for topic, gains in data.qrels.items()
        for docno, gain in gains.items()
        if gain >= 0
    ]
    if not rows:
        raise InputError("no judgments", value=data.name, accepted="a collection with judgments")
    return data.to_frame()[["qid", "query"]], pd.DataFrame(rows, columns=["qid", "docno", "label"])


def _joined(run: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """Add the topic columns of the input frame: the query, and columns of query rewriters."""
    columns = [column for column in frame if column not in ("docno", "docid", "score", "rank", "text")]
    topics = frame[columns].drop_duplicates("qid")
    qid = topics["qid"].astype(str).astype(run["qid"].dtype)
    return run.merge(topics.assign(qid=qid), on="qid", how="left")
