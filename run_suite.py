"""Train workloads to a quality target: `python run_suite.py workload=ncf profile=demo gpus=1`; add -m to sweep."""

import sys

try:
    from suite.control.start import main
except ModuleNotFoundError as error:
    sys.exit(
        f"run_suite.py: {error.name} is not installed for {sys.executable}; "
        f"type make demo once, then .venv/bin/python run_suite.py …"
    )

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
