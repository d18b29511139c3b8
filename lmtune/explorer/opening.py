"""Open views of a collection, of results on it, and of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lmtune.arrays import Columns, stack
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.regions import Regions, regions_for
from lmtune.collections.collection import Collection
from lmtune.collections.texts import Texts, open_texts
from lmtune.errors import InputError
from lmtune.explorer.server import Choosing
from lmtune.explorer.view import Mark, View, stamp_of
from lmtune.fusion.fusing import judged_topics
from lmtune.fusion.methods import normalised
from lmtune.fusion.runs import MINIMUM, RunSet, prune
from lmtune.io.qrels import read_qrels
from lmtune.io.result_folders import file_name
from lmtune.io.runs import read_run
from lmtune.measures.evaluate import DEPTH
from lmtune.measures.measure import parse_measures
from lmtune.measures.significance.comparison import named_files
from lmtune.models.model import NAMES, find_model, named_model
from lmtune.options import option, usual
from lmtune.progress import Progress, note, silent, timed
from lmtune.tuning.choices.experiment import make_cases
from lmtune.tuning.choices.stored import read_choices
from lmtune.tuning.experiment.plan import Plan, Split
from lmtune.tuning.experiment.preparation import Prepared, prepare
from lmtune.tuning.experiment.result import DEFAULT, CollectionResult
from lmtune.tuning.experiment.stored import read_results
from lmtune.tuning.space import EXPAND, MODEL, Choice, ParameterSpace

if TYPE_CHECKING:
    pass

_MANY = 5000  # settings in a long session: enough for regions to pay off


@dataclass(frozen=True)
class Shown:
    """Page content."""

    measures: tuple[str, ...] = usual(
        (), "AP,P@10 ...; default: AP, Bpref, P@10; of runs nDCG@10, AP, P@10.", flag="--measure -m"
    )
    model: str | None = usual(
        None, f"{NAMES}. Without :title,body the fields are those of --fields. Default: two-stage."
    )
    results: Path | None = usual(
        None,
        "Show the settings and search paths of a results folder; for tune --choose with menus.",
        flag="--from",
        metavar="RESULTS",
    )
    depth: int = option(DEPTH, "Run depth.", low=1)
    text: str = option("{contents}", "Text of a document on the page: fields in braces.")


def open_collection(
    collection: Collection,
    shown: Shown,
    ranges: Callable[[str], Mapping[str, tuple[float, float]]],
    *,
    progress: Progress = silent,
) -> View:
    """Open a view of a collection, with tuning results on it if a results folder is given.

    Parameters
    ----------
    collection : Collection
        Documents, topics and judgments.
    shown : Shown
        Measures, model and results folder.
    ranges : callable
        Takes the model's name; returns the ranges of sliders that differ from the model's own ranges.
    progress : Progress
        Called while documents are indexed and topics are extracted.

    Raises
    ------
    InputError
        If files are missing or malformed, or results and options contradict each other.
    """
    tuned = None
    model = named_model(shown.model or "two-stage", collection.fields)
    if shown.results is not None:
        tuned, recorded = read_results(shown.results).of_collection(collection.name)
        if shown.model not in (None, tuned.model):
            raise InputError(
                "--model contradicts the model of --from", value=shown.model, accepted=tuned.model
            )
        model = tuned.model
        collection = collection.as_recorded(recorded)
    measures = shown.measures or (
        Plan.measures if tuned is None else tuple(dict.fromkeys(str(row.measure) for row in tuned.rows))
    )
    plan = Plan(measures=measures, model=model, ranges=dict(ranges(model)), depth=shown.depth)  # type: ignore[arg-type]
    prepared = prepare(collection, Split(), plan, in_folds=False, progress=progress)
    for text in prepared.notes[1:]:  # the first note is about folds
        note(text)
    texts = _texts(collection, prepared, shown.text)
    default, space = find_model(model).default, plan.space
    start = {p.name: p.clip(default[p.name]) for p in space.parameters}
    return View(
        pool=prepared.pool,
        space=space,
        measures=plan.measures,
        model=model,
        queries=prepared.dataset.topics,
        marks=(
            Mark("default" if start == default else "start", "", start),
            *(() if tuned is None else _inside(marks(tuned), space)),
        ),
        source=collection.words(),
        texts=texts,
        depth=shown.depth,
        regions=_regions(prepared.pool, plan.space, shown.depth),
        stamp=stamp_of(prepared.index),
    )


def open_choices(
    collection: Collection,
    shown: Shown,
    ranges: Callable[[str], Mapping[str, tuple[float, float]]],
    *,
    progress: Progress = silent,
) -> Choosing:
    """Open the chosen case of a results folder with choices; other cases open on request.

    Parameters
    ----------
    collection, shown, ranges, progress
        As for `open_collection`; the results are a folder of `lmtune tune --choose`.

    Raises
    ------
    InputError
        As `open_collection`, and if an option is also a choice.
    """
    results = shown.results or Path()
    stored = read_choices(results)
    choices, plan = stored.results.record["choices"], stored.results.record["plan"]
    model = shown.model or plan["model"].partition("+" if EXPAND in choices else "\0")[0]
    options = {} if MODEL in choices and shown.model is None else {MODEL: model}
    cases = make_cases([Choice(name, tuple(values)) for name, values in choices.items()], collection, options)
    measures = shown.measures or tuple(str(row.measure) for row in stored.results.results[0].rows[::2])

    def view(number: int) -> View:
        folder = results if number == stored.final else None
        case = replace(shown, measures=measures, model=cases[number].plan.model, results=folder)
        return open_collection(cases[number].collection, case, ranges, progress=progress)

    return Choosing(choices, [case.values for case in cases], stored.final, view)


def open_runs(files: Sequence[Path], shown: Shown, *, progress: Progress = silent) -> View:
    """Open a view of runs; their weights, shares of 1, are the parameters.

    Parameters
    ----------
    files : sequence of path
        Judgments, then two or more runs.
    shown : Shown
        Measures.
    progress : Progress
        Called while runs are read.

    Raises
    ------
    InputError
        As `lmtune.fusion.fusing.fuse_runs`, and if a model or a results folder is given.
    """
    for name, value in (("--model", shown.model), ("--from", shown.results)):
        if value is not None:
            raise InputError(
                f"{name} does not apply to runs", value=str(value), accepted="a collection, or runs alone"
            )
    qrels, *paths = files
    runs: dict[str, dict[str, dict[str, float]]] = {}
    for label, path in named_files(paths).items():
        runs[label] = read_run(path)
        progress("runs", len(runs), len(paths), "")
    loaded, judged = RunSet.of(runs), read_qrels(qrels)
    whole = loaded.pool(normalised("min-max", MINIMUM), judged, judged_topics(loaded, judged))
    pool = prune(whole, shown.depth)
    space = ParameterSpace(tuple(replace(own, share="weights") for own in pool.formula.parameters))
    weights = {p.name: p.default for p in space.parameters}
    single = [Mark(name, "", {other: float(other == name) for other in weights}) for name in weights]
    return View(
        pool=pool,
        space=space,
        measures=tuple(parse_measures(shown.measures or ("nDCG@10", "AP", "P@10"))),
        model="",
        queries={},
        marks=(Mark("equal weights", "", weights), *single),
        source=tuple(map(str, files)),
        depth=shown.depth,
    )


def _inside(every: Iterable[Mark], space: ParameterSpace) -> Iterator[Mark]:
    """Yield the marks inside the ranges of the page; print a note for each other one."""
    for mark in every:
        settings = [mark.setting, *mark.path]
        inside = [space.contains(step) for step in settings]
        if inside[0]:
            yield mark._replace(path=mark.path if all(inside) else ())
        else:
            note(f"{mark.name} for {mark.measure} is outside the ranges and is not shown")


def marks(result: CollectionResult) -> Iterator[Mark]:
    """Yield the setting of each method on all topics, with its search path and proven bound.

    Parameters
    ----------
    result : CollectionResult
        The result on the page's collection.
    """
    best = result.recommended
    for row in result.rows:
        if row.method == DEFAULT:
            continue  # already on the page
        chosen, kind = row.final or row.fits[0], row.method.lower()
        keys = [file_name(f"{stem}-final") for stem in (f"{kind}-{row.measure}", kind)]
        traces = [result.traces[key] for key in keys if key in result.traces]
        path = way_up(traces[0], list(chosen.params), str(row.measure)) if traces else []
        yield Mark(row.method, str(row.measure), chosen.params, path, result.bound(row), row is best)


def way_up(trace: Columns, names: list[str], measure: str) -> list[dict[str, float]]:
    """Return the path of a search to its best setting: the settings better than all before them.

    Parameters
    ----------
    trace : dict of str to numpy.ndarray
        `lmtune.tuning.tuner.Tuner.columns_`: a row a setting, with its ``start``, the parameters, and the
        ``cost`` or the measure.
    names : list of str
        The parameters.
    measure : str
        The column that the search maximises if there is no cost.
    """
    objective = -trace["cost"] if "cost" in trace else trace[measure]
    start = trace["start"]
    steps = np.flatnonzero(start == start[objective.argmax()])
    best = np.maximum.accumulate(objective[steps])
    better = steps[np.append(True, best[1:] > best[:-1])]
    return [dict(zip(names, step, strict=True)) for step in stack(trace, names)[better].tolist()]


def _texts(collection: Collection, prepared: Prepared, template: str) -> Texts | None:
    try:
        return open_texts(collection, prepared.dataset, template, index=prepared.index)
    except InputError as error:
        note(f"documents are shown without text: {error}")
        return None


def _regions(pool: CandidatePool, space: ParameterSpace, depth: int) -> Regions | None:
    ends = np.array([space.low, space.high])
    many = np.concatenate([ends, np.tile(ends[:1], (_MANY, 1))])
    with timed(f"{pool.name}: candidates sorted into regions"):
        return regions_for(pool, many, depth)
