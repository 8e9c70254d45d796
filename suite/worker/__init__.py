"""The code of a worker process, which runs in a framework's environment.

It contains the loop, its log, and its heartbeat. This package never imports Hydra, pandas, rich, or
vl_convert.
"""
