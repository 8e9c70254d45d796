"""Exit with a hint if a benchmark is started by its path.

The command `python benchmarks/NAME.py` puts the folder `benchmarks` first on the module search
path. `import benchmarks` then imports this module instead of the package.
"""

raise SystemExit("run a benchmark as a module, from the repository root: python -m benchmarks.NAME")
