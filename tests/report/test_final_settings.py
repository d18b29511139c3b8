"""Settings fitted on all topics, taken from a results folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from reported import made_results, write_made

from lmtune.collections.collection import Collection
from lmtune.errors import InputError
from lmtune.tuning.experiment.result import DEFAULT, DIRECT, RANKNET
from lmtune.tuning.experiment.stored import read_results, take_final


def test_the_setting_of_a_measure_and_method(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "lmtune")
    results = made_results(names=("one", "two"))
    folder = write_made(tmp_path / "kept", results)
    finals = {
        (result.name, str(row.measure), row.method): row.final for result in results for row in result.rows
    }
    for name, measure, method in (("one", "P@10", RANKNET), ("two", "AP", DIRECT)):
        taken = take_final(folder, Collection(f"a/b/{name}"), measure=measure, method=method.lower())
        final = finals[name, measure, method]
        assert final is not None
        assert (taken.model, taken.values) == ("two-stage", final.params)
        assert taken.collection == Collection(f"a/b/{name}")
        assert f" on {name}, fitted on all 6 topics" in caplog.messages[-1]
    for result in results:
        recommended = result.recommended
        assert recommended is not None
        assert recommended.setting is not None
        taken = take_final(folder, Collection(result.name))
        assert taken.values == recommended.setting.params
        assert f"({recommended.method} for " in caplog.messages[-1]
        [other] = {DIRECT, RANKNET} - {recommended.method}
        take_final(folder, Collection(result.name), method=other)
        assert caplog.messages[-1].endswith(f"; recommended: {recommended.method})")


def test_the_method_that_choosing_selected_is_taken(tmp_path: Path) -> None:
    [result] = made_results(names=("one",))
    for method in (DIRECT, RANKNET):
        selected = replace(result, selected=method)
        choices = tmp_path / method
        write_made(choices / "chosen", [selected])
        (choices / "choices.json").write_text("{}")
        row = next(row for row in result.rows if (row.measure, row.method) == (result.measures[0], method))
        assert row.final is not None
        assert take_final(choices, Collection("one")).values == row.final.params
        [stored] = read_results(choices).results
        assert stored.recommended is not None
        assert stored.recommended.method == method


def test_a_recommended_default_is_taken(tmp_path: Path) -> None:
    [result] = made_results(names=("one",))
    [first, *others] = [row for row in result.rows if row.measure == result.measures[0]]
    default = replace(first, method=DEFAULT, values=first.values + 1.0, final=None)
    folder = write_made(tmp_path / "kept", [replace(result, rows=(default, first, *others))])
    assert take_final(folder, Collection("one")).values == default.fits[0].params


def test_what_the_results_lack_is_refused(tmp_path: Path) -> None:
    several = write_made(tmp_path / "several", made_results(names=("one", "two")))
    with pytest.raises(InputError, match=r"several collections.*other.*one, two"):
        take_final(several, Collection("other"))
    with pytest.raises(InputError, match=r"Bpref.*AP Direct, AP RankNet, P@10"):
        take_final(several, Collection("one"), measure="Bpref")
    with pytest.raises(InputError, match="Optimal"):
        take_final(several, Collection("one"), method="Optimal")
    (several / "final.csv").write_text((several / "final.csv").read_text().splitlines()[0] + "\n")
    with pytest.raises(InputError):
        take_final(several, Collection("one"))
    with pytest.raises(InputError, match="no such folder"):
        take_final(tmp_path / "none", Collection("one"))
