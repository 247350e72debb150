"""Metrics: those that compute, judges that are asked, graders of the user, and what they compare.

A metric sees a case turn by turn, as an Exchange, and answers with a Verdict in words.
"""
