"""Code of a worker process, which runs in a framework's environment.

The package contains the training loop, the log, and the heartbeat. Hydra, pandas, rich, and
vl_convert must never be imported here.
"""
