"""Choose stemmer, model and parameters in an Optuna study: what `lmtune tune --choose` does by itself."""

import optuna

import lmtune

data = lmtune.load("pydocs")
topics = dict(list(data.topics.items())[:120])
train, test = list(topics)[:80], list(topics)[80:]
pools = {
    (stemmer, model): lmtune.CandidatePool.build(
        lmtune.index_for(data.documents, lmtune.Analyzer(stemmer=stemmer)), topics, data.qrels, model=model
    )
    for stemmer in ("porter", "none")
    for model in ("two-stage", "bm25")
}


def suggested(trial: optuna.trial.BaseTrial) -> tuple[lmtune.CandidatePool, dict[str, float]]:
    """Let a trial name a case, and a setting of its model's parameters in their ranges."""
    stemmer = trial.suggest_categorical("stemmer", ["porter", "none"])
    model = trial.suggest_categorical("model", ["two-stage", "bm25"])
    space = lmtune.ParameterSpace.of(model)
    return pools[stemmer, model], {
        one.name: trial.suggest_float(one.name, one.low, one.high) for one in space.parameters
    }


def objective(trial: optuna.trial.BaseTrial) -> float:
    """Return MAP on the training topics."""
    return float(lmtune.measure(*suggested(trial), measures="AP", topics=train)["AP"].mean())


optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
study.optimize(objective, n_trials=60)
held_out = lmtune.measure(*suggested(optuna.trial.FixedTrial(study.best_params)), measures="AP", topics=test)
print(f"{study.best_params}: AP {study.best_value:.4f} in training, AP {held_out['AP'].mean():.4f} held out")
