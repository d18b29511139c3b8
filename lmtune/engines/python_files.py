"""Python for engines that are libraries: ``build(documents)``, ``search(index, query)`` on lmtune's terms."""

from __future__ import annotations

from lmtune.engines.deployment import COMBINED, PYTHON, Deployment

_START = '''\
"""{formula} with {setting}, as lmtune tuned it; documents are texts by docno."""

{imports}
from lmtune import Analyzer

analyze = Analyzer.from_settings({analysis!r}).analyze
{constants}

{functions}'''

_BM25S = """\
def build(documents):
    index = bm25s.BM25(method="lucene", k1=K1, b=B, dtype="float64")
    index.index([analyze(text) for text in documents.values()], show_progress=False)
    return index, [*documents]


def search(index, query, hits=1000):
    retriever, docnos = index
    terms = [term for term in analyze(query) if term in retriever.vocab_dict]
    if not terms:
        return []
    scores = retriever.get_scores(terms)
    best = np.argsort(-scores, kind="stable")[:hits]
    return [(docnos[n], float(scores[n])) for n in best if scores[n] > 0]
"""

_DUCKDB = """\
def build(documents):
    index = duckdb.connect()
    try:
        index.execute("LOAD fts")
    except duckdb.Error:  # fetched once
        index.execute("INSTALL fts; LOAD fts")
    index.execute("CREATE TABLE documents (docno VARCHAR, terms VARCHAR)")
    rows = [(docno, " ".join(analyze(text))) for docno, text in documents.items()]
    index.executemany("INSERT INTO documents VALUES (?, ?)", rows)
    # The terms are ready: no stemmer, no stopwords, split at blanks alone. Build anew after changes.
    index.execute(
        "PRAGMA create_fts_index('documents', 'docno', 'terms', stemmer = 'none', stopwords = 'none', "
        "ignore = '\\\\s+', strip_accents = 0, lower = 0)"
    )
    return index


def search(index, query, hits=1000):
    return index.execute(
        "SELECT docno, score FROM (SELECT docno, "
        f"fts_main_documents.match_bm25(docno, ?, k := {K1!r}, b := {B!r}) AS score FROM documents) "
        "WHERE score IS NOT NULL ORDER BY score DESC, docno DESC LIMIT ?",
        [" ".join(analyze(query)), hits],
    ).fetchall()
"""

_TANTIVY = """\
def build(documents):
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("docno", stored=True, tokenizer_name="raw")
    schema.add_text_field("contents", tokenizer_name="whitespace", index_option="freq")
    index = tantivy.Index(schema.build())
    writer = index.writer(num_threads=1)
    for docno, text in documents.items():
        writer.add_document(tantivy.Document(docno=docno, contents=" ".join(analyze(text))))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index


def search(index, query, hits=1000):
    should, term_query = tantivy.Occur.Should, tantivy.Query.term_query
    parts = [(should, term_query(index.schema, "contents", term)) for term in analyze(query)]
    searcher = index.searcher()
    found = searcher.search(tantivy.Query.boolean_query(parts), hits).hits if parts else []
    return [(searcher.doc(place)["docno"][0], score) for score, place in found]
"""

_SQLITE = """\
def build(documents):
    index = sqlite3.connect(":memory:")
    # The terms are ready: whatever is no blank is part of one, and accents stay.
    index.execute(
        "CREATE VIRTUAL TABLE documents USING fts5(docno UNINDEXED, terms, tokenize = "
        "\\"unicode61 remove_diacritics 0 categories 'L* M* N* P* S* Cf Cn Co'\\")"
    )
    rows = ((docno, " ".join(analyze(text))) for docno, text in documents.items())
    index.executemany("INSERT INTO documents VALUES (?, ?)", rows)
    return index


def search(index, query, hits=1000):
    terms = analyze(query)
    if not terms:
        return []
    # Its bm25 is negative: the best document has the least.
    return index.execute(
        "SELECT docno, -bm25(documents) FROM documents WHERE documents MATCH ? "
        "ORDER BY bm25(documents) LIMIT ?",
        [" OR ".join('"' + term.replace('"', '""') + '"' for term in terms), hits],
    ).fetchall()
"""

_XAPIAN = """\
def build(documents):
    index = xapian.WritableDatabase("", xapian.DB_BACKEND_INMEMORY)
    for docno, text in documents.items():
        document = xapian.Document()
        document.set_data(docno)
        for term in analyze(text):
            document.add_term(term)
        index.add_document(document)
    return index


def search(index, query, hits=1000):
    enquire = xapian.Enquire(index)
    # Its k3: a word counts as often as the query has it. 0: no length is taken for a longer one.
    enquire.set_weighting_scheme(xapian.BM25Weight(K1, 0.0, 1e9, B, 0.0))
    enquire.set_query(xapian.Query(xapian.Query.OP_OR, analyze(query)))
    return [(found.document.get_data().decode(), found.weight) for found in enquire.get_mset(0, hits)]
"""

_PYTERRIER = """\
def build(documents, path="index"):
    place, meta = os.path.abspath(path), {"docno": max(map(len, documents))}
    indexer = pt.IterDictIndexer(place, pretokenised=True, overwrite=True, meta=meta)
    rows = ({"docno": docno, "toks": Counter(analyze(text))} for docno, text in documents.items())
    return indexer.index(rows)
"""

_PYTERRIER_SEARCH = """\


def search(index, query, hits=1000):
    retriever = pt.terrier.Retriever(index, wmodel=MODEL, controls=CONTROLS, num_results=hits)
    terms = {term: float(count) for term, count in Counter(analyze(query)).items()}
    found = retriever(pd.DataFrame([{"qid": "1", "query": query, "query_toks": terms}]))
    return [*zip(found["docno"], found["score"])]
"""

_PYTERRIER_FIELDS = """\
def build(documents, path="index"):
    \"\"\"Index documents, texts by field and docno.\"\"\"
    place, meta = os.path.abspath(path), {"docno": max(map(len, documents))}
    # The terms are ready: split at blanks alone.
    ready = {"stemmer": "none", "stopwords": "none", "tokeniser": "whitespace"}
    indexer = pt.IterDictIndexer(place, text_attrs=FIELDS, fields=True, overwrite=True, meta=meta, **ready)
    return indexer.index(
        {"docno": docno, **{name: " ".join(analyze(own.get(name, ""))) for name in FIELDS}}
        for docno, own in documents.items()
    )
"""

# Terrier's models by ours, with their controls: what older versions call c has a name in newer ones.
# k_3 makes a word count as often as the query has it; Hiemstra's lambda is the document's share.
_CONTROLS = {
    "bm25": ("BM25", '{"bm25.k_1": K1, "bm25.b": B, "bm25.k_3": 1e9}'),
    "dirichlet": ("DirichletLM", '{"c": MU, "dirichletlm.mu": MU}'),
    "jelinek-mercer": ("Hiemstra_LM", '{"c": 1.0 - LAMBDA, "hiemstra_lm.lambda": 1.0 - LAMBDA}'),
}


def _write(deployment: Deployment, imports: str, functions: str, constants: str = "") -> dict[str, str]:
    values = [f"{name.upper()} = {value!r}" for name, value in deployment.values.items()]
    text = _START.format(
        formula=deployment.formula,
        setting=deployment.setting,
        imports=imports,
        analysis=deployment.analyzer.settings,
        constants="\n".join([*values, constants]),
        functions=functions,
    )
    return {PYTHON: text}


def bm25s(deployment: Deployment) -> dict[str, str]:
    """Write Python for bm25s."""
    return _write(deployment, "import bm25s\nimport numpy as np", _BM25S)


def duckdb(deployment: Deployment) -> dict[str, str]:
    """Write Python for DuckDB's extension fts."""
    return _write(deployment, "import duckdb", _DUCKDB)


def tantivy(deployment: Deployment) -> dict[str, str]:
    """Write Python for tantivy, whose k1 and b are fixed."""
    return _write(deployment, "import tantivy", _TANTIVY)


def sqlite(deployment: Deployment) -> dict[str, str]:
    """Write Python for SQLite's FTS5, whose k1 and b are fixed."""
    return _write(deployment, "import sqlite3", _SQLITE)


def xapian(deployment: Deployment) -> dict[str, str]:
    """Write Python for Xapian."""
    return _write(deployment, "import xapian", _XAPIAN)


def pyterrier(deployment: Deployment) -> dict[str, str]:
    """Write Python for PyTerrier."""
    imports = "import os\nfrom collections import Counter\n\nimport pandas as pd\nimport pyterrier as pt"
    if deployment.formula == COMBINED:
        return _pyterrier_fields(deployment, imports)
    model, controls = _CONTROLS[deployment.formula]
    constants = f"MODEL = {model!r}\nCONTROLS = {controls}\n"
    return _write(deployment, imports, _PYTERRIER + _PYTERRIER_SEARCH, constants)


def _pyterrier_fields(deployment: Deployment, imports: str) -> dict[str, str]:
    """Write Python for Terrier's BM25F, whose fields have numbers and whose k1 = 1.2 the weights change."""
    values, fields = deployment.values, deployment.fields
    controls = "".join(
        f'    "w.{n}": {len(fields)} * {values["w_" + own]!r} * 1.2 / K1, "c.{n}": {values["b_" + own]!r},\n'
        for n, own in enumerate(fields)
    )
    constants = f'FIELDS = {fields!r}\nMODEL = "BM25F"\nCONTROLS = {{\n{controls}}}\n'
    rest = deployment._replace(values={"k1": values["k1"]})
    return _write(rest, imports, _PYTERRIER_FIELDS + _PYTERRIER_SEARCH, constants)
