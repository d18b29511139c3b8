"""``lmtune rerank``: train a reranker, apply it to runs, compare losses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lmtune.cli.forms import Group
from lmtune.cli.parameters import Tuned
from lmtune.collections.collection import Collection
from lmtune.collections.loading import check_exists
from lmtune.errors import InputError, require_modules
from lmtune.io.files import check_readable
from lmtune.io.term_values import topic_weights_option
from lmtune.models.model import find_model
from lmtune.models.two_stage import TWO_STAGE
from lmtune.options import flags, option, options_of, usual
from lmtune.rerank.letor_folder import find_letor_home
from lmtune.rerank.loss_names import Loss
from lmtune.rerank.model_folder import check_model
from lmtune.rerank.rankers import Ranker
from lmtune.rerank.sources import FeatureSettings, ListSource, TaughtSource


@dataclass(frozen=True)
class Machine:
    """Device."""

    device: str = usual(
        "cpu", "cpu, cuda or cuda:1; several run folds and trials in parallel: cuda:0,cuda:1 (cuda: all)."
    )

    def __post_init__(self) -> None:
        if self.device != "cpu":
            from lmtune.devices import parse_devices

            parse_devices(self.device)


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints."""

    checkpoint: Path | None = option(
        None, "Save the training state in this folder, and resume from it.", metavar="DIR"
    )
    checkpoint_every: int | None = option(
        None, "Save it every N steps too, not only after each epoch.", low=1
    )

    def folders(self) -> list[Path]:
        """Return the folders that are read and written."""
        return [] if self.checkpoint is None else [self.checkpoint]

    def options(self) -> dict[str, Any]:
        """Return the fields of `lmtune.rerank.training.loop.TrainingOptions`."""
        return {"checkpoint": self.checkpoint, "checkpoint_every": self.checkpoint_every}


@dataclass(frozen=True)
class Targets:
    """Teacher and weights."""

    teacher: Path | None = option(
        None, "A run of the same topics; LOSS@teacher learns from its scores. Needs --run.", metavar="RUN"
    )
    topic_weights: Mapping[str, float] | None = topic_weights_option()

    def of(self, source: ListSource, losses: Iterable[Loss | Ranker], run: Path | None) -> ListSource:
        """Return the source of lists, with the teacher's scores and the topics' weights if any.

        Raises
        ------
        InputError
            For a teacher or weights without a run, a teacher's loss without a teacher, and weights with a
            loss that has none.
        """
        from lmtune.rerank.training.objectives import check_teacher, check_weighted

        if run is None:
            check_without_run(self)
            if isinstance(source, FeatureSettings):
                check_without_run(source, ("custom", "only"))
        for loss in losses:
            check_teacher(loss, self.teacher is not None)
            if self.topic_weights is not None:
                check_weighted(loss)
        plain = self.teacher is None and self.topic_weights is None
        return source if plain else TaughtSource(source, self.teacher, self.topic_weights)


def check_inputs(
    data: str | None, run: Path | None, *files: Path | None, models: Iterable[Path] = (), is_folder: bool
) -> None:
    """Raise InputError for inputs that do not exist, before torch is imported.

    Parameters
    ----------
    data : str, optional
        With a run the collection, otherwise LETOR data.
    run : path, optional
    *files : path or None
        Further files.
    models : iterable of path
        Models that will be loaded.
    is_folder : bool
        Whether LETOR data are a folder, not a file.
    """
    for model in models:
        check_model(model)
    if data is not None and run is not None:
        check_exists(data)
    elif data is not None and is_folder:
        find_letor_home(data)
    elif data is not None:
        check_readable(data)
    for file in filter(None, (run, *files)):
        check_readable(file)


def check_without_run(settings: Any, names: Iterable[str] | None = None) -> None:
    """Raise InputError for the first option that is set although it needs --run; by default any option."""
    for field in options_of(settings):
        if (names is None or field.name in names) and getattr(settings, field.name) != field.default:
            raise InputError(f"{flags(field)[0]} without --run", accepted="both, or neither")


def tuned_features(
    features: FeatureSettings, tuned: Tuned, collection: Collection
) -> tuple[FeatureSettings, Collection]:
    """Return the feature settings and the collection, with the tuned setting of --from if given."""
    if tuned.results is None:
        return features, collection
    usual = FeatureSettings()
    if (features.lambda_, features.mu) != (usual.lambda_, usual.mu):
        raise InputError("--lambda or --mu conflicts with --from", accepted="one of the two")
    model, values, collection = tuned.take(collection)
    if find_model(model).formula is not TWO_STAGE:
        raise InputError(
            "the tuned feature needs two-stage smoothing",
            file=tuned.results,
            value=model,
            accepted="results of two-stage, dirichlet or jelinek-mercer",
        )
    return replace(features, lambda_=values["lambda"], mu=values["mu"]), collection


def _need_neural() -> None:
    require_modules("rerank", "neural", "torch", "safetensors")


_COMMANDS = {
    "train": ("train", "Train a reranker on LETOR files or on a run."),
    "crossval": ("train", "Rerank a run by cross-validation and compare both."),
    "apply": ("apply", "Rerank a run, or score a LETOR file, with a trained model."),
    "compare": ("compare", "Compare losses over several trainings each."),
    "importance": ("apply", "Measure the importance of features by permutation."),
    "export": ("export", "Write a trained model for another program or a search engine."),
    "features": ("apply", "Write a run's features and labels as a LETOR file."),
}
"""Command -> its module in this package and the first line of its help."""

rerank = Group(
    "rerank",
    "Rerank runs with learning to rank.",
    {
        name: (f"lmtune.cli.rerank.{module}", summary, "docs/howto/rerank.md")
        for name, (module, summary) in _COMMANDS.items()
    },
    before=dict.fromkeys(_COMMANDS.keys() - {"features"}, _need_neural),
)
