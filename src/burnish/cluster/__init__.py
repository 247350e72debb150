"""Workers in other processes and on other machines: the executors `processes` and `dask`.

The run keeps the journal, the limits and every decision. A worker only does the work on a case, and
asks the run before each call that is paid.
"""
