"""What is compiled ahead is what tuning runs."""

from compile_tuning import compile_kernels
from support import random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import cross_validation
from lmtune.losses.approx_kernels import approx_queries
from lmtune.measures.kernels import measure_cells
from lmtune.models import kernels as models
from lmtune.tuning import kernels
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.run import run_experiment

KERNELS = (
    *(models.two_stage_likelihoods, models.rank_two_stage, measure_cells, approx_queries),
    *(kernels.sum_pairs, kernels.standardise, kernels.chain_topics),
)


def test_kernels_are_compiled_for_one_kind_of_arguments() -> None:
    compile_kernels()
    before = [set(kernel.signatures) for kernel in KERNELS]
    assert all(before)
    index, topics, qrels = random_collection(7, documents=100, topics=20)
    pool = CandidatePool.build(index, topics, qrels)
    run_experiment(pool, cross_validation(pool.topics, 2), Plan(grid=(3, 4)))
    assert [set(kernel.signatures) for kernel in KERNELS] == before
