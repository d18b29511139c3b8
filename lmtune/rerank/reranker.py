"""Rerankers: training (also by fold), scoring, saving and loading."""

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
from lmtune.errors import InputError, PathLike, name_of
from lmtune.io.digests import digest, read_json, read_verified, sealed_text, unsealed
from lmtune.io.files import read_bytes
from lmtune.io.folders import FolderKind, atomic_directory, check_directory
from lmtune.measures.lists import Measurer, mean_over_lists
from lmtune.measures.measure import Measure, column_names, exponential_ndcg
from lmtune.options import flags, options_of
from lmtune.parallel import Task, in_task_order
from lmtune.progress import Progress, count_callback, note, quantity, timed
from lmtune.rerank.data import RankingData
from lmtune.rerank.exchange.foreign import ForeignModel
from lmtune.rerank.learners.feature_networks import WEIGHTS, NetworkLearner
from lmtune.rerank.learners.learner import Learner, Scorer, ScoringOptions
from lmtune.rerank.learners.trees import TREES, LambdaMart, name_features
from lmtune.rerank.model_folder import MODEL, find_model_folder
from lmtune.rerank.normalisation import Normalisation
from lmtune.rerank.rankers import LEARNERS, NETWORK
from lmtune.rerank.settings import Settings, TextOptions, reads_text
from lmtune.rerank.sources import FeatureSettings, TrainingData
from lmtune.rerank.text.training import TextLearner, TextTrained
from lmtune.rerank.training.loop import HISTORY, SECONDS, StepProgress, TrainingOptions
from lmtune.strict_json import parse_json

CUTOFFS = (1, 3, 5, 10)
"""Cutoffs of the nDCG values reported for test queries."""

_RECORD = "made.json"
_TEXT_MODEL_FILES = (
    *("config.json", "tokenizer*.json", "special_tokens_map.json", "added_tokens.json", "vocab.*"),
    *("merges.txt", "*.model", "*.jinja", "model-*.safetensors", "model.safetensors.index.json"),
)
MODEL_KIND = FolderKind(
    _RECORD, (WEIGHTS, TREES, "scorer.*", MODEL, HISTORY, SECONDS, _RECORD, *_TEXT_MODEL_FILES)
)
"""The files of a model's folder; ``scorer.*`` are those of custom scorers."""

_VERSION = 3
_KINDS = {"kind": str, "settings": dict, "features": list[str], "facts": dict, "digests": dict[str, int]}


def _learner(name: str) -> type[Learner]:
    module, _, known = LEARNERS[name][1].rpartition(".")
    learner: type[Learner] = getattr(importlib.import_module(module), known)
    return learner


_KNOWN: list[type[Learner]] = [NetworkLearner, *map(_learner, LEARNERS), TextLearner]
_SCORERS: dict[str, type[Scorer]] = {learner.scorer.kind: learner.scorer for learner in _KNOWN}


def learner_of(settings: Settings, normalisation: Normalisation | None = None) -> Learner:
    """Create the learner that settings name: a network on texts or features, trees, or a custom one.

    Parameters
    ----------
    settings : Settings
    normalisation : Normalisation, optional
        Scaling of a network's features; None uses them unchanged.

    Raises
    ------
    InputError
        If the settings name a custom ranker without its class, as those of a saved model do.
    MissingExtraError
        If the network reads text, but the extra ``text`` is not installed.
    """
    ranker = settings.ranker
    if ranker.name == NETWORK.name:
        kind: Any = TextLearner if reads_text(settings.network) else NetworkLearner
    elif ranker.learner is None and ranker.name not in LEARNERS:
        raise InputError(
            "cannot train this ranker: its class is unknown", value=ranker.name, accepted="Ranker.of"
        )
    else:
        kind = ranker.learner or _learner(ranker.name)
    learner: Learner = kind(settings, normalisation)
    return learner


@dataclass(frozen=True, eq=False)
class Reranker:
    """A trained scorer with the feature names and the settings of its input.

    Attributes
    ----------
    scorer : Scorer
        A network on features or texts, or trees.
    names : tuple of str
        Feature names in order; empty for a network that reads text.
    facts : mapping
        Parameters that recreate the scorer's input from a run, such as the depth.
    """

    scorer: Scorer
    names: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def with_text(self, options: Mapping[str, Any], *, file: PathLike | None = None) -> Self:
        """Return a copy of a text reranker with some of its `TextOptions` changed.

        Raises
        ------
        InputError
            If the reranker does not read text, or an option is fixed by training: the prompt, the
            answers and the adapters' rank.
        """
        if not isinstance(self.scorer, TextTrained):
            name, flag = next(
                (name, flags(one)[0]) for one in options_of(TextOptions) if (name := one.name) in options
            )
            problem = f"{flag} has no effect: the model reads features, not text"
            raise InputError(problem, file=file, value=options[name], accepted="without it")
        for name in ("prompt", "answers", "lora"):
            if name in options:
                accepted = "--max-length, --passages, --overlap, --text, --batch-tokens"
                raise InputError(
                    f"a trained model's {name} cannot change",
                    file=file,
                    value=options[name],
                    accepted=accepted,
                )
        changed = TextOptions(**{**self.facts["text"], **options})
        network: Any = self.scorer.network
        network.set_options(changed)
        return replace(self, facts={**self.facts, "text": asdict(changed)})

    def score(
        self, data: RankingData, *, progress: StepProgress | bool | None = None, **how: Unpack[ScoringOptions]
    ) -> NDArray[np.floating]:
        """Score every row, shape (rows,).

        Parameters
        ----------
        data : RankingData
            Raw features, not normalised; or lists with texts.
        progress : callable or bool, optional
            Called with (documents done, total, speed) while texts are scored; True draws a bar.
        **how
            ``device``, default the CPU. For texts also ``bf16``, whether to compute in bfloat16, and
            ``checkpoint``, a folder that stores scores, to resume from.

        Raises
        ------
        InputError
            If the number of features differs from training, or a document has no text.
        """
        return self.scorer.score(data, progress=count_callback(progress, "scoring"), **how)

    def check_features(self, names: Sequence[str], *, file: PathLike | None = None) -> None:
        """Raise InputError if feature names differ from those in training."""
        known, names = list(self.names), list(names)
        is_positional = isinstance(self.scorer, ForeignModel) and not self.scorer.is_named
        if known == names or is_positional:
            return
        differing = [name for n, name in enumerate(names) if known[n : n + 1] != [name]]
        raise InputError(
            f"the model was trained on other features ({len(known)}, here {len(names)})",
            file=file,
            value=(differing or known[len(names) :])[0],
            accepted="a model trained on the same features",
        )

    def note_seen(self, queries: Sequence[str], *, file: PathLike | None = None) -> None:
        """Print a note if queries have identifiers of training or validation queries."""
        seen = {query for part in self.facts.get("topics", {}).values() for query in part}
        if common := seen.intersection(queries):
            of_model = f"identifiers of {'the model' if file is None else name_of(file)}'s training queries"
            note(f"{len(common)} of {len(queries)} queries have {of_model}")

    def report(self, test: RankingData) -> Iterator[str]:
        """Yield lines with the mean measures of test queries; see `report`."""
        return report([(test, self.score(test))], self.scorer.settings.validation_measure)


def report(tested: Iterable[tuple[RankingData, NDArray[np.floating]]], measure: Measure) -> Iterator[str]:
    """Yield lines with the mean measures of test queries.

    Queries without relevant documents are left out in the first line, and count 0 in a second, which
    is yielded only if it differs.

    Parameters
    ----------
    tested : iterable of (RankingData, numpy.ndarray)
        Queries and their rows' scores; means are over the queries of all folds.
    measure : Measure
        The validation measure, reported in addition to nDCG at `CUTOFFS`.
    """
    measures = reported_measures(measure)
    values, (names, convention) = evaluate_queries(tested, measures), column_names(measures)
    kept, zero = mean_over_lists(values), np.nan_to_num(values).mean(axis=0)
    for words, means in (("left out", kept), ("count 0", zero)):
        text = "  ".join(f"{name} {mean:.4f}" for name, mean in zip(names, means, strict=True))
        yield f"test, queries without relevant documents {words}: {text}" + (
            convention and f"  ({convention})"
        )
        if (kept == zero).all():
            return


def reported_measures(measure: Measure) -> tuple[Measure, ...]:
    """Return the reported measures: the validation measure, and nDCG at `CUTOFFS`."""
    names = tuple(map(exponential_ndcg, CUTOFFS))
    return names if measure in names else (measure, *names)


def evaluate_queries(
    tested: Iterable[tuple[RankingData, NDArray[np.floating]]], measures: Sequence[Measure]
) -> NDArray[np.float64]:
    """Compute measures of each query from its rows' scores.

    Returns
    -------
    numpy.ndarray of float64, shape (queries, measures)
        NaN for queries on which a measure is not defined.
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
    """Train a reranker: normalise features, and fit the network or the ranker of the settings.

    Parameters
    ----------
    train, validation : RankingData
        Training queries, and queries that select the best epoch; with raw features.
    settings : Settings
        Settings of training. The ranker ``lambdamart`` uses raw features.
    normalisation : Normalisation, optional
        Scaling of a network's features; default ``Normalisation()``.
    names : sequence of str, optional
        Feature names; default "1", "2", ..., as in LETOR files.
    facts : mapping, optional
        Further data to store with the model, such as parameters of its features.
    **how
        ``device``, ``checkpoint``, ``checkpoint_every`` and ``progress``; see
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
    if isinstance(scorer, LambdaMart):
        scorer = replace(scorer, text=name_features(scorer.text, known))
    return Reranker(scorer, known, facts or {})


def check_folder(path: PathLike) -> None:
    """Raise InputError if `save_model` could not write to a path; for a check before training."""
    check_directory(path, MODEL_KIND)


def save_model(path: PathLike, reranker: Reranker, record: Mapping[str, Any]) -> None:
    """Write a reranker's folder atomically.

    The folder has these files:

    - ``model.safetensors`` (weights and normaliser) or ``trees.txt``; for a network that reads text,
      the files that transformers and sentence-transformers' CrossEncoder load;
    - ``model.json``: settings and feature names;
    - ``history.csv``: one row per epoch or tree;
    - ``seconds.csv``, for a network: the epochs' times, the only file that differs between repeated
      trainings;
    - ``made.json``: the `record`.

    Parameters
    ----------
    path : path-like
        The folder; an older model is replaced.
    reranker : Reranker
        The model to save.
    record : mapping
        How the model was trained; written to ``made.json``.

    Raises
    ------
    InputError
        If the path exists and is not a model's folder.
    """
    scorer = reranker.scorer
    with atomic_directory(path, MODEL_KIND) as folder:
        items = scorer.save(folder)
        model = {
            "version": _VERSION,
            "kind": scorer.kind,
            "settings": items.pop("settings"),
            "features": reranker.names,
            **items,
            "validation": scorer.validation if np.isfinite(scorer.validation) else None,
            "facts": dict(reranker.facts),
        }
        folder.joinpath(_RECORD).write_text(f"{json.dumps(dict(record), indent=2)}\n", encoding="utf-8")
        model["digests"] = {file.name: digest(file.read_bytes()) for file in sorted(folder.iterdir())}
        folder.joinpath(MODEL).write_text(sealed_text(model, indent=2), encoding="utf-8")


def read_record(path: PathLike) -> Any:
    """Return the content of a model's ``made.json``; or the name of a file, or of a model of text.

    Raises
    ------
    InputError
        If the folder is not a model's, or the file is not readable.
    """
    if reads_text(str(path)):
        return {"network": str(path)}
    if Path(path).is_file():
        return {"file": Path(path).name, "digest": digest(read_bytes(path))}
    return read_json(find_model_folder(path) / _RECORD)


def load_model(path: PathLike, *scorers: type[Scorer], text: Mapping[str, Any] | None = None) -> Reranker:
    """Load a reranker from its folder, or a model trained elsewhere, such as ``encoder:MODEL``.

    Parameters
    ----------
    path : path-like
        A folder that `save_model` wrote; or a file of LightGBM, XGBoost, CatBoost or RankLib.
    *scorers
        Classes of custom scorers, in addition to lmtune's.
    text : mapping, optional
        Changes to the `TextOptions` of training, for a model that reads text.

    Raises
    ------
    InputError
        If the folder is not a model's or is damaged, or the class of its scorer is unknown.
    """
    if reads_text(str(path)):
        options = TextOptions(**(text or {}))
        facts = {"text": asdict(options), "depth": FeatureSettings.depth}
        return Reranker(TextTrained.untrained(str(path), options), (), facts)
    if Path(path).is_file():
        model_of_file = ForeignModel.read(path)
        return Reranker(model_of_file, model_of_file.form.names)
    folder = find_model_folder(path)
    try:
        model = parse_json(read_bytes(folder / MODEL))
        if model["version"] != _VERSION:
            value, accepted = model["version"], str(_VERSION)
            raise InputError("unsupported model version", file=folder / MODEL, value=value, accepted=accepted)
        model = unsealed(model, kinds=_KINDS)
        files = {name: read_verified(folder / name, expected) for name, expected in model["digests"].items()}
        kinds = _SCORERS | {scorer.kind: scorer for scorer in scorers}
        if model["kind"] not in kinds:
            accepted = f"{', '.join(kinds)}; in Python load_model(path, SCORER) with a custom scorer"
            raise InputError("unknown kind of model", value=model["kind"], accepted=accepted)
        scorer = kinds[model["kind"]].load(folder, files, model)
        reranker = Reranker(scorer, tuple(model["features"]), model["facts"])
        return reranker.with_text(text, file=path) if text else reranker
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
    """Train a reranker on each fold, with features normalised by the fold's training data.

    Parameters
    ----------
    parts : sequence of TrainingData
        The folds, or a single item without folds.
    settings, normalisation
        As for `lmtune.rerank.reranker.learn`.
    device, checkpoint, checkpoint_every
        As for `lmtune.rerank.learners.feature_networks.fit`. Each fold has a subfolder of `checkpoint`,
        and uses one of several devices; see `lmtune.devices`.
    progress : Progress
        Called during each training.

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
        of_fold = {name: getattr(part, name) for name in ("train", "validation", "names", "facts")}
        of_fold["checkpoint"] = checkpoint and checkpoint / part.fold
        of_fold["progress"] = None if spread else partial(progress, f"{part.label}training")
        tasks.append((learn, shared | of_fold))
    rerankers = in_task_order(run_on_devices(tasks, device))
    for done, part in enumerate(parts, 1):
        with timed(f"{part.label}{quantity(len(part.train.queries), 'query', 'queries')} trained on"):
            reranker = next(rerankers)
        if spread:
            progress("folds", done, len(parts))
        yield part, reranker
