"""Where things are, what can be found by name, and what `run.json` holds.

Everybody in `suite` may use it; it uses `workloads.api` alone.
"""
