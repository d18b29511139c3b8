"""Settings fitted on all topics, taken from a results folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from reported import made_results, write_made

from lmtune.datasets.collection import Collection
from lmtune.errors import InputError
from lmtune.reporting.tuning_results import take_final
from lmtune.tuning.experiment.result import DIRECT, RANKNET


def test_the_setting_of_a_measure_and_method_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
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
        assert f"fitted on all 6 topics of {name} for" in caplog.messages[-1]
    assert take_final(folder, Collection("two")).values == taken.values


def test_what_the_results_lack_is_refused(tmp_path: Path) -> None:
    several = write_made(tmp_path / "several", made_results(names=("one", "two")))
    with pytest.raises(InputError, match=r"several collections.*other.*one, two"):
        take_final(several, Collection("other"))
    with pytest.raises(InputError, match=r"Bpref Direct.*AP Direct, AP RankNet, P@10"):
        take_final(several, Collection("one"), measure="Bpref")
    with pytest.raises(InputError, match="Optimal"):
        take_final(several, Collection("one"), method="Optimal")
    (several / "final.csv").write_text((several / "final.csv").read_text().splitlines()[0] + "\n")
    with pytest.raises(InputError):
        take_final(several, Collection("one"))
    with pytest.raises(InputError, match="no such folder"):
        take_final(tmp_path / "none", Collection("one"))
