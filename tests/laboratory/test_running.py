"""Running, resuming and writing experiments."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from toy_experiment import Powers

from lmtune.errors import InputError
from lmtune.laboratory.experiment import Tables
from lmtune.laboratory.running import Order, run, run_all, settings_of
from lmtune.parallel import Workers
from lmtune.reporting.figures.style import Picture
from lmtune.storage.digests import sealed


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_tables_pictures_and_conclusions() -> None:
    result = run(Powers())
    assert list(result.tables["powers"]["value"]) == [1.5, 4.5]
    assert [picture.name for picture in result.pictures] == ["powers"]
    assert result.conclusions == ["the highest power is 4.5"]


def test_a_folder_holds_everything_and_the_same_bytes_twice(tmp_path: Path) -> None:
    run(Powers(), folder=tmp_path / "a")
    run(Powers(), folder=tmp_path / "b")
    found = content(tmp_path / "a")
    assert found == content(tmp_path / "b")
    assert {"powers.csv", "powers.png", "powers.svg", "numbers.json", "made.json"} <= found.keys()
    numbers = json.loads(found["numbers.json"], parse_constant=lambda name: pytest.fail(name))
    assert numbers["tables"]["powers"][0] == {"power": "1", "value": 1.5, "none": None}
    assert numbers["conclusions"] == ["the highest power is 4.5"]
    made = json.loads(found["made.json"])
    assert made["settings"]["powers"] == [1, 2]
    assert made["pictures"]["powers"]["alt"] == "Powers."
    assert set(made["files"]) == found.keys() - {
        "made.json",
        "parts/identity.json",
        "parts/power1.json",
        "parts/power2.json",
    }


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_change_nothing(tmp_path: Path, workers: int) -> None:
    run(Powers(), folder=tmp_path / "here")
    run(Powers(), folder=tmp_path / "there", workers=workers)
    assert content(tmp_path / "here") == content(tmp_path / "there")


def test_a_cluster_changes_nothing(tmp_path: Path, cluster: str) -> None:
    run(Powers(), folder=tmp_path / "here")
    with Workers(cluster=cluster).engaged():
        run(Powers(), folder=tmp_path / "there")
    assert content(tmp_path / "here") == content(tmp_path / "there")


def test_a_failed_run_goes_on_where_it_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    broken = Powers(powers=(1, 2, 3), log=f"to {log}", fail_at=2)
    seen: list[tuple[str, int, int]] = []
    with pytest.raises(InputError, match="cannot raise"):
        run(broken, folder=tmp_path / "out", progress=lambda *now: seen.append(now))
    assert seen == [("toy", 0, 3), ("toy", 1, 3)]
    assert not (tmp_path / "out" / "made.json").exists()
    unit = tmp_path / "out" / "parts" / "power1.json"
    kept = unit.read_bytes()
    with pytest.raises(InputError):
        run(broken, folder=tmp_path / "out")
    assert log.read_text().split() == ["1", "2", "2"]
    assert unit.read_bytes() == kept


def test_a_finished_run_is_only_drawn_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    settings = Powers(log=f"to {log}")
    first = run(settings, folder=tmp_path / "out")
    count = len(log.read_text().split())
    log.unlink()
    second = run(settings, folder=tmp_path / "out")
    pd.testing.assert_frame_equal(first.tables["powers"], second.tables["powers"])
    assert count == 2
    assert not log.exists()


def test_other_settings_begin_anew_and_leave_nothing_behind(tmp_path: Path) -> None:
    class Renamed(Powers):
        def tables(self, results: Mapping[str, Any]) -> Tables:
            return {"other": super().tables(results)["powers"]}

        def pictures(self, found: Tables) -> list[Picture]:
            assert list(found) == ["other"]
            return []

        def conclusions(self, found: Tables) -> list[str]:
            assert list(found) == ["other"]
            return []

    run(Powers(powers=(1, 2, 3)), folder=tmp_path)
    run(Renamed(powers=(2,)), folder=tmp_path)
    assert set(content(tmp_path)) == {
        "other.csv",
        "numbers.json",
        "made.json",
        "parts/identity.json",
        "parts/power2.json",
    }


@pytest.mark.parametrize("text", ["{}", "{}:name", "kind:{}"])
def test_a_file_that_settings_name_is_known_by_its_content(tmp_path: Path, text: str) -> None:
    named = tmp_path / "named.py"
    named.write_text("")
    settings = Powers(data=text.format(named))
    run(settings, folder=tmp_path / "out")
    before = json.loads((tmp_path / "out" / "made.json").read_text())["files"]
    named.write_text("x = 1\n")
    part = tmp_path / "out" / "parts" / "power1.json"
    part.write_text('{"value": 7.0, "none": 0.0}')
    result = run(settings, folder=tmp_path / "out")
    assert list(result.tables["powers"]["value"]) == [1.5, 4.5]
    assert json.loads((tmp_path / "out" / "made.json").read_text())["files"] == before


def test_what_is_kept_is_taken(tmp_path: Path) -> None:
    run(Powers(), folder=tmp_path)
    part = tmp_path / "parts" / "power1.json"
    whole = part.read_bytes()
    identity = json.loads((tmp_path / "parts" / "identity.json").read_bytes())
    kept = sealed({"result": {"value": 7.0, "none": 0.0}}, json.dumps(identity, sort_keys=True))
    part.write_text(json.dumps(kept))
    assert list(run(Powers(), folder=tmp_path).tables["powers"]["value"]) == [7.0, 4.5]
    part.write_bytes(part.read_bytes().replace(b"7.0", b"5.0"))
    assert list(run(Powers(), folder=tmp_path).tables["powers"]["value"]) == [1.5, 4.5]
    assert part.read_bytes() == whole


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="will not replace a folder that has no parts"):
        run(Powers(), folder=tmp_path)
    assert set(content(tmp_path)) == {"thesis.tex"}


def test_bad_settings_write_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to do"):
        run(Powers(powers=()), folder=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_run_that_comes_to_nothing_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        with pytest.raises(InputError):
            run(Powers(fail_at=1), folder=tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_several_experiments_share_processes(tmp_path: Path) -> None:
    orders = [Order(Powers(seed=seed), tmp_path / str(seed), {"command": "x"}) for seed in (1, 2, 3)]
    found: Iterator[tuple[Order, object]] = run_all(orders, workers=2)
    assert {dataclasses.asdict(order.experiment)["seed"] for order, _ in found} == {1, 2, 3}
    assert json.loads((tmp_path / "2" / "made.json").read_text())["command"] == "x"


def test_settings_from_names() -> None:
    assert settings_of(Powers, {"seed": 4}, quick=True) == Powers(seed=4, powers=(1,))
    assert settings_of(Powers, {"powers": (3,)}, quick=True).powers == (3,)
    with pytest.raises(InputError, match="toy has no such setting: 'sed'; accepted: seed, powers"):
        settings_of(Powers, {"sed": 4}, quick=False)
