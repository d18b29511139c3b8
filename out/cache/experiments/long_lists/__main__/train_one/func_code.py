# first line: 89
def train_one(*, loss: str, options: TrainingOptions, **where: Any) -> tuple[np.ndarray, list[float]]:
    """Train once; return the test measures of each list, and the validation value of each epoch."""
    lists = _lists(**where)
    trained = train(lists, loss, options)
    measures = LABEL_MEASURES if where["test"] else RATING_MEASURES
    return lists.measure(trained.network, "test", measures), trained.validation
