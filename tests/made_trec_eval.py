"""Make ``report/trec_eval_golden``: judgments, runs, and what trec_eval prints for them.

    python tests/made_trec_eval.py TREC_EVAL_9_0_8 TREC_EVAL_10_0

takes the two programs' paths.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

HOME = Path(__file__).parent / "report/trec_eval_golden"
ODD = ("1", "7", "9", "51", "101", "450")
MISSED, NOTHING_RELEVANT, UNJUDGED = "302", "308", "999"
# Scores that are ties in 32 bits and not in 64, below and above 32 bits' range, and odd to read.
SCORES = ("3", "2", "2.000000001", "1.0", "0.99999999999", "0", "-0", "-1.5", "1e-46", "+2", ".5", "5.")
COMMANDS = {
    # output: arguments, then judgments and run
    "default": "qrels half.run",
    "c": "-c qrels half.run",
    "q": "-q qrels half.run",
    "q_c_all": "-q -c -m all_trec qrels half.run",
    "all_level_2": "-q -m all_trec -m relstring.20 -l2 qrels whole.run",
    "c_level_2": "-c -l 2 -m official qrels half.run",
    "set": "-m set qrels half.run",
    "depth": "-M 3 -q -m set -m map -m ndcg qrels whole.run",
    "judged": "-J -q -m map -m ndcg_cut.5,10 -m num_ret -m P.5 qrels whole.run",
    "cuts": "-m ndcg_cut.5,10 -m P.3,1 -m recall.2 -m success.4 -m map_cut.7 -m relative_P.2 qrels whole.run",
    "parameters": "-q -c -mndcg.1=3,2=9 -mG.3=7 -m iprec_at_recall..15,.5 -m 11pt_avg..2,.5,.8"
    " -m Rprec_mult.0.3,1.7 -m set_F.0.5 -m utility.2,-1,.5,.25 -N 60 qrels half.run",
    "topics_alone": "-n -q -m num_q -m num_rel -m map -m gm_map qrels half.run",
    "yaap": "-q -c -m yaap -m infAP -m bpref qrels half.run",
}
OF_10 = {
    "default": "qrels whole.run",
    "rbp": "-q -m rbp.p=0.8 qrels whole.run",
    "rbp_resid": "-q -c -m rbp_resid.p=0.8 -m unj.2,7 -m dcg -m ideal_dcg qrels half.run",
}


def make_inputs() -> None:
    """Write the judgments and both runs."""
    random = Random(15)
    docnos = [f"doc-{number}" for number in range(30)] + ["Doc-1", "doc_1", "\u00e9t\u00e9"]
    judgments: list[str] = []
    half: list[str] = []
    whole: list[str] = []
    for topic in (*ODD, MISSED, NOTHING_RELEVANT):
        gains = (0, -1) if topic == NOTHING_RELEVANT else (0, 0, 0, 1, 1, 2, 3, -1)
        judged = random.sample(docnos, 18)
        judgments += [f"{topic} 0 {docno} {random.choice(gains)}" for docno in judged[1:]]
        judgments.append(f"{topic} 0 {judged[0]} 0")
        for run in (half, whole):
            if topic == MISSED and run is half:
                continue
            for rank, docno in enumerate(random.sample(docnos, random.randint(1, 30))):
                score = random.choice([*SCORES, f"{random.random():.6f}"])
                odd = random.choice((str(rank), str(rank), "0", "first", "-1", "1.0"))
                run.append(f"{topic} Q0 {docno} {odd} {score} {random.choice(('one', 'one', 'two x'))}")
    half += [f"{UNJUDGED}\tQ0\tdoc-1\t1\t2\tone", ""]
    for name, lines in (("qrels", judgments), ("half.run", half), ("whole.run", whole)):
        random.shuffle(lines)
        (HOME / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def commands() -> list[tuple[str, str, list[str]]]:
    """List the version, the output's file and the arguments of each call."""
    both = [("9.0.8", COMMANDS), ("10.0", {**COMMANDS, **OF_10})]
    calls = [(version, name, text.split()) for version, given in both for name, text in given.items()]
    # 10.0 stops where a run misses a topic, but for -c.
    return [
        (version, f"{name}.{version}.txt", arguments)
        for version, name, arguments in calls
        if version == "9.0.8" or "half.run" not in arguments or "-c" in arguments
    ]


if __name__ == "__main__":
    make_inputs()
    programs = dict(zip(("9.0.8", "10.0"), sys.argv[1:], strict=True))
    for version, output, arguments in commands():
        done = subprocess.run([programs[version], *arguments], cwd=HOME, check=True, capture_output=True)
        (HOME / output).write_bytes(done.stdout)
