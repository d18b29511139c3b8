"""Results of models that nothing here knows, with one parameter and with five, from tables to pictures."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reported import made_results, write_made

from lmtune.errors import InputError
from lmtune.reporting.figures import draw
from lmtune.reporting.page import page
from lmtune.reporting.results_files import PROFILES, SURFACE
from lmtune.reporting.results_reader import read_results
from lmtune.reporting.tuning_tables import parameter_table, tuning_table
from lmtune.tuning.experiment.result import CollectionResult, Fit

FIVE = ("k1", "b", "weight", "lambda", "delta")
MODELS = pytest.mark.parametrize("names", [("scale",), FIVE], ids=["one", "five"])


def made(names: tuple[str, ...]) -> CollectionResult:
    rng = np.random.default_rng(5)
    [result] = made_results()

    def renamed(fit: Fit) -> Fit:
        return replace(fit, params={name: float(10 ** rng.uniform(-3, 3)) for name in names})

    rows = [
        replace(row, fits=tuple(map(renamed, row.fits)), final=row.final and renamed(row.final))
        for row in result.rows
    ]
    return replace(result, rows=tuple(rows), model="toy")


def kept(folder: Path, names: tuple[str, ...]) -> CollectionResult:
    """Keep a result with a profile of each parameter, and a grid of three settings."""
    result = made(names)
    write_made(folder, [result])
    at = dict.fromkeys(names, 0.5)
    lines = [
        (name, position, *(at | {name: position}).values(), 1.0 - position, 0.2 + position / 10, 0.3)
        for name in names
        for position in (0.25, 0.5, 0.75)
    ]
    grid = [(*dict.fromkeys(names, value).values(), value, value) for value in (0.1, 0.2, 0.3)]
    for file, rows in ((PROFILES, lines), (SURFACE, grid)):
        path = file.path(folder, result.name, "AP-fold1")
        path.parent.mkdir(parents=True)
        path.write_text(file.text(names, rows))
    return result


@MODELS
def test_parameters_are_kept_by_name(tmp_path: Path, names: tuple[str, ...]) -> None:
    result = kept(tmp_path / "kept", names)
    [again] = read_results(tmp_path / "kept").results
    assert again.model == "toy"
    assert [row.fits for row in again.rows] == [row.fits for row in result.rows]
    with (tmp_path / "kept" / "parameters.csv").open() as file:
        assert tuple(csv.DictReader(file).fieldnames or ())[4:-5] == names
    head, first, *_ = parameter_table([result]).text().splitlines()
    assert tuple(head.split()[4:-3]) == names
    shown = [
        f"{value:.4f}" if name == "lambda" else f"{value:.4g}"
        for name, value in result.rows[0].fits[0].params.items()
    ]
    assert first.split()[4:-3] == shown
    assert "(model: toy)" in tuning_table([result])


@MODELS
def test_the_page_names_every_parameter(tmp_path: Path, names: tuple[str, ...]) -> None:
    kept(tmp_path / "kept", names)
    text = page(read_results(tmp_path / "kept"))
    symbols = ["λ" if name == "lambda" else name for name in names]
    assert "".join(f'<th scope="col" class="num">{symbol}</th>' for symbol in symbols) in text
    chosen = "k1, b, weight, λ and delta" if len(names) > 1 else "scale"
    assert f"chose the parameter{'s' if len(names) > 1 else ''} {chosen} on" in text


@MODELS
def test_every_parameter_is_drawn(tmp_path: Path, names: tuple[str, ...]) -> None:
    kept(tmp_path / "kept", names)
    pictures = {
        picture.name: picture for picture in draw(tmp_path / "kept", read_results(tmp_path / "kept").results)
    }
    assert [name for name in pictures if "fold1" in name] == [
        "plain-AP-fold1-cost",
        "plain-AP-fold1-convergence",
        "plain-P@10-fold1-convergence",
    ]
    assert len(pictures["plain-parameters"].figure.axes) == 2 * len(names)
    for name in names:
        symbol = "λ" if name == "lambda" else name
        assert f"{symbol} from " in pictures["plain-parameters"].alt
        assert f"The line along {symbol}: " in pictures["plain-AP-fold1-cost"].alt
    assert pictures["plain-parameters"].figure.axes[0].get_yscale() == "log"


def test_an_empty_parameter_is_refused(tmp_path: Path) -> None:
    kept(tmp_path / "kept", FIVE)
    path = tmp_path / "kept" / "parameters.csv"
    [head, first, *rest] = path.read_text().splitlines()
    cells = first.split(",")
    cells[4] = ""
    path.write_text("\n".join([head, ",".join(cells), *rest, ""]))
    with pytest.raises(InputError, match=r"parameters\.csv:2: not a number in column k1"):
        read_results(tmp_path / "kept")
