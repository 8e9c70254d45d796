"""Output that is printed without Hydra equals the output of the controller."""

import subprocess
import sys

import pytest

from suite.config.at_once import answer
from suite.control.controller import main
from tests.helpers import PROJECT


@pytest.mark.parametrize(
    "arguments", ["--help", "-h workload=ncf", "workload=ssd --help profile=demo framework=mxnet"]
)
def test_help_without_hydra_equals_the_help_of_the_controller(arguments, capsys):
    arguments = arguments.split()
    assert main(arguments) == 0
    assert answer(arguments) + "\n" == capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["workload=ncf"], ["--help", "plugins=[x]"], ["--help", "workload=ncf,ssd"],
        ["--help", "--cfg", "job"], ["--help", "workload.learning_rate=1"],
        ["--help", "--config-dir", "."],
    ],
)  # fmt: skip
def test_all_other_arguments_need_hydra(arguments):
    assert answer(arguments) is None


def test_neither_help_nor_tab_imports_hydra_or_numpy():
    code = "import sys; from suite.control.start import main; main(sys.argv[1:]); "
    code += (
        "assert not {'hydra', 'omegaconf', 'rich', 'numpy', 'suite.control.controller'} &"
        " set(sys.modules)"
    )
    for arguments in (["--help"], ["-sc", "query=bash"]):
        subprocess.run(
            [sys.executable, "-c", code, *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=PROJECT,
        )
