"""Code of a worker process, which runs in a framework's environment.

The package contains the training loop, the log, and the heartbeat. The package must never import
Hydra, pandas, rich, or vl_convert.
"""
