"""PyTerrier's transformers of lmtune, for ``pt.Experiment`` and pipelines; no Java is started.

They take and give PyTerrier's frames. `collection` gives an experiment's topics and judgments:

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
    """Retrieve by a model: topics ``qid query`` in, results ``qid query docno score rank`` out.

    Parameters
    ----------
    index : Index
        From `lmtune.index_for` or `lmtune.LuceneIndex.open`.
    model : str, Model or Formula
        What scores, as for `lmtune.CandidatePool.build`.
    hits : int
        Documents a topic at most.
    **parameters : float
        The model's, such as ``k1=0.9, b=0.4`` or a tuner's ``**best_params_``; ``lambda_`` is
        ``lambda``. Defaults for those not named.

    Raises
    ------
    InputError
        For what is no index, an unknown model, no parameter of it, or a value outside its domain.
    """

    def __init__(
        self, index: Index, model: str | Model | Formula = TWO_STAGE, *, hits: int = 1000, **parameters: float
    ) -> None:
        self.index, self.model, self.hits = index, find_model(model), hits
        if not hasattr(index, "docnos"):
            raise InputError("no index", value=index, accepted="lmtune.index_for(documents), then the model")
        given = {name.removesuffix("_"): value for name, value in parameters.items()}
        self.model.check(given)
        self.setting = {**self.model.default, **given}

    def __repr__(self) -> str:
        """Return the call that makes it, the index by its name."""
        names = {name: f"{name}_" if iskeyword(name) else name for name in self.setting}
        values = [f"{names[name]}={value!r}" for name, value in self.setting.items()]
        return f"Retriever({self.index.name}, {self.model.name!r}, hits={self.hits}, {', '.join(values)})"

    def get_parameter(self, name: str) -> Any:
        """Return the value of one of the model's parameters, or `hits`; see ``pt.GridSearch``."""
        own = name.removesuffix("_")
        return self.setting[own] if own in self.setting else super().get_parameter(name)

    def set_parameter(self, name: str, value: Any) -> None:
        """Set one of the model's parameters, or `hits`; `transform` checks them."""
        own = name.removesuffix("_")
        if own in self.setting:
            self.setting[own] = value
        else:
            super().set_parameter(name, value)

    def transform(self, topics: pd.DataFrame) -> pd.DataFrame:
        """Rank documents for each topic; those that match no query term are not retrieved."""
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
    """Rerank results by a learnt model: ``qid query docno score`` in, with new scores out.

    Parameters
    ----------
    model : Reranker or path-like
        From `lmtune.rerank.learn` on features of a run (`lmtune.rerank.run_data`), or the folder
        that ``lmtune rerank train`` wrote.
    index : Index
        What the features are made from.

    Raises
    ------
    InputError
        For a model that was trained on other features.
    """

    def __init__(self, model: Any, index: Index) -> None:
        from lmtune.rerank.features import features_of
        from lmtune.rerank.reranker import load_model

        self.model: Reranker = model if hasattr(model, "score") else load_model(model)
        self.index = index
        self.fields = tuple(self.model.facts.get("fields", ()))
        self.model.check_features([feature.name for feature in features_of(self.fields)])

    def transform(self, results: pd.DataFrame) -> pd.DataFrame:
        """Score the results anew; within a topic those that a model cannot tell apart keep their order."""
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
    """Give a collection's topics and judgments as ``pt.Experiment`` takes them.

    Parameters
    ----------
    data : Dataset
        From `lmtune.load`.

    Returns
    -------
    topics, qrels : pandas.DataFrame
        Columns ``qid query``, and ``qid docno label`` without negative gains.

    Raises
    ------
    InputError
        Where there is no judgment.
    """
    rows = [
        (topic, docno, gain) for topic, own in data.qrels.items() for docno, gain in own.items() if gain >= 0
    ]
    if not rows:
        raise InputError("no judgments", value=data.name, accepted="a collection with judgments")
    return data.to_frame()[["qid", "query"]], pd.DataFrame(rows, columns=["qid", "docno", "label"])


def _joined(run: pd.DataFrame, given: pd.DataFrame) -> pd.DataFrame:
    """Put back what is known of the topics: the query, and what a rewriter keeps beside it."""
    known = [column for column in given if column not in ("docno", "docid", "score", "rank", "text")]
    own = given[known].drop_duplicates("qid")
    return run.merge(own.assign(qid=own["qid"].astype(str).astype(run["qid"].dtype)), on="qid", how="left")
