"""What is printed without Hydra is what the controller prints."""

import subprocess
import sys

import pytest

from suite.config.at_once import answer
from suite.control.controller import main
from tests.helpers import PROJECT


@pytest.mark.parametrize(
    "words", ["--help", "-h workload=ncf", "workload=ssd --help profile=demo framework=mxnet"]
)
def test_help_is_that_of_the_controller(words, capsys):
    words = words.split()
    assert main(words) == 0
    assert answer(words) + "\n" == capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        [], ["workload=ncf"], ["--help", "plugins=[x]"], ["--help", "workload=ncf,ssd"], ["--help", "--cfg", "job"],
        ["--help", "workload.learning_rate=1"], ["--help", "--config-dir", "."],
    ],
)  # fmt: skip
def test_everything_else_is_composed(words):
    assert answer(words) is None


def test_neither_help_nor_tab_imports_hydra_or_numpy():
    code = "import sys; from suite.control.start import main; main(sys.argv[1:]); "
    code += (
        "assert not {'hydra', 'omegaconf', 'rich', 'numpy', 'suite.control.controller'} &"
        " set(sys.modules)"
    )
    for words in (["--help"], ["-sc", "query=bash"]):
        subprocess.run(
            [sys.executable, "-c", code, *words], check=True, stdout=subprocess.DEVNULL, cwd=PROJECT
        )
