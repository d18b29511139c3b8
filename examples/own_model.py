"""Write a retrieval model of one's own, with its gradient, and tune it by search and by gradient."""

import numpy as np

import lmtune
from lmtune.models.kernels import TopicDocuments


class Saturated(lmtune.Formula):
    """The sum of idf tf / (tf + k (length / mean)^b): frequencies saturate, later in long documents."""

    name = "saturated"
    parameters = (
        lmtune.Parameter("k", 0.05, 20.0, "log", 1.0, "where a frequency saturates"),
        lmtune.Parameter("b", 0.0, 1.0, "linear", 0.5, "how much the length counts"),
    )

    def differentiate(self, topic: TopicDocuments, setting: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the documents' scores, and their derivatives in k and b."""
        k, b = setting
        relative = topic.length / topic.mean_length
        weight = (topic.counts * -np.log(topic.value))[:, None]
        room = k * relative**b
        in_room = weight * -topic.tf / (topic.tf + room) ** 2
        scores = (weight * topic.tf / (topic.tf + room)).sum(axis=0)
        return scores, np.array([(in_room * relative**b).sum(0), (in_room * room * np.log(relative)).sum(0)])


data = lmtune.load("pydocs")
topics = dict(list(data.topics.items())[:60])
pool = lmtune.CandidatePool.build(lmtune.index_for(data.documents), topics, data.qrels, model=Saturated())
train, test = pool.topics[:30], pool.topics[30:]
for tuner in (lmtune.GridSearch("AP", shape=(5, 4)), lmtune.SurrogateTuner("approx-ap")):
    tuner.fit(pool, topics=train)
    reached = lmtune.measure(pool, tuner.best_params_, measures="AP", topics=test)["AP"].mean()
    print(f"{type(tuner).__name__}: {tuner.best_params_}, held-out AP {reached:.4f}")
