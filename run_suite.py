"""Train workloads to a quality target: `python run_suite.py workload=ncf profile=demo gpus=1`.

Add -m to sweep over several values of an override.
"""

import sys

from suite.control.start import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
