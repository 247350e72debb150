"""Measuring: datasets that load and round-trip, metrics that compute, judges that are asked.

`datasets` reads and writes cases, `matching` compares values, `metrics` scores by computing,
`judges` scores by asking models, `configs` makes metrics of what files say. A metric sees a
case turn by turn, as an Exchange, and answers with a Verdict in words.
"""
