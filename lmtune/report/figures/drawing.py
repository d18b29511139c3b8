"""All pictures of a results folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from lmtune.arrays import Doubles
from lmtune.errors import PathLike
from lmtune.io.result_folders import StoredFolder, file_name
from lmtune.measures.measure import Measure
from lmtune.models.model import known_model
from lmtune.report.figures.comparisons import method_differences, recall_precision_curves
from lmtune.report.figures.courses import Search, at_lowest, best_so_far, convergence
from lmtune.report.figures.parameters import SurfacePanel, best_profiles, parameter_spread, surface
from lmtune.report.figures.style import TWO_STAGE, ParameterAxis, Picture
from lmtune.report.tuning_results import PROFILES, RECALL, SURFACE
from lmtune.showing import data_frame
from lmtune.tuning.experiment.result import (
    ALSO,
    APPROX,
    DEFAULT,
    DIRECT,
    OPTIMAL,
    RANKNET,
    CollectionResult,
    Row,
)
from lmtune.tuning.experiment.run import BEST
from lmtune.tuning.experiment.stored import KIND, NAMED

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# An unknown parameter gets a logarithmic axis above this ratio of its highest to its lowest value.
_LOG_RATIO = 100.0
_CERTIFICATE = ("boxes", "best", "bound")


def draw(path: PathLike, results: Sequence[CollectionResult]) -> Iterator[Picture]:
    """Draw all pictures of a results folder, one at a time.

    Parameters
    ----------
    path : path-like
        A folder that `lmtune.report.tuning_results.write_results` wrote. Pictures without their tables
        are skipped.
    results : sequence of CollectionResult
        The results in the folder.

    Yields
    ------
    Picture
        For each collection, in this order:

        - evidence for the recommendation: surface on all topics, differences from the default;
        - the parameters of each fold;
        - for each measure, the topic differences and the recall-precision curves;
        - for each measure and fold, the surface and the convergence.

        Only two free parameters have a surface; with more, the pictures show the measure along each
        parameter through Direct's choice.

    Raises
    ------
    InputError
        If a table was changed since it was written.
    """
    for result in results:
        collection = _Collection(StoredFolder.of_kind(path, KIND), result)
        yield from collection.answer()
        yield collection.picture(
            "parameters",
            f"{result.name}: parameters chosen in each fold",
            parameter_spread(chosen_parameters(result), collection.axes, title=result.name),
        )
        by_measure: dict[Measure, dict[str, Row]] = {}
        for row in result.rows:
            by_measure.setdefault(row.measure, {})[row.method] = row
        for rows in by_measure.values():
            if {DIRECT, RANKNET} <= rows.keys():
                yield method_differences(result.name, rows[RANKNET], rows[DIRECT], "topics")
            first = next(iter(rows.values()))
            yield from collection.recall(first)
        for rows in by_measure.values():
            for number in range(1, len(result.folds) + 1):
                yield from collection.fold(list(rows.values()), number)


def chosen_parameters(result: CollectionResult) -> pd.DataFrame:
    """Return the table of parameters by measure, method and fold, for `parameter_spread`."""
    import pandas as pd

    return pd.DataFrame(
        {"measure": row.measure.title, "method": row.method, "fold": number, **fit.params}
        for row in result.rows
        if row.method != DEFAULT
        for number, fit in enumerate(row.fits, 1)
    )


def parameter_axes(result: CollectionResult) -> list[ParameterAxis]:
    """Return the axes of a model's parameters; for an unknown model, derived from the chosen values."""
    known = known_model(result.model)
    if known is not None:
        return [ParameterAxis(p.name, p.unit, p.scale == "log") for p in known.parameters]
    return best_axes(chosen_parameters(result).drop(columns=["measure", "method", "fold"]))


def best_axes(parameters: pd.DataFrame) -> list[ParameterAxis]:
    """Return the axes of parameters: known ones by name, others by the range of their values."""
    known = {axis.name: axis for axis in TWO_STAGE}
    return [
        known.get(
            str(name), ParameterAxis(str(name), is_log=bool(0.0 < _LOG_RATIO * values.min() < values.max()))
        )
        for name, values in parameters.items()
    ]


class _Collection:
    """The tables of a collection in a results folder."""

    def __init__(self, folder: StoredFolder, result: CollectionResult) -> None:
        self.folder = folder
        self.result = result
        self.traces = {file_name(key): data_frame(trace) for key, trace in result.traces.items()}
        self.axes = parameter_axes(result)
        known = known_model(result.model)
        fixed = known.fixed if known else {}
        self.free = [axis for axis in self.axes if axis.name not in fixed]

    def trace(self, name: str, columns: Sequence[str]) -> pd.DataFrame | None:
        table = self.traces.get(file_name(name))
        return None if table is None or not {*columns} <= {*table} else table

    def table(self, file: str, name: str) -> pd.DataFrame | None:
        return self.read(file.format(file_name(self.result.name), file_name(name)), ("line",))

    def read(self, file: str, texts: Sequence[str]) -> pd.DataFrame | None:
        columns = self.folder.columns(file, texts)
        return None if columns is None else data_frame(columns)

    def picture(self, name: str, title: str, figure: Figure, part: str = "") -> Picture:
        stem = file_name(f"{self.result.name}-{name}")
        return Picture(stem, title, figure, self.result.name, part)

    def answer(self) -> Iterator[Picture]:
        """Draw the tuned setting: its point on the surface, and its topic differences from the default."""
        result = self.result
        best = result.recommended and result.row(result.recommended.measure, result.fixed_method)
        if best is None or best.setting is None:
            return
        default = result.row(best.measure, DEFAULT) or best
        name = self.result.name
        grid = self.table(SURFACE, f"{best.measure}-fold1")
        if self.is_plane(grid):
            fold = self.result.folds[0]
            sizes = [len(fold.train), len(fold.test)]
            values = np.average(grid[["train", "test"]].to_numpy(), axis=1, weights=sizes)
            # Box, chosen points and default are the same on the panels of all folds.
            _, panel = self.panels(grid, [best, default], 1)
            x, y = (best.setting.params[axis.name] for axis in self.free)
            panel = replace(
                panel,
                title="topics of all folds",
                values=values,
                boxes=None,
                points={**panel.points, best.method: (x, y)},
            )
            figure = surface([panel], self.free, measure=best.measure.title, title=f"{name}: tuned setting")
            picture = self.picture("answer", f"{name}: {best.method} on the surface of all topics", figure)
            yield replace(picture, lead=True)
        if default is not best:
            yield replace(method_differences(name, best, default, "gains"), lead=True)

    def is_plane(self, settings: pd.DataFrame | None) -> TypeGuard[pd.DataFrame]:
        """Return whether settings form a grid of two free parameters."""
        if settings is None or len(self.free) != 2:
            return False
        return len(settings) < 2 or settings[self.free[0].name].nunique() < len(settings)

    def recall(self, row: Row) -> Iterator[Picture]:
        table = self.read(RECALL, NAMED)
        if table is None:
            return
        rows = table[table["collection"].eq(self.result.name) & table["measure"].eq(str(row.measure))]
        curves = {
            str(method): part.sort_values("recall")["precision"].to_numpy(np.float64)
            for method, part in rows.groupby("method", sort=False)
        }
        if curves:
            title = f"{self.result.name}, tuned for {row.measure.title}"
            figure = recall_precision_curves(curves, title=title)
            yield self.picture(f"{row.measure}-recall", f"{title}: recall and precision", figure)

    def fold(self, rows: Sequence[Row], number: int) -> Iterator[Picture]:
        measure = rows[0].measure
        name = f"{measure}-fold{number}"
        part = measure.title
        if len(self.result.folds) > 1:
            part += f", fold {number}"
        title = f"{self.result.name}, {part}"
        grid = self.table(SURFACE, name)
        if self.is_plane(grid):
            panels = self.panels(grid, rows, number)
            figure = surface(panels, self.free, measure=measure.title, title=title)
            yield self.picture(f"{name}-surface", f"{title}: surface", figure, part)
        lines = self.table(PROFILES, name)
        if lines is not None and lines["line"].str.startswith(BEST).any():
            searched = [row for row in rows if row.method not in (OPTIMAL, DEFAULT)]
            fits = {row.method: row.fits[number - 1] for row in searched}
            chosen = {method: {**fit.params, "train": fit.train_value} for method, fit in fits.items()}
            figure = best_profiles(lines, self.free, chosen, measure=measure.title, title=title)
            yield self.picture(f"{name}-profiles", f"{title}: the measure along each parameter", figure, part)
        if searches := self.searches(grid, str(measure), number):
            figure = convergence(searches, measure=measure.title, title=title)
            yield self.picture(f"{name}-convergence", f"{title}: convergence", figure, part)

    def panels(
        self, grid: pd.DataFrame, rows: Sequence[Row], number: int
    ) -> tuple[SurfacePanel, SurfacePanel]:
        measure = rows[0].measure
        x, y = names = [axis.name for axis in self.free]

        def places(table: pd.DataFrame) -> tuple[Doubles, Doubles]:
            return table[x].to_numpy(np.float64), table[y].to_numpy(np.float64)

        chosen = {row.method: row.fits[number - 1].params for row in rows}
        points = {
            method: (params[x], params[y])
            for method, params in chosen.items()
            # The default may be outside the grid.
            if method != DEFAULT or all(grid[n].min() <= params[n] <= grid[n].max() for n in names)
        }
        ranknet = self.trace(f"ranknet-fold{number}", ("start", "cost", *names))
        direct = self.trace(f"direct-{measure}-fold{number}", (*names, str(measure)))
        approx = self.trace(f"approx-{measure}-fold{number}", ("start", *names))
        paths = {
            f"{method}:'s iterates": [places(way) for _, way in table.groupby("start")]
            for method, table in ((RANKNET, ranknet), (APPROX, approx))
            if table is not None and len(table)
        }
        near, region = None, self.result.near
        if region is not None and region.inside.any() and measure == self.result.measures[0]:
            import pandas as pd

            inside = pd.DataFrame(region.settings[region.inside], columns=region.names)
            near = pd.MultiIndex.from_frame(grid[names]).isin(pd.MultiIndex.from_frame(inside[names]))
        train = SurfacePanel(
            "training topics",
            *places(grid),
            grid["train"].to_numpy(),
            paths=paths,
            evaluations={} if direct is None else {f"{DIRECT}:'s coordinate ascent": places(direct)},
            points={method: point for method, point in points.items() if method != OPTIMAL},
            near=near,
        )
        bounds = [f"{name}_{end}" for name in names for end in ("low", "high")]
        boxes = self.trace(f"boxes-{measure}-fold{number}", bounds)
        test = SurfacePanel(
            "test topics", *places(grid), grid["test"].to_numpy(), points=points, boxes=boxes, near=near
        )
        return train, test

    def searches(self, grid: pd.DataFrame | None, measure: str, number: int) -> list[Search]:
        searches: list[Search] = []

        def add(name: str, best: Doubles, after: int = 0) -> None:
            steps = after + np.arange(1, best.size + 1)
            searches.append(Search(name, steps, best, topics="training topics"))

        def evaluated(kind: str, column: str) -> pd.DataFrame | None:
            table = self.trace(f"{kind}-fold{number}", (column,))
            return table if table is not None and len(table) else None

        points = 0 if grid is None else len(grid)
        if grid is not None and points:
            add("grid", best_so_far(grid["train"]))
        for kind, name in ({"direct": "coordinate ascent"} | ALSO).items():
            if (table := evaluated(f"{kind}-{measure}", measure)) is not None:
                # Coordinate ascent starts after the grid.
                add(name, best_so_far(table[measure]), points if kind == "direct" else 0)
        if (table := evaluated("ranknet", "cost")) is not None and measure in table:
            add("RankNet (iterates)", at_lowest(table["cost"], table[measure]))
        approx = self.trace(f"approx-{measure}-fold{number}", ("alpha", "cost", measure))
        if approx is not None and len(approx):
            # Costs at different alpha are not comparable.
            stages = (stage for _, stage in approx.groupby("alpha", sort=False))
            best = [at_lowest(stage["cost"], stage[measure]) for stage in stages]
            add("Approx (iterates)", np.concatenate(best))
        proof = self.trace(f"certificate-{measure}-fold{number}", _CERTIFICATE)
        if proof is not None and len(proof):
            boxes, reached, bound = (proof[column].to_numpy() for column in _CERTIFICATE)
            searches.append(Search("certificate", boxes, reached, bound, topics="test topics"))
        return searches
