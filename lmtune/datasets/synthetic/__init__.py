"""A synthetic test collection of any size: postings, topics and judgements drawn from a model.

`source` names and joins the parts, `model` says what is drawn, `kernels` draws it, `judging` pools
and judges, `passages` draws passages and their queries, `words` gives names.
"""
