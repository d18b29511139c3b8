"""What a page asks of a view, as JSON holds it."""

from __future__ import annotations

import math
import shlex
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from lmtune.arrays import Booleans, Doubles
from lmtune.candidates.explaining import explain_document
from lmtune.collections.folds import cross_validation
from lmtune.errors import InputError, check_choice
from lmtune.explorer.background import Surfaces
from lmtune.explorer.view import SHOWN, View, stamp_of
from lmtune.index.tokenizer import tokenize
from lmtune.measures.evaluate import DEPTH
from lmtune.measures.significance.comparison import compare
from lmtune.measures.significance.tests import FEWEST
from lmtune.models.model import find_model
from lmtune.models.parameter import Parameter, Setting
from lmtune.models.weighted import Weighted
from lmtune.tuning.experiment.run import significantly_worse

_CLOSE = 1e-9  # relative: where a score is no sum over terms, it is off by far more
_SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)  # keeps all lengths
_LONGEST = 4000  # characters of a document that are shown


def description(view: View) -> dict[str, Any]:
    """Return what does not depend on a setting: names, parameters, measures, topics, marks."""
    return {
        "name": view.pool.name,
        "model": view.model,
        "documents": view.index.num_docs,
        "parameters": [_parameter(own) for own in view.space.parameters],
        "axes": [view.space.names[axis] for axis in view.axes],
        "measures": [str(measure) for measure in view.measures],
        "labels": [measure.label for measure in view.measures],
        "topics": [{"id": topic, "text": view.queries.get(topic, "")} for topic in view.pool.topics],
        "marks": [mark._asdict() for mark in view.marks],
        "hasTexts": view.texts is not None,
        "depth": view.depth,
        "half": _half(view.pool.topics),
    }


def _half(topics: Sequence[str]) -> str:
    """Return which topics are in the half to choose on, a 1 or a 0 each; "" where these are too few."""
    if len(topics) < 2 * FEWEST:
        return ""
    chosen = set(cross_validation(topics, 2)[0].train)
    return "".join("1" if topic in chosen else "0" for topic in topics)


def _parameter(own: Parameter) -> dict[str, Any]:
    names = ("name", "what", "unit", "low", "high", "scale", "share")
    return {name: getattr(own, name) for name in names} | {"fixed": own.is_fixed}


def measured(view: View, setting: Setting) -> dict[str, Any]:
    """Return a setting's value of each measure: means, and topic by topic."""
    vector = view.vector(setting)
    values = view.value(vector)
    return {
        "setting": view.space.named(vector),
        "means": values.mean(axis=0).tolist(),
        "values": values.tolist(),
        "command": command(view, vector),
        "changed": view.stamp != stamp_of(view.index),
    }


def command(view: View, vector: Doubles) -> str:
    """Return the command that writes a setting's run; of runs, the one that measures their weights."""
    depth = view.depth != DEPTH
    if not view.model:
        weights = ",".join(f"{name}={value!r}" for name, value in view.space.named(vector).items())
        words = ["lmtune", "fuse", *view.source, "--weights", weights]
        words += [word for measure in view.measures for word in ("-m", str(measure))]
        return shlex.join([*words, *(["--depth", str(view.depth)] if depth else [])])
    fixed = find_model(view.model).fixed
    words = ["lmtune", "search", *view.source, "--model", view.model]
    for name, value in view.space.named(vector).items():
        words += [] if name in fixed else ["--set", f"{name}={value!r}"]
    return shlex.join([*words, *(["--hits", str(view.depth)] if depth else [])])


def compared(view: View, setting: Setting, pinned: Setting, topics: str) -> dict[str, Any]:
    """Compare a setting with a pinned one by paired t-tests, with intervals.

    There is no test of a setting with itself, nor on a single topic. `topics` are those that count, as for
    a surface.
    """
    now, then = view.vector(setting), view.vector(pinned)
    counts = _counting(view, topics)
    names = [str(measure) for measure in view.measures]
    if counts.sum() == 1:
        [[values]], [[others]] = view.value(now)[counts][None], view.value(then)[counts][None]
        single = [_single(*own) for own in zip(names, values.tolist(), others.tolist(), strict=True)]
        return {"contrasts": single, "confidence": 0.95, "notes": ["no test on a single topic"]}
    same = bool((now == then).all())  # a setting is no other's equal by chance
    found = compare(
        view.value(then)[counts],
        {"setting": view.value(now)[counts]},
        measures=names,
        topics=[topic for topic, is_in in zip(view.pool.topics, counts, strict=True) if is_in],
    )

    def known(value: float) -> float | None:  # JSON has no NaN
        return value if math.isfinite(value) else None

    return {
        "contrasts": [
            {
                "measure": own.measure,
                "mean": own.mean,
                "pinned": own.against_mean,
                "difference": own.difference,
                "interval": [None if same else known(end) for end in own.interval],
                "p": None if same else known(own.tested["t"].p_value),
                "better": own.wins,
                "equal": own.ties,
                "worse": own.losses,
            }
            for own in found.contrasts
        ],
        "confidence": found.interval_confidence,
        "notes": [] if same else list(found.notes),
    }


def _single(measure: str, value: float, pinned: float) -> dict[str, Any]:
    """Return the contrast of a single topic, without a test."""
    counts = {"better": int(value > pinned), "equal": int(value == pinned), "worse": int(value < pinned)}
    means = {"measure": measure, "mean": value, "pinned": pinned, "difference": value - pinned}
    return {**means, "interval": [None, None], "p": None, **counts}


def ranked(view: View, topic: str, setting: Setting, pinned: Setting) -> dict[str, Any]:
    """Return a topic's two rankings, each document with its gain and its place in the other."""
    [t] = view.pool.positions([topic]).tolist()
    sides = {name: view.vector(own) for name, own in (("pinned", pinned), ("setting", setting))}
    tops = {name: view.pool.top(t, vector, view.depth) for name, vector in sides.items()}
    places = {name: {int(at): place for place, at in enumerate(top, 1)} for name, top in tops.items()}
    rows = view.pool.candidates.rows(t)
    gains, docs = view.pool.candidates.gain[rows], view.pool.candidates.doc[rows]
    shown: dict[str, Any] = {"topic": topic, "text": view.queries.get(topic, "")}
    for name, other in (("pinned", "setting"), ("setting", "pinned")):
        top = tops[name][:SHOWN]
        scores = view.scores(t, top, sides[name]).tolist()
        shown[name] = [
            {"docno": docno, "score": score, "gain": int(gains[at]), "other": places[other].get(int(at))}
            for docno, score, at in zip(view.index.docnos(docs[top]), scores, top, strict=True)
        ]
    return shown


def explained(view: View, topic: str, docno: str, setting: Setting, pinned: Setting) -> dict[str, Any]:
    """Return a document's score for a topic term by term, by two settings, and its text where that is kept.

    A term's contribution is the score of the document by that term alone; `isSum` tells whether these
    add up to the score, as they do where a formula is a sum over terms; `account` tells it as engines do.
    `columns` are the names of what else the model knows of a term. The text is in pieces, of which every
    other one is a query term.
    """
    [t] = view.pool.positions([topic]).tolist()
    vector, own = view.vector(setting), view.pool.candidates.rows(t)
    [number] = view.index.doc_numbers([docno]).tolist()
    [places] = np.nonzero(view.pool.candidates.doc[own] == number)
    if number < 0 or not places.size:
        raise InputError(
            "not among the topic's candidates", value=docno, accepted="a document of its rankings"
        )
    then = view.vector(pinned)
    score, before = (view.scores(t, places, own).item() for own in (vector, then))
    parts, others = (view.parts(t, int(places[0]), own) for own in (vector, then))
    total, formula = sum(parts.values()), view.pool.formula
    times = "weight" if isinstance(formula, Weighted) else "times"
    columns = {"times": times, "tf": "tf", "value": formula.value_name} if view.model else {}
    if isinstance(formula, Weighted):
        columns["made"] = "made of"
    if formula.is_likelihood:
        columns["probability"] = "P(w|D)"
    account = explain_document(view.pool, topic, docno, view.space.named(vector)) if view.model else None
    known = _terms(view, t, int(places[0]), vector) if view.model else {name: {} for name in parts}
    return {
        "docno": docno,
        "score": score,
        "pinned": before,
        "length": int(view.pool.candidates.length[own][places[0]]),
        "columns": columns,
        "terms": [
            {"term": name, "contribution": part, "pinned": others.get(name, 0.0), **known[name]}
            | ({"probability": math.exp(part / known[name]["times"])} if formula.is_likelihood else {})
            for name, part in parts.items()
        ],
        "isSum": abs(total - score) <= _CLOSE * max(1.0, abs(score)),
        "account": None if account is None else "\n".join(account.lines()),
        "text": None if view.texts is None else _marked(view, view.texts.of([docno])[0], list(parts)),
    }


def _terms(view: View, t: int, place: int, vector: Doubles) -> dict[str, dict[str, Any]]:
    """Return by term of a topic how often the query has it, and what a document and the index hold of it."""
    pool = view.pool
    tf, values = pool.tf_block(pool.candidates, t)[:, place].tolist(), pool.value[pool.term_rows(t)].tolist()
    found: dict[str, dict[str, Any]] = {}
    weights = zip(view.weights(t, vector), view.made(t, vector), strict=True)
    for column, (times, made), count, value in zip(pool.columns[t], weights, tf, values, strict=True):
        own = found.setdefault(column.term, {"times": times, "made": made, "tf": [], "value": [], "of": []})
        own["tf"].append(count)
        own["value"].append(value)
        own["of"].append(pool.formula.group_names[column.group] if pool.formula.group_names else "")
    return found


def _marked(view: View, text: str, terms: list[str]) -> list[str]:
    """Return a text's beginning in pieces, at odd places those that are analysed to a query term."""
    wanted = {word for term in terms for word in term.split()}
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST].rpartition(' ')[0] or text[:_LONGEST]} …"
    small, done, pieces = shown.translate(_SMALL), 0, [""]
    for token in tokenize(shown):
        begin = small.index(token.translate(_SMALL), done)
        end = begin + len(token)
        is_wanted = not wanted.isdisjoint(view.index.analyze(token))
        pieces[-1] += shown[done:begin]
        pieces += [shown[begin:end], ""] if is_wanted else []
        pieces[-1] += "" if is_wanted else shown[begin:end]
        done = end
    pieces[-1] += shown[done:]
    return pieces


def surface(
    view: View, surfaces: Surfaces, setting: Setting, measure: str, smooth: bool, topics: str, plane: str
) -> dict[str, Any]:
    """Return what is known so far of a measure over a plane or along lines: means over topics.

    Parameters
    ----------
    view, surfaces : View, Surfaces
        What is shown, and its points.
    setting : mapping of str to float
        Where planes and lines go through.
    measure : str
        One of the view's.
    smooth : bool
        Its smooth form instead, of all topics.
    topics : str
        Which count: a 1 for each that does and a 0 for the others, in the pool's order; "" for all.
    plane : str
        Two of the view's axes, with a comma between them; "" for a line along each.

    Returns
    -------
    dict
        ``near`` says of each point once all are known, of three topics or more, whether it is not
        significantly worse than the best one, by a paired t-test over these very topics; None before.
    """
    names = [str(own) for own in view.measures]
    check_choice("not among the page's measures", measure, names)
    place = names.index(measure)
    points = surfaces.ask(
        view.vector(setting), view.measures[place] if smooth else None, plane_of(view, plane)
    )
    done = points.done / len(points.order)  # before the values, which are filled in before it is told
    values = points.values[:, 0 if smooth else place]
    if not smooth:
        values = values[:, _counting(view, topics)]
    means, near = values.mean(axis=1), None
    if done == 1.0 and values.shape[1] >= FEWEST:
        near = (~np.isnan(means)).tolist()
        worse = significantly_worse(values[near], values[np.nanargmax(means)])
        for at, is_worse in zip(np.flatnonzero(near), worse, strict=True):
            near[at] = not is_worse
    return {
        "settings": np.nan_to_num(points.settings).tolist(),
        "shape": list(points.shape),
        "values": [None if np.isnan(value) else value for value in means.tolist()],
        "near": near,
        "done": done,
        "error": points.error,
    }


def _counting(view: View, topics: str) -> Booleans:
    """Return which topics count, of a 1 for each that does and a 0 for the others; "" for all.

    Raises
    ------
    InputError
        For anything else, and where none does.
    """
    if topics and (len(topics) != len(view.pool.topics) or set(topics) - {"0", "1"} or "1" not in topics):
        raise InputError("not a choice of topics", value=topics, accepted="0 and 1, one a topic")
    return np.array([own == "1" for own in topics or "1" * len(view.pool.topics)])


def plane_of(view: View, plane: str) -> tuple[int, ...]:
    """Return the places of a plane's parameters; of none for ""."""
    names = [view.space.names[axis] for axis in view.axes]
    pairs = {f"{one},{other}": (one, other) for one in names for other in names if one != other}
    if plane and plane not in pairs:
        raise InputError("not two of the page's axes", value=plane, accepted=", ".join(names))
    return tuple(view.space.names.index(name) for name in pairs[plane]) if plane else ()
