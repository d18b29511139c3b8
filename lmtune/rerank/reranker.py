"""A reranker: a scorer with what its lists need, learnt (fold by fold), applied, kept in a folder."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from lmtune.devices import check_device, is_spread, run_on_devices
from lmtune.errors import InputError, PathLike
from lmtune.io.digests import digest, parse_json, read_json, read_whole, sealed_text, unsealed
from lmtune.io.files import read_bytes
from lmtune.io.folders import FolderKind, atomic_directory, check_directory, is_folder
from lmtune.measures.lists import Measurer, mean_over_lists
from lmtune.measures.measure import Measure, column_names, exponential_ndcg
from lmtune.parallel import Task, in_task_order
from lmtune.progress import Progress, counted, quantity, timed
from lmtune.rerank.data import RankingData
from lmtune.rerank.learners.feature_networks import WEIGHTS, NetworkLearner
from lmtune.rerank.learners.learner import Learner, Scorer, ScoringOptions
from lmtune.rerank.learners.trees import TREES
from lmtune.rerank.normalisation import Normalisation
from lmtune.rerank.rankers import LEARNERS, NETWORK
from lmtune.rerank.settings import Settings, TextOptions, reads_text
from lmtune.rerank.sources import FeatureSettings, TrainingData
from lmtune.rerank.text.training import TextLearner, TextTrained
from lmtune.rerank.training.loop import HISTORY, SECONDS, StepProgress, TrainingOptions

CUTOFFS = (1, 3, 5, 10)
"""Of the nDCG that is reported on test queries."""

_RECORD = "made.json"
_MODEL = "model.json"
_OF_TEXT = (
    *("config.json", "tokenizer*.json", "special_tokens_map.json", "added_tokens.json", "vocab.*"),
    *("merges.txt", "*.model", "*.jinja", "model-*.safetensors", "model.safetensors.index.json"),
)
MODEL_KIND = FolderKind(_RECORD, (WEIGHTS, TREES, "scorer.*", _MODEL, HISTORY, SECONDS, _RECORD, *_OF_TEXT))
"""A model's folder; ``scorer.*`` is of one's own scorers."""

_VERSION = 3
_KINDS = {"kind": str, "settings": dict, "features": list[str], "facts": dict, "digests": dict[str, int]}


def _learner(name: str) -> type[Learner]:
    module, _, known = LEARNERS[name][1].rpartition(".")
    learner: type[Learner] = getattr(importlib.import_module(module), known)
    return learner


_KNOWN: list[type[Learner]] = [NetworkLearner, *map(_learner, LEARNERS), TextLearner]
_SCORERS: dict[str, type[Scorer]] = {learner.scorer.kind: learner.scorer for learner in _KNOWN}


def learner_of(settings: Settings, normalisation: Normalisation | None = None) -> Learner:
    """Return what learns as settings ask: a network that reads text, one on features, or neither.

    Parameters
    ----------
    settings : Settings
    normalisation : Normalisation, optional
        Of the features of a network; None takes them as they are given.

    Raises
    ------
    MissingExtraError
        For a network that reads text, where the extra is not installed.
    """
    ranker = settings.ranker
    if ranker.name == NETWORK.name:
        kind: Any = TextLearner if reads_text(settings.network) else NetworkLearner
    elif ranker.learner is None and ranker.name not in LEARNERS:
        raise InputError("no ranker that can be trained here", value=ranker.name, accepted="Ranker.of")
    else:
        kind = ranker.learner or _learner(ranker.name)
    learner: Learner = kind(settings, normalisation)
    return learner


@dataclass(frozen=True, eq=False)
class Reranker:
    """From features as they come, or texts, to scores.

    Attributes
    ----------
    scorer : Scorer
        A network, trees, or a network that reads text.
    names : tuple of str
        The features, in order; none for a network that reads text.
    facts : mapping
        What making the same lists again takes.
    """

    scorer: Scorer
    names: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def with_text(self, options: Mapping[str, Any], *, file: PathLike | None = None) -> Self:
        """Return the same of a reranker that reads text, with some of its `TextOptions` changed.

        Raises
        ------
        InputError
            For one that reads none, and for what a causal model learnt with.
        """
        if not isinstance(self.scorer, TextTrained):
            accepted = "none of its options"
            raise InputError("the model reads no text", file=file, value=min(options), accepted=accepted)
        for name in ("prompt", "answers", "lora"):
            if name in options:
                accepted = "--max-length, --passages, --overlap, --text, --batch-tokens"
                raise InputError(
                    f"a trained model has its own {name}", file=file, value=options[name], accepted=accepted
                )
        changed = TextOptions(**{**self.facts["text"], **options})
        self.scorer.network.cut(changed)
        return replace(self, facts={**self.facts, "text": asdict(changed)})

    def score(
        self, data: RankingData, *, progress: StepProgress | bool | None = None, **how: Unpack[ScoringOptions]
    ) -> NDArray[np.floating]:
        """Score every row, shape (rows,).

        Parameters
        ----------
        data : RankingData
            Features as they come, not normalised; or lists with texts.
        progress : callable or bool, optional
            Of texts called with (documents done, in all, how fast); True draws a bar.
        **how
            ``device``, the CPU by default; of texts ``bf16``, whether to compute in bfloat16, and
            ``checkpoint``, a folder to keep scores in and to go on from.

        Raises
        ------
        InputError
            For another number of features than in training; of texts, for a document without any.
        """
        return self.scorer.score(data, progress=counted(progress, "scoring"), **how)

    def check_features(self, names: Sequence[str], *, file: PathLike | None = None) -> None:
        """Raise InputError unless features are those that the reranker was trained on."""
        known, names = list(self.names), list(names)
        if known == names:
            return
        differing = [name for n, name in enumerate(names) if known[n : n + 1] != [name]]
        raise InputError(
            f"the model was trained on other features ({len(known)}, here {len(names)})",
            file=file,
            value=(differing or known[len(names) :])[0],
            accepted="a model trained on the same features",
        )

    def report(self, test: RankingData) -> Iterator[str]:
        """Yield what `report` does of test queries' scores."""
        return report([(test, self.score(test))], self.scorer.settings.validation_measure)


def report(tested: Iterable[tuple[RankingData, NDArray[np.floating]]], measure: Measure) -> Iterator[str]:
    """Yield lines with the means of test queries' measures, one a convention for empty queries.

    Parameters
    ----------
    tested : iterable of (RankingData, numpy.ndarray)
        Queries and their rows' scores; those of several folds count together.
    measure : Measure
        What validation chose by: it is there beside nDCG at `CUTOFFS`.
    """
    measures = reported(measure)
    values, (names, convention) = measured(tested, measures), column_names(measures)
    kept, zero = mean_over_lists(values), np.nan_to_num(values).mean(axis=0)
    for words, means in (("left out", kept), ("count 0", zero)):
        text = "  ".join(f"{name} {mean:.4f}" for name, mean in zip(names, means, strict=True))
        yield f"test, queries without relevant documents {words}: {text}" + (
            convention and f"  ({convention})"
        )
        if (kept == zero).all():
            return


def reported(measure: Measure) -> tuple[Measure, ...]:
    """Return what is reported where validation chooses by a measure: it, and nDCG at `CUTOFFS`."""
    names = tuple(map(exponential_ndcg, CUTOFFS))
    return names if measure in names else (measure, *names)


def measured(
    tested: Iterable[tuple[RankingData, NDArray[np.floating]]], measures: Sequence[Measure]
) -> NDArray[np.float64]:
    """Measure queries by their rows' scores.

    Returns
    -------
    numpy.ndarray of float64, shape (queries, measures)
        NaN where a query does not count.
    """
    values = [
        np.column_stack([Measurer(name, data).values(scores) for name in measures]) for data, scores in tested
    ]
    return np.concatenate(values)


def learn(
    train: RankingData,
    validation: RankingData,
    settings: Settings,
    *,
    normalisation: Normalisation | None = None,
    names: Sequence[str] | None = None,
    facts: Mapping[str, Any] | None = None,
    **how: Unpack[TrainingOptions],
) -> Reranker:
    """Learn to rerank: normalise features and train what the settings ask for.

    Parameters
    ----------
    train, validation : RankingData
        What to learn from and to choose by, features as they come.
    settings : Settings
        Of the training; the ranker ``lambdamart`` grows trees, on features as they come.
    normalisation : Normalisation, optional
        Of a network's features; its defaults by default.
    names : sequence of str, optional
        The features'; "1", "2", ... by default, as in LETOR files.
    facts : mapping, optional
        What else to remember, such as what making the same features again takes.
    **how
        ``device``, ``checkpoint``, ``checkpoint_every`` and ``progress``, as for
        `lmtune.rerank.learners.feature_networks.fit`.

    Returns
    -------
    Reranker

    Raises
    ------
    InputError
        As `Learner.fit`.
    """
    scorer = learner_of(settings, normalisation or Normalisation()).fit(train, validation, **how)
    known = tuple(map(str, range(1, train.features.shape[1] + 1))) if names is None else tuple(names)
    return Reranker(scorer, known, facts or {})


def check_folder(path: PathLike) -> None:
    """Raise InputError at once where `save_model` would in the end."""
    check_directory(path, MODEL_KIND)


def save_model(path: PathLike, reranker: Reranker, record: Mapping[str, Any]) -> None:
    """Write a reranker's folder, whole or not at all.

    It holds ``model.safetensors`` (weights and normaliser) or ``trees.txt``, ``model.json``
    (settings, features), ``history.csv`` (a row an epoch or a tree), for a network ``seconds.csv``
    (the epochs' times, which alone differ between equal trainings), and ``made.json``. A network that
    reads text is kept as transformers and sentence-transformers' CrossEncoder load it.

    Parameters
    ----------
    path : path-like
        The folder; an older model is replaced.
    reranker : Reranker
        What to keep.
    record : mapping
        How it was made; goes to ``made.json``.

    Raises
    ------
    InputError
        Where the path is something else than an older model.
    """
    scorer = reranker.scorer
    with atomic_directory(path, MODEL_KIND) as folder:
        kept = scorer.save(folder)
        model = {
            "version": _VERSION,
            "kind": scorer.kind,
            "settings": kept.pop("settings"),
            "features": reranker.names,
            **kept,
            "validation": scorer.validation if np.isfinite(scorer.validation) else None,
            "facts": dict(reranker.facts),
        }
        folder.joinpath(_RECORD).write_text(f"{json.dumps(dict(record), indent=2)}\n", encoding="utf-8")
        model["digests"] = {file.name: digest(file.read_bytes()) for file in sorted(folder.iterdir())}
        folder.joinpath(_MODEL).write_text(sealed_text(model, indent=2), encoding="utf-8")


def read_record(path: PathLike) -> Any:
    """Return what a model's folder says of how it was made; of ``text:MODEL`` and its like, the name.

    Raises
    ------
    InputError
        Where there is no model, or nothing that can be read.
    """
    return {"network": str(path)} if reads_text(str(path)) else read_json(_model_home(path) / _RECORD)


def _model_home(path: PathLike) -> Path:
    home = Path(path)
    if not is_folder(home) or not (home / _MODEL).is_file():
        raise InputError("no model here", file=path, accepted="a folder that lmtune rerank train wrote")
    return home


def load_model(path: PathLike, *scorers: type[Scorer], text: Mapping[str, Any] | None = None) -> Reranker:
    """Read a reranker's folder back; or a model of others, ``text:MODEL`` or ``decoder:MODEL``.

    Parameters
    ----------
    path : path-like
        What `save_model` wrote.
    *scorers
        Kinds of scorers besides lmtune's, which one's own learners made.
    text : mapping, optional
        Of a model that reads text, the `TextOptions` that are to be other than in training.

    Raises
    ------
    InputError
        Where it is not one, damaged, or of another kind of scorers.
    """
    if reads_text(str(path)):
        options = TextOptions(**(text or {}))
        facts = {"text": asdict(options), "depth": FeatureSettings.depth}
        return Reranker(TextTrained.untrained(str(path), options), (), facts)
    home = _model_home(path)
    try:
        kept = parse_json(read_bytes(home / _MODEL))
        if kept["version"] != _VERSION:
            value, accepted = kept["version"], str(_VERSION)
            raise InputError("a model of another version", file=home / _MODEL, value=value, accepted=accepted)
        kept = unsealed(kept, kinds=_KINDS)
        files = {name: read_whole(home / name, expected) for name, expected in kept["digests"].items()}
        kinds = _SCORERS | {scorer.kind: scorer for scorer in scorers}
        if kept["kind"] not in kinds:
            accepted = f"{', '.join(kinds)}; in Python load_model(path, SCORER) with one's own"
            raise InputError("a model of another kind", value=kept["kind"], accepted=accepted)
        scorer = kinds[kept["kind"]].load(home, files, kept)
        made = Reranker(scorer, tuple(kept["features"]), kept["facts"])
        return made.with_text(text, file=path) if text else made
    except InputError as error:
        error.file = error.file or os.fspath(path)
        raise
    except (ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise InputError(f"damaged model ({error})", file=path) from error


def learn_folds(
    parts: Sequence[TrainingData],
    settings: Settings,
    normalisation: Normalisation,
    *,
    device: str,
    checkpoint: Path | None,
    checkpoint_every: int | None,
    progress: Progress,
) -> Iterator[tuple[TrainingData, Reranker]]:
    """Learn a reranker of each fold, normalised by that fold's training data.

    Parameters
    ----------
    parts : sequence of TrainingData
        The folds, or the one that there is.
    settings, normalisation
        As for `lmtune.rerank.reranker.learn`.
    device, checkpoint, checkpoint_every
        As for `lmtune.rerank.learners.feature_networks.fit`; each of several folds has a folder in
        `checkpoint`, and one of several devices: see `lmtune.devices`.
    progress : Progress
        Called while each is trained.

    Yields
    ------
    tuple of TrainingData and Reranker

    Raises
    ------
    InputError
        As `lmtune.rerank.reranker.learn`.
    """
    if len(parts) == 1:
        check_device(device)
    spread = len(parts) > 1 and is_spread(device)
    shared = {"settings": settings, "normalisation": normalisation, "checkpoint_every": checkpoint_every}
    tasks: list[Task] = []
    for part in parts:
        own = {name: getattr(part, name) for name in ("train", "validation", "names", "facts")}
        own["checkpoint"] = checkpoint and checkpoint / part.fold
        own["progress"] = None if spread else partial(progress, f"{part.label}training")
        tasks.append((learn, shared | own))
    learnt = in_task_order(run_on_devices(tasks, device))
    for done, part in enumerate(parts, 1):
        with timed(f"{part.label}{quantity(len(part.train.queries), 'query', 'queries')} learnt from"):
            reranker = next(learnt)
        if spread:
            progress("folds", done, len(parts))
        yield part, reranker
