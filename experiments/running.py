"""Running experiments: in several processes, resumable, with whole files at the end."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from experiments.data import digest
from experiments.experiment import Experiment, Tables, Unit
from lmtune import parallel
from lmtune.datasets.provenance import installed, versions
from lmtune.errors import check_choice
from lmtune.formats.result_folders import RECORD
from lmtune.reporting.figures.style import Picture, rendered
from lmtune.reporting.table import RENDERED, Table, finite, frame_text, in_all_formats, render
from lmtune.storage.digests import sealed, sealed_text, unsealed
from lmtune.storage.files import atomic_write
from lmtune.storage.folders import FolderKind, check_directory
from lmtune.storage.json_text import parse_json

E = TypeVar("E", bound=Experiment)
Progress = Callable[..., None]

PARTS, NUMBERS = "parts", "numbers.json"
_IDENTITY = "identity.json"
_KIND = FolderKind(PARTS)


@dataclass(frozen=True)
class Result:
    """The result of an experiment.

    Attributes
    ----------
    tables : dict of str to pandas.DataFrame
        The numbers.
    pictures : list of Picture
        The same, drawn.
    conclusions : list of str
        What was found, in sentences.
    table : Table or None
        A table to print.
    """

    tables: Tables
    pictures: list[Picture]
    conclusions: list[str]
    table: Table | None = None


@dataclass(frozen=True)
class Order:
    """An experiment to run.

    Attributes
    ----------
    experiment : Experiment
        What to do, with its options.
    folder : pathlib.Path, optional
        Where to keep pieces of work and results.
    made : mapping
        What else to say in ``made.json`` of how the results came about.
    """

    experiment: Experiment
    folder: Path | None = None
    made: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def run(
    experiment: Experiment,
    *,
    folder: Path | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run an experiment.

    Parameters
    ----------
    experiment : Experiment
        Such as `experiments.catalogue.find_experiment` finds, with its options.
    folder : path, optional
        Where to keep pieces of work, so that an interrupted run goes on, and results.
    workers : int, optional
        How many processes to use, each with one thread for linear algebra; 0 for this process; by
        default as `joblib.parallel_config` says, or this process. The results are the same bits for 1
        or more, and for 0 where linear algebra has one thread.
    progress : callable, optional
        Called with (the experiment's name, pieces done, pieces in all).

    Returns
    -------
    Result

    Raises
    ------
    InputError
        For settings that make no sense, data that cannot be read, or a foreign folder.

    Examples
    --------
    >>> from experiments.catalogue import find_experiment
    >>> found = run(find_experiment("smoothness")())  # doctest: +SKIP
    >>> found.conclusions  # doctest: +SKIP
    """
    [(_, result)] = run_all([Order(experiment, folder)], workers=workers, progress=progress)
    return result


def run_all(
    orders: Sequence[Order], *, workers: int | None = None, progress: Progress | None = None
) -> Iterator[tuple[Order, Result]]:
    """Run experiments and yield each with its result as soon as it is complete.

    Parameters
    ----------
    orders : sequence of Order
        What to run; processes are shared between them.
    workers, progress
        As for `run`.

    Raises
    ------
    InputError
        As for `run`; what is complete by then stays.
    """
    plans = [_Plan(order) for order in orders]
    try:
        yield from _run_all(plans, workers, progress)
    except BaseException:
        for plan in plans:
            plan.abandon()
        raise


def _run_all(
    plans: Sequence[_Plan], workers: int | None, progress: Progress | None
) -> Iterator[tuple[Order, Result]]:
    for plan in plans:
        plan.open()
    tasks = [(plan, unit) for plan in plans for unit in plan.missing()]
    for plan in plans:
        yield from plan.advanced(progress)
    here = {} if progress is None or parallel.width(workers) else {"progress": progress}
    calls = [(unit.function, {**unit.arguments, **(here if unit.reports else {})}) for _, unit in tasks]
    for number, result in parallel.run_all(calls, workers):
        plan, unit = tasks[number]
        plan.keep(unit, result)
        yield from plan.advanced(progress)


class _Plan:
    """One experiment's units and what is known of them."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.name = order.experiment.name
        self.units = order.experiment.units()
        self.results: dict[str, Any] = {}
        self._of, self._new = "", False
        keys = [unit.key for unit in self.units]
        if len(set(keys)) < len(keys):
            raise ValueError(f"{self.name}: two units of one key")

    def advanced(self, progress: Progress | None) -> Iterator[tuple[Order, Result]]:
        """Say how far it is; yield the result where that is all of it."""
        if progress is not None:
            progress(self.name, len(self.results), len(self.units))
        if len(self.results) == len(self.units):
            yield self.order, self.finish()

    def open(self) -> None:
        """Read what an earlier run of the same settings, data and code has left."""
        folder = self.order.folder
        if folder is None:
            return
        check_directory(folder, _KIND)
        self._new = not folder.exists()
        identity, known = _identity(self.order), None
        self._of = json.dumps(identity, sort_keys=True)
        file = folder / PARTS / _IDENTITY
        with contextlib.suppress(OSError, ValueError):
            known = parse_json(file.read_bytes(), infinite=True)
        if known != identity:
            shutil.rmtree(folder / PARTS, ignore_errors=True)
            (folder / PARTS).mkdir(parents=True)
            with atomic_write(file) as stream:
                stream.write(_json_text(identity))
        for unit in self.units:
            # A damaged piece is done again.
            with contextlib.suppress(OSError, ValueError):
                content = _part(folder, unit).read_bytes()
                self.results[unit.key] = unsealed(content, self._of, {"result": Any})["result"]

    def abandon(self) -> None:
        """Remove the folder if this run made it and has nothing to keep."""
        if self._new and not self.results and self.order.folder is not None:
            shutil.rmtree(self.order.folder, ignore_errors=True)

    def missing(self) -> list[Unit]:
        return [unit for unit in self.units if unit.key not in self.results]

    def keep(self, unit: Unit, result: Any) -> None:
        # Through JSON in any case, so that resumed and fresh runs see the same.
        text = json.dumps(result)
        if self.order.folder is not None:
            with atomic_write(_part(self.order.folder, unit)) as stream:
                json.dump(sealed({"result": result}, self._of), stream)
        self.results[unit.key] = json.loads(text)

    def finish(self) -> Result:
        """Make tables, pictures and conclusions, and write them."""
        experiment = self.order.experiment
        ordered = {unit.key: self.results[unit.key] for unit in self.units}
        tables = experiment.tables(ordered)
        result = Result(
            tables, experiment.pictures(tables), experiment.conclusions(tables), experiment.table(tables)
        )
        if self.order.folder is not None:
            _write(self.order, self.order.folder, result)
        return result


def _part(folder: Path, unit: Unit) -> Path:
    return folder / PARTS / f"{unit.key}.json"


def _identity(order: Order) -> dict[str, Any]:
    """Return what the units' results depend on."""
    settings = dataclasses.asdict(order.experiment)
    texts = [
        text
        for value in settings.values()
        for text in (value if isinstance(value, tuple) else (value,))
        if isinstance(text, str)
        for text in text.split(",")
    ]
    # FILE.py:NAME and movielens:FILE name files as well, and there may be several.
    paths = [path for text in texts for path in (text, text.rpartition(":")[0], text.partition(":")[2])]
    identity = {
        "experiment": order.experiment.name,
        "settings": settings,
        "files": {path: digest(path) for path in paths if path and Path(path).exists()},
        "versions": versions() | installed("torch", "lightgbm", "matplotlib"),
        "code": parallel.sources_digest(),
    }
    return dict(json.loads(json.dumps(identity)))


def _write(order: Order, folder: Path, result: Result) -> None:
    record = folder / RECORD
    old: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        old = unsealed(record.read_bytes(), kinds={"files": list[str]})
    # Without a record there is no result; it comes last.
    record.unlink(missing_ok=True)
    tables = {f"{name}.csv": frame_text(table) for name, table in result.tables.items()}
    if (printed := result.table) is not None:
        # The numbers have files of their own.
        tables |= in_all_formats(lambda style: render(style, lambda: [printed], list), RENDERED)
    numbers = {
        "conclusions": result.conclusions,
        "tables": {name: _records(table) for name, table in result.tables.items()},
    }
    tables[NUMBERS] = _json_text(numbers)
    made = {
        "experiment": order.experiment.name,
        **order.made,
        **{name: value for name, value in _identity(order).items() if name != "experiment"},
        "pictures": {
            picture.name: {"title": picture.title, "alt": picture.alt} for picture in result.pictures
        },
    }
    written = {name: text.encode() for name, text in tables.items()}
    for picture in result.pictures:
        written |= rendered(picture.name, picture.figure)
    files = [*written]
    for name, content in written.items():
        with atomic_write(folder / name, mode="binary") as stream:
            stream.write(content)
    for name in set(old.get("files", ())) - set(files):
        (folder / Path(name).name).unlink(missing_ok=True)
    with atomic_write(record) as text:
        text.write(sealed_text({**made, "files": files}))


def _records(table: Any) -> Any:
    return finite(json.loads(json.dumps(table.to_dict("records"), default=lambda x: x.item())))


def _json_text(content: Any) -> str:
    return json.dumps(content, indent=1) + "\n"


def settings_of(experiment: type[E], options: Mapping[str, Any], *, quick: bool = False) -> E:
    """Make an experiment of its defaults, its quick options if asked for, and given ones.

    Raises
    ------
    InputError
        For a name that is no option, or a value out of bounds.
    """
    names = [field.name for field in dataclasses.fields(experiment)]
    for name in options:
        check_choice(f"{experiment.name} has no such setting", name, names)
    return experiment(**{**(experiment.quick if quick else {}), **options})
