"""Code that all packages of `suite` share.

It covers paths, the registry of plugins, `run.json`, checkpoints, and labels. All packages of
`suite` may import it. It only imports `workloads.api` and `workloads.files`.
"""
