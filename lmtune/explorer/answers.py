"""Answers to a page's questions about a view, as JSON content."""

from __future__ import annotations

import math
import shlex
import string
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from lmtune.arrays import Booleans, Doubles
from lmtune.candidates.explaining import explain_document
from lmtune.collections.folds import cross_validation
from lmtune.errors import InputError, check_choice
from lmtune.explorer.background import Surfaces
from lmtune.explorer.view import SHOWN, View, stamp_of
from lmtune.index.protocol import Index
from lmtune.index.tokenizer import tokenize
from lmtune.measures.evaluate import DEPTH
from lmtune.measures.significance.comparison import compare
from lmtune.measures.significance.near_best import MARGIN, loss_bounds
from lmtune.measures.significance.tests import FEWEST
from lmtune.models.model import find_model
from lmtune.models.parameter import Parameter, Setting
from lmtune.models.weighted import Weighted

_SUM_TOLERANCE = 1e-9  # relative; scores that are not sums over terms differ by much more
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)  # does not change lengths
_LONGEST = 4000  # characters of a document on the page


def description(view: View) -> dict[str, Any]:
    """Return the content that does not depend on a setting: names, parameters, measures, topics, marks."""
    return {
        "name": view.pool.name,
        "model": view.model,
        "documents": view.index.num_docs,
        "parameters": [_parameter(parameter) for parameter in view.space.parameters],
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
    """Return a 1 for each topic of the half to choose on and a 0 for the others; "" for too few topics."""
    if len(topics) < 2 * FEWEST:
        return ""
    chosen = set(cross_validation(topics, 2)[0].train)
    return "".join("1" if topic in chosen else "0" for topic in topics)


def _parameter(parameter: Parameter) -> dict[str, Any]:
    names = ("name", "what", "unit", "low", "high", "scale", "share")
    return {name: getattr(parameter, name) for name in names} | {"fixed": parameter.is_fixed}


def measured(view: View, setting: Setting) -> dict[str, Any]:
    """Return the measures of a setting: means, and values by topic."""
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
    """Return the command that writes a setting's run; for runs, the command that evaluates the weights."""
    has_depth = view.depth != DEPTH
    if not view.model:
        weights = ",".join(f"{name}={value!r}" for name, value in view.space.named(vector).items())
        words = ["lmtune", "fuse", *view.source, "--weights", weights]
        words += [word for measure in view.measures for word in ("-m", str(measure))]
        return shlex.join([*words, *(["--depth", str(view.depth)] if has_depth else [])])
    fixed = find_model(view.model).fixed
    words = ["lmtune", "search", *view.source, "--model", view.model]
    for name, value in view.space.named(vector).items():
        words += [] if name in fixed else ["--set", f"{name}={value!r}"]
    return shlex.join([*words, *(["--hits", str(view.depth)] if has_depth else [])])


def compared(view: View, setting: Setting, pinned: Setting, topics: str) -> dict[str, Any]:
    """Compare a setting with the pinned one by paired t-tests, with intervals.

    A setting is not tested against itself, nor on a single topic. `topics` selects topics as in `surface`.
    """
    vector, pinned_vector = view.vector(setting), view.vector(pinned)
    selected = _selected(view, topics)
    names = [str(measure) for measure in view.measures]
    if selected.sum() == 1:
        [[values]], [[others]] = view.value(vector)[selected][None], view.value(pinned_vector)[selected][None]
        single = [_single(*row) for row in zip(names, values.tolist(), others.tolist(), strict=True)]
        return {"contrasts": single, "confidence": 0.95, "notes": ["no test on a single topic"]}
    is_same = bool((vector == pinned_vector).all())
    comparison = compare(
        view.value(pinned_vector)[selected],
        {"setting": view.value(vector)[selected]},
        measures=names,
        topics=[topic for topic, is_in in zip(view.pool.topics, selected, strict=True) if is_in],
    )

    def finite(value: float) -> float | None:  # JSON has no NaN
        return value if math.isfinite(value) else None

    return {
        "contrasts": [
            {
                "measure": contrast.measure,
                "mean": contrast.mean,
                "pinned": contrast.against_mean,
                "difference": contrast.difference,
                "interval": [None if is_same else finite(end) for end in contrast.interval],
                "p": None if is_same else finite(contrast.tested["t"].p_value),
                "better": contrast.wins,
                "equal": contrast.ties,
                "worse": contrast.losses,
            }
            for contrast in comparison.contrasts
        ],
        "confidence": comparison.options.confidence,
        "notes": [] if is_same else list(comparison.notes),
    }


def _single(measure: str, value: float, pinned: float) -> dict[str, Any]:
    """Return the contrast of a single topic, without a test."""
    counts = {"better": int(value > pinned), "equal": int(value == pinned), "worse": int(value < pinned)}
    means = {"measure": measure, "mean": value, "pinned": pinned, "difference": value - pinned}
    return {**means, "interval": [None, None], "p": None, **counts}


def ranked(view: View, topic: str, setting: Setting, pinned: Setting) -> dict[str, Any]:
    """Return a topic's two rankings, each document with its gain and its rank in the other one."""
    [t] = view.pool.positions([topic]).tolist()
    vectors = {"pinned": view.vector(pinned), "setting": view.vector(setting)}
    tops = {name: view.pool.top(t, vector, view.depth) for name, vector in vectors.items()}
    ranks = {name: {int(at): rank for rank, at in enumerate(top, 1)} for name, top in tops.items()}
    rows = view.pool.candidates.rows(t)
    gains, docs = view.pool.candidates.gain[rows], view.pool.candidates.doc[rows]
    answer: dict[str, Any] = {"topic": topic, "text": view.queries.get(topic, "")}
    for name, other in (("pinned", "setting"), ("setting", "pinned")):
        top = tops[name][:SHOWN]
        scores = view.scores(t, top, vectors[name]).tolist()
        answer[name] = [
            {"docno": docno, "score": score, "gain": int(gains[at]), "other": ranks[other].get(int(at))}
            for docno, score, at in zip(view.index.docnos(docs[top]), scores, top, strict=True)
        ]
    return answer


def explained(view: View, topic: str, docno: str, setting: Setting, pinned: Setting) -> dict[str, Any]:
    """Return a document's score for a topic term by term, with two settings, and its text if available.

    A term's contribution is the document's score by that term alone. `isSum`: whether the contributions
    add up to the score, as for formulas that are sums over terms. `account`: the explanation in the form of
    search engines. `columns`: the headers of further facts about terms. The text is a list of pieces; those
    at odd positions are query terms.
    """
    [t] = view.pool.positions([topic]).tolist()
    vector, rows = view.vector(setting), view.pool.candidates.rows(t)
    [number] = view.index.doc_numbers([docno]).tolist()
    [places] = np.nonzero(view.pool.candidates.doc[rows] == number)
    if number < 0 or not places.size:
        raise InputError(
            "not among the topic's candidates", value=docno, accepted="a document of its rankings"
        )
    pinned_vector = view.vector(pinned)
    score, pinned_score = (view.scores(t, places, at).item() for at in (vector, pinned_vector))
    parts, pinned_parts = (view.parts(t, int(places[0]), at) for at in (vector, pinned_vector))
    total, formula = sum(parts.values()), view.pool.formula
    times = "weight" if isinstance(formula, Weighted) else "times"
    columns = {"times": times, "tf": "tf", "value": formula.value_name} if view.model else {}
    if isinstance(formula, Weighted):
        columns["made"] = "made of"
    if formula.is_likelihood:
        columns["probability"] = "P(w|D)"
    account = explain_document(view.pool, topic, docno, view.space.named(vector)) if view.model else None
    facts = _term_facts(view, t, int(places[0]), vector) if view.model else {name: {} for name in parts}
    return {
        "docno": docno,
        "score": score,
        "pinned": pinned_score,
        "length": int(view.pool.candidates.length[rows][places[0]]),
        "columns": columns,
        "terms": [
            {"term": name, "contribution": part, "pinned": pinned_parts.get(name, 0.0), **facts[name]}
            | ({"probability": math.exp(part / facts[name]["times"])} if formula.is_likelihood else {})
            for name, part in parts.items()
        ],
        "isSum": abs(total - score) <= _SUM_TOLERANCE * max(1.0, abs(score)),
        "account": None if account is None else "\n".join(account.lines()),
        "text": None if view.texts is None else marked(view.index, _shortened(view, docno), list(parts)),
    }


def _term_facts(view: View, t: int, candidate: int, vector: Doubles) -> dict[str, dict[str, Any]]:
    """Return by query term its weight in the query, and its statistics in a document and the index."""
    pool = view.pool
    tf = pool.tf_block(pool.candidates, t)[:, candidate].tolist()
    values = pool.value[pool.term_rows(t)].tolist()
    facts: dict[str, dict[str, Any]] = {}
    weights = zip(view.weights(t, vector), view.weight_origins(t, vector), strict=True)
    for column, (times, made), count, value in zip(pool.columns[t], weights, tf, values, strict=True):
        fact = facts.setdefault(column.term, {"times": times, "made": made, "tf": [], "value": [], "of": []})
        fact["tf"].append(count)
        fact["value"].append(value)
        fact["of"].append(pool.formula.group_names[column.group] if pool.formula.group_names else "")
    return facts


def _shortened(view: View, docno: str) -> str:
    """Return the beginning of a document's text, at most `_LONGEST` characters."""
    text: str = view.texts.of([docno])[0]
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST].rpartition(' ')[0] or text[:_LONGEST]} …"


def marked(index: Index, text: str, terms: Sequence[str]) -> list[str]:
    """Split a text into pieces; those at odd positions are the words that the index analyses to a term.

    Parameters
    ----------
    index : Index
        The index; its analysis gives the terms of a word.
    text : str
        The text.
    terms : sequence of str
        Analysed query terms; phrases have a space between their terms.
    """
    query_terms = {word for term in terms for word in term.split()}

    @cache
    def is_query_term(token: str) -> bool:
        return not query_terms.isdisjoint(index.analyze(token))

    lower, done, pieces = text.translate(_LOWER), 0, [""]
    for token in tokenize(text):
        begin = lower.index(token.translate(_LOWER), done)
        end = begin + len(token)
        if is_query_term(token):
            pieces[-1] += text[done:begin]
            pieces += [text[begin:end], ""]
            done = end
    pieces[-1] += text[done:]
    return pieces


def surface(
    view: View, surfaces: Surfaces, setting: Setting, measure: str, smooth: bool, topics: str, plane: str
) -> dict[str, Any]:
    """Return the means of a measure over a plane or along lines, as far as they are computed.

    Parameters
    ----------
    view : View
        The view.
    surfaces : Surfaces
        The view's points.
    setting : mapping of str to float
        The setting that the plane or the lines contain.
    measure : str
        A measure of the view.
    smooth : bool
        Whether to return the measure's smooth form, over all topics.
    topics : str
        The selected topics: a 1 for each one and a 0 for the others, in the pool's order; "" for all.
    plane : str
        Two of the view's axes, separated by a comma; "" for a line along each axis.

    Returns
    -------
    dict
        ``near`` has a boolean for each point: whether it is proven to be within ``margin`` of the best
        one. ``least`` is the smallest bound; see `lmtune.measures.significance.near_best.loss_bounds`. Both
        are None until all points are computed, for a single topic, and for a smooth form.
    """
    names = [str(own) for own in view.measures]
    check_choice("not among the page's measures", measure, names)
    number = names.index(measure)
    points = surfaces.ask(
        view.vector(setting), view.measures[number] if smooth else None, plane_of(view, plane)
    )
    done = points.done / len(points.order)  # read before the values: the worker writes them in that order
    values = points.values[:, 0 if smooth else number]
    if not smooth:
        values = values[:, _selected(view, topics)]
    means, near, least = values.mean(axis=1), None, None
    if done == 1.0 and values.shape[1] > 1:
        known = ~np.isnan(means)
        bounds = np.full(means.size, np.inf)
        bounds[known] = loss_bounds(values[known].T)
        near, least = (bounds <= MARGIN).tolist(), float(bounds.min())
    return {
        "settings": np.nan_to_num(points.settings).tolist(),
        "shape": list(points.shape),
        "values": [None if np.isnan(value) else value for value in means.tolist()],
        "near": near,
        "least": least,
        "margin": MARGIN,
        "done": done,
        "error": points.error,
    }


def _selected(view: View, topics: str) -> Booleans:
    """Return the mask of the selected topics from a 1 or a 0 for each topic; "" selects all.

    Raises
    ------
    InputError
        If the text is invalid or selects no topic.
    """
    if topics and (len(topics) != len(view.pool.topics) or set(topics) - {"0", "1"} or "1" not in topics):
        raise InputError("not a selection of topics", value=topics, accepted="a 0 or 1 for each topic")
    return np.array([digit == "1" for digit in topics or "1" * len(view.pool.topics)])


def plane_of(view: View, plane: str) -> tuple[int, ...]:
    """Return the indices of a plane's two parameters; an empty tuple for ""."""
    names = [view.space.names[axis] for axis in view.axes]
    pairs = {f"{one},{other}": (one, other) for one in names for other in names if one != other}
    if plane and plane not in pairs:
        raise InputError("not two of the page's axes", value=plane, accepted=", ".join(names))
    return tuple(view.space.names.index(name) for name in pairs[plane]) if plane else ()
