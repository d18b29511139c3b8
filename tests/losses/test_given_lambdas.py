"""Loading lambda-functions, and training by them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from made_lists import made_lists  # noqa: E402

from lmtune.errors import InputError  # noqa: E402
from lmtune.losses import LOSSES  # noqa: E402
from lmtune.losses.derived import lambda_loss  # noqa: E402
from lmtune.losses.lambda_functions import checked_function, file_digest, load_function  # noqa: E402
from lmtune.rerank.learners.feature_networks import Trained, fit  # noqa: E402
from lmtune.rerank.loss_names import make_loss, parse_loss  # noqa: E402
from lmtune.rerank.settings import Settings  # noqa: E402

torch.set_num_threads(1)

Array = NDArray[np.float64]

RANKNET = """
import numpy as np

def ranknet(scores, labels):
    wrong = 1 / (1 + np.exp(scores[:, None] - scores))
    force = np.where(labels[:, None] > labels, wrong, 0)
    return force.sum(axis=1) - force.sum(axis=0)

def mean_ranknet(scores, labels):
    return ranknet(scores, labels) / max(1, (labels[:, None] > labels).sum())

number = 3
"""
LAMBDARANK = """
import numpy as np

def lambdarank(scores, labels):
    # Ranks as lmtune has them: of equal scores the less relevant first.
    equal = scores == scores[:, None]
    before = (scores > scores[:, None]) | (equal & (labels < labels[:, None]))
    tied = equal & (labels == labels[:, None])
    rank = 0.5 + before.sum(axis=1) + 0.5 * tied.sum(axis=1)
    discount = 1 / np.log2(1 + rank)
    gain = 2.0 ** labels - 1
    ideal = (np.sort(gain)[::-1] / np.log2(np.arange(2, gain.size + 2))).sum()
    weight = np.abs((gain[:, None] - gain) * (discount[:, None] - discount)) / ideal
    force = np.where(labels[:, None] > labels, weight, 0) / (1 + np.exp(scores[:, None] - scores))
    return force.sum(axis=1) - force.sum(axis=0)
"""
TRAIN, VALIDATION = made_lists(0, empty=0.1), made_lists(1, queries=10)
SMALL = Settings(network="mlp:8", epochs=3, batch_size=5, learning_rate=0.01, list_size=8)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(RANKNET + LAMBDAS_TOO, encoding="utf-8")
    return path


LAMBDAS_TOO = LAMBDARANK.replace("import numpy as np\n", "")


def lists(seed: int) -> tuple[Any, Any, Any]:
    """Make scores, with ties and of single precision's size, labels and a mask."""
    rng = np.random.default_rng(seed)
    scores = torch.tensor(rng.normal(size=(6, 7)).round(1))
    labels = torch.tensor(rng.integers(0, 4, (6, 7)))
    mask = torch.tensor(rng.uniform(size=(6, 7)) > 0.2)
    labels[0] = 0
    mask[1, 1:] = False
    return scores, labels, mask


@pytest.mark.parametrize(
    ("name", "loss", "options"),
    [
        ("ranknet", "ranknet", {"pairs": "sum"}),
        ("mean_ranknet", "ranknet", {"pairs": "mean"}),
        ("lambdarank", "lambdarank", {}),
    ],
)
@pytest.mark.parametrize("reduce", ["mean", "sum"])
def test_gradients_of_losses(file: Path, name: str, loss: str, options: dict[str, Any], reduce: str) -> None:
    scores, labels, mask = lists(0)
    gradients: list[Any] = []
    for function in (lambda_loss(load_function(f"{file}:{name}")), LOSSES[loss]):
        own = scores.clone().requires_grad_()
        more = {} if not gradients else options
        function(own, labels, mask=mask, reduce=reduce, **more).backward()  # type: ignore[no-untyped-call]
        gradients.append(own.grad)
    assert torch.allclose(*gradients, rtol=1e-12, atol=1e-14)
    assert (gradients[0][~mask] == 0).all()
    assert gradients[0].abs().max() > 0.01


def test_the_function_sees_real_documents_alone_and_cannot_harm_them() -> None:
    seen = []

    def spoil(scores: Array, labels: Array) -> Array:
        seen.append((scores.copy(), labels.copy()))
        scores[:] = labels[:] = np.nan
        return np.ones(scores.size)

    scores, labels, mask = lists(1)
    before = scores.clone()
    own = scores.requires_grad_()
    value = lambda_loss(spoil)(own, labels, mask=mask, reduce="sum")
    assert torch.equal(own, before)
    relevant = [q for q in range(6) if (labels[q][mask[q]] > 0).any()]
    assert len(seen) == len(relevant) < 6
    for q, (theirs, grades) in zip(relevant, seen, strict=True):
        assert theirs.tolist() == scores[q][mask[q]].tolist()
        assert grades.tolist() == labels[q][mask[q]].tolist()
    # The value is minus the sum of lambda_i s_i.
    assert float(value.detach()) == pytest.approx(-sum(float(one.sum()) for one, _ in seen))
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(
            torch.autograd.grad(lambda_loss(np.add)(own, labels), own, create_graph=True)[0].sum(), own
        )


@pytest.mark.parametrize(
    ("name", "loss", "options"), [("mean_ranknet", "ranknet", {}), ("lambdarank", "lambdarank", {})]
)
def test_training_by_lambdas_and_by_loss(file: Path, name: str, loss: str, options: dict[str, Any]) -> None:
    by_loss = fit(TRAIN, VALIDATION, replace(SMALL, loss=make_loss(loss, options)))
    by_lambdas = fit(TRAIN, VALIDATION, lambdas(file, name))
    for key, weights in by_loss.weights.items():
        # Both compute in other precisions; Adam's first steps are the sign of the gradient.
        assert torch.allclose(weights, by_lambdas.weights[key], atol=1e-4)
    other = fit(TRAIN, VALIDATION, lambdas(file, "ranknet" if loss == "lambdarank" else name))
    assert same(other, by_lambdas) == (loss == "ranknet")


def test_with_sgd_a_sum_over_pairs_is_another_learning_rate(file: Path) -> None:
    # One list length and one label pattern: every query has as many pairs.
    data = made_lists(3, queries=12, longest=2)
    settings = replace(SMALL, optimizer="sgd", list_size=None)
    mean = fit(data, None, replace(settings, loss=make_loss("ranknet")))
    summed = fit(data, None, replace(lambdas(file, "ranknet"), optimizer="sgd", list_size=None))
    for key, weights in mean.weights.items():
        assert torch.allclose(weights, summed.weights[key], atol=1e-5)


def test_checkpoints_know_the_function_by_its_file(file: Path, tmp_path: Path) -> None:
    settings = lambdas(file, "ranknet")
    assert settings.loss.options["digest"] == file_digest(f"{file}:ranknet")
    whole = fit(TRAIN, VALIDATION, settings)
    folder = tmp_path / "kept"
    assert same(fit(TRAIN, VALIDATION, settings, checkpoint=folder), whole)
    assert same(fit(TRAIN, VALIDATION, settings, checkpoint=folder), whole)
    file.write_text(file.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
    with pytest.raises(InputError, match="has changed"):
        fit(TRAIN, VALIDATION, settings)
    with pytest.raises(InputError, match="checkpoint of another settings"):
        fit(TRAIN, VALIDATION, lambdas(file, "ranknet"), checkpoint=folder)


def test_options(tmp_path: Path) -> None:
    spaced = tmp_path / "my files: a.py"
    spaced.write_text("def f(scores, labels): return labels\n", encoding="utf-8")
    text = f"lambdas:{spaced}:f"
    found = parse_loss(text)
    assert (found.name, str(found)) == ("lambdas", text)
    assert found.options == {"function": f"{spaced}:f", "digest": file_digest(f"{spaced}:f")}
    for options, message in (
        ({}, "needs a function"),
        ({"function": "a.py:f", "k": 1}, "no such option"),
        ({"function": "nowhere.py:f"}, "nowhere.py: no such file"),
        ({"function": "nowhere.py"}, "cannot parse"),
    ):
        with pytest.raises(InputError, match=message):
            make_loss("lambdas", options)
    with pytest.raises(InputError, match=r"cannot parse the lambda function's name"):
        parse_loss("lambdas")


def lambdas(file: Path, name: str) -> Settings:
    return replace(SMALL, loss=make_loss("lambdas", {"function": f"{file}:{name}"}))


def same(first: Trained, second: Trained) -> bool:
    equal = all(torch.equal(first.weights[name], second.weights[name]) for name in first.weights)
    return equal and first.history == second.history


@pytest.mark.parametrize(
    ("content", "named", "message"),
    [
        ("", "mine.py:f", "mine.py: no such function: 'f'; accepted: a file that defines"),
        (RANKNET, "mine.py:f", "no such function: 'f'; accepted: ranknet, mean_ranknet$"),
        (RANKNET, "mine.py:number", "mine.py: not a function: 'number'"),
        (RANKNET, "mine.py", "cannot parse the lambda function.s name: "),
        (RANKNET, "mine.py:", "cannot parse the lambda function.s name: "),
        (RANKNET, "other.py:f", "other.py: no such file"),
        ("def f(:\n", "mine.py:f", "mine.py:1: not valid Python: "),
        ("x = 1\nraise OSError('no\\nway')\n", "mine.py:f", "mine.py:2: running the file for f raised"),
        ("import nothing_of_this_name\n", "mine.py:f", "mine.py:1: .*ModuleNotFoundError"),
    ],
)
def test_loading_says_what_is_wrong(tmp_path: Path, content: str, named: str, message: str) -> None:
    (tmp_path / "mine.py").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        load_function(str(tmp_path / named))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 1.0", r"mine.py:1: f did not return one.*'float64 of shape \(\)'"),
        ("return scores[:1]", r"one lambda per document: 'float64 of shape \(1,\)'.*\(3,\)"),
        ("return ['a', 'b', 'c']", "did not return one lambda per document"),
        (
            "return scores / labels",
            "mine.py:1: f returned a lambda that is not finite for document "
            r"2 of 3 \(scores \[1, 2, 3\], labels \[1, 0, 1\]\): inf",
        ),
        ("return scores + 1j", "did not return one lambda"),
        ("return scores[7]", "mine.py:2: f raised IndexError: index 7"),
        ("raise KeyError", "mine.py:2: f raised KeyError$"),
        ("return None", "did not return one lambda"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_calling_says_what_is_wrong(tmp_path: Path, body: str, message: str) -> None:
    (tmp_path / "mine.py").write_text(f"def f(scores, labels):\n    {body}\n", encoding="utf-8")
    function = load_function(str(tmp_path / "mine.py:f"))
    with pytest.raises(InputError, match=message) as caught:
        function(np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 1.0]))
    assert "\n" not in str(caught.value)


def test_two_files_of_one_name_and_a_changed_file(tmp_path: Path) -> None:
    for folder, value in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f.py").write_text(f"def f(s, y): return s * 0 + {value}\n")
    first, second = (load_function(str(tmp_path / folder / "f.py:f")) for folder in "ab")
    zeros = np.zeros(2)
    assert (first(zeros, zeros)[0], second(zeros, zeros)[0]) == (1, 2)
    assert first.digest != second.digest
    (tmp_path / "a" / "f.py").write_text("def f(s, y): return s * 0 + 3\n")
    assert load_function(str(tmp_path / "a" / "f.py:f"))(zeros, zeros)[0] == 3
    assert not list(tmp_path.rglob("*.pyc"))
    assert checked_function(first) is first


def test_the_examples_file_can_be_loaded() -> None:
    path = Path(__file__).parents[2] / "experiments" / "lambdas" / "examples.py"
    scores, labels = np.array([0.1, 0.5, 0.2]), np.array([2.0, 0.0, 1.0])
    names = ("winner", "soft_errors", "squared_hinge", "soft_swaps", "swap_pull")
    for name in names:
        lambdas = load_function(f"{path}:{name}")(scores, labels)
        assert lambdas.sum() == pytest.approx(0.0, abs=1e-15)
        assert lambdas[1] < 0.0
