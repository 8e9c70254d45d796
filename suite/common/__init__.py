"""Shared code for all packages of `suite`.

The shared code is about paths, the registry of plugins, `run.json`, checkpoints, and labels. All
packages of `suite` may import `suite.common`. `suite.common` itself imports only `workloads.api`
and `workloads.files`.
"""
