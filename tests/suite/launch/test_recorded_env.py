"""Environment variables recorded with a run, hidden secrets, and variables that open a run."""

import json
import os
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.catalog.deviations import DeviationCode
from suite.common.runspec import read_run
from suite.environments.environment import Environment, describe
from suite.launch.base import WAITING_VARIABLES, variables_set_by_run
from suite.launch.recorded_env import (
    HIDDEN,
    NUMERIC_VARIABLES,
    environment_deviations,
    identifying_variables,
    recorded_prefixes,
    recorded_variables,
)
from suite.launch.registered_frameworks import registered_frameworks
from tests.helpers import PROJECT, TOY_RUN, examples, run_suite, suite_here
from tests.suite.two_hosts import HOSTS, make_run

PREFIXES = (
    *(
        "TF_",
        "TORCH_",
        "PYTORCH_",
        "MXNET_",
        "JAX_",
        "XLA_",
        "NCCL_",
        "MKL_",
        "ONEDNN_",
        "DNNL_",
        "OMP_",
        "CUDA_",
    ),
    *("CUBLAS_", "CUDNN_", "NVIDIA_"),
)


def test_only_variables_of_frameworks_and_libraries_are_recorded():
    tuned = {f"{prefix}X": "1" for prefix in PREFIXES}
    unrelated = {
        "PATH": "/bin",
        "HOME": "/",
        "TFX": "1",
        "X_TF_X": "1",
        "LS_COLORS": "1",
        "PYTHONSAFEPATH": "1",
    }
    unrelated |= {
        "TF_VAR_db": "1",
        "TF_CLI_CONFIG_FILE": "a",
        "TF_LOG": "DEBUG",
        "TF_DATA_DIR": "a",
    }  # Terraform's
    waiting = dict.fromkeys(WAITING_VARIABLES, "1")  # the log contains them as thread_waiting
    assert recorded_variables({**tuned, **unrelated, **waiting}) == dict(sorted(tuned.items()))
    assert set(PREFIXES) <= set(recorded_prefixes())


@pytest.mark.parametrize(
    "name",
    [
        "TF_API_TOKEN",
        "JAX_KEY",
        "XLA_SECRETS",
        "MXNET_PASSWORD",
        "NVIDIA_API_KEY",
        "TORCH_CREDENTIALS",
        "TF_auth",
        "NCCL_PASSWD",
    ],
)
def test_the_name_of_a_secret_is_recorded_and_its_value_is_not(name):
    assert recorded_variables({name: "s3cret"}) == {name: HIDDEN}


def test_passwords_in_addresses_are_not_recorded():
    found = recorded_variables(
        {"MXNET_GLUON_REPO": "https://user:s3cret@example.org/a,http://me@b"}
    )
    assert found == {"MXNET_GLUON_REPO": f"https://{HIDDEN}@example.org/a,http://{HIDDEN}@b"}


@examples(100)
@given(st.dictionaries(st.binary(min_size=1, max_size=20), st.binary(max_size=200), max_size=5))
def test_any_bytes_become_text_of_json(found):
    env = {
        f"TF_{name.decode(errors='surrogateescape')}": value.decode(errors="surrogateescape")
        for name, value in found.items()
    }
    recorded = recorded_variables(env)
    assert json.loads(json.dumps(recorded, ensure_ascii=False).encode()) == recorded
    assert len(recorded) <= len(env)


@pytest.mark.parametrize(
    "framework", registered_frameworks().values(), ids=lambda framework: framework.name
)
@pytest.mark.parametrize(
    "changes",
    [{}, {"device": "cuda"}, {"device": "cuda", "transport": "no_p2p"}, {"update": "async"}],
)
def test_variables_that_the_run_sets_are_not_recorded(framework, changes):
    """Check variables that follow from the settings, such as devices, rendezvous, and threads.

    If they were recorded, equal runs would differ in their host or port.
    """
    if framework.name == "mxnet" and changes.get("update"):
        changes = {**changes, "device": "cpu"}
    names = variables_set_by_run(
        framework, make_run(HOSTS, **{"devices": 8, "transport": "auto", **changes})
    )
    assert {"RANK", "WORLD_SIZE", "OMP_NUM_THREADS", "CUDA_DEVICE_ORDER"} <= names
    assert "TF_CONFIG" in names or framework.name != "tensorflow"
    shell = {**dict.fromkeys(names, "x"), "XLA_FLAGS": "--a"}
    assert recorded_variables(shell, names) == {"XLA_FLAGS": "--a"}


def test_devices_and_image_versions_are_recorded_but_do_not_identify_a_run():
    found = {
        **{
            "CUDA_VISIBLE_DEVICES": "1",
            "NVIDIA_VISIBLE_DEVICES": "all",
            "CUDA_VERSION": "12.4",
            "NCCL_VERSION": "2",
        },
        **{
            "NVIDIA_DRIVER_CAPABILITIES": "compute",
            "NVIDIA_REQUIRE_CUDA": "cuda>=12",
            "CUDA_HOME": "/usr/local/cuda",
        },
        **{"TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_LAUNCH_BLOCKING": "1", "NCCL_DEBUG": "INFO"},
    }
    assert set(recorded_variables(found)) == set(found)
    assert set(identifying_variables(found)) == {
        "TF_ENABLE_ONEDNN_OPTS",
        "CUDA_LAUNCH_BLOCKING",
        "NCCL_DEBUG",
    }


NUMERIC = (
    *(
        "NVIDIA_TF32_OVERRIDE",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "ONEDNN_DEFAULT_FPMATH_MODE",
        "DNNL_DEFAULT_FPMATH_MODE",
    ),
    *(
        "TF_ENABLE_ONEDNN_OPTS",
        "XLA_FLAGS",
        "TF_XLA_FLAGS",
        "MKL_CBWR",
        "MXNET_SAFE_ACCUMULATION",
        "CUBLAS_WORKSPACE_CONFIG",
    ),
    *(
        "TF_DETERMINISTIC_OPS",
        "TF_CUDNN_DETERMINISTIC",
        "JAX_DEFAULT_MATMUL_PRECISION",
        "JAX_ENABLE_X64",
        "ONEDNN_MAX_CPU_ISA",
    ),
    *(
        "ATEN_CPU_CAPABILITY",
        "OPENBLAS_CORETYPE",
        "MXNET_CUDA_ALLOW_TENSOR_CORE",
        "CUBLAS_EMULATE_SINGLE_PRECISION",
    ),
)


@pytest.mark.parametrize("name", NUMERIC)
def test_variables_that_change_the_arithmetic_are_named_with_their_effect(name):
    (deviation,) = environment_deviations(
        {name: "1", "NCCL_DEBUG": "INFO", "OMP_PROC_BIND": "true", "CUDA_VISIBLE_DEVICES": "0"}
    )
    assert (deviation.code, deviation.setting, deviation.value) == (
        DeviationCode.ENVIRONMENT_VARIABLE,
        name,
        "1",
    )
    assert deviation.text.startswith(f"environment variable {name}=1, which ")


@pytest.mark.parametrize(
    "name", ["DISABLE_ADDMM_CUDA_LT", "NPY_DISABLE_CPU_FEATURES", "BLIS_ARCH_TYPE"]
)
def test_numeric_variables_without_the_prefix_of_a_framework_open_a_run_too(name):
    assert recorded_variables({name: "1"}) == {name: "1"}
    (deviation,) = environment_deviations({name: "1"})
    assert (deviation.code, deviation.setting) == (DeviationCode.ENVIRONMENT_VARIABLE, name)


def test_every_numeric_variable_is_recorded_and_has_a_source():
    for entry in NUMERIC_VARIABLES:
        for alternative in re.sub(
            r"^\((\w+(\|\w+)+)\)(.*)$",
            lambda found: "|".join(f"{prefix}{found[3]}" for prefix in found[1].split("|")),
            entry.pattern,
        ).split("|"):
            assert alternative.startswith(recorded_prefixes()) or alternative[0].isupper()
        assert entry.effect
        assert "," in entry.source or " " in entry.source


PRELOADED = {
    "LD_PRELOAD": "/usr/lib/libfaketime.so.1",
    "LD_AUDIT": "/lib/a.so",
    "PYTHONPATH": "/home/user/code",
    "PYTHONUSERBASE": "/home/user/.local",
    "CUDA_INJECTION64_PATH": "/opt/inject.so",
    "OMP_TOOL_LIBRARIES": "/opt/tool.so",
    "PJRT_NAMES_AND_LIBRARY_PATHS": "mine:/opt/pjrt.so",
    "TRITON_KERNEL_OVERRIDE": "/home/user/kernels",
    "TRITON_OVERRIDE_DIR": "/home/user/kernels",
    "TRITON_PTXAS_PATH": "/home/user/ptxas",
    "TRITON_LIBCUDA_PATH": "/home/user/libcuda",
    "sitecustomize": "/home/user/sitecustomize.py",
}


@pytest.mark.parametrize(("name", "value"), PRELOADED.items())
def test_code_that_is_loaded_from_elsewhere_makes_a_run_open(name, value):
    assert recorded_variables({name: value}) == {name: value}
    (deviation,) = environment_deviations({name: value, "NCCL_DEBUG": "INFO"})
    assert (deviation.code, deviation.setting) == (DeviationCode.PRELOADED_CODE, name)
    assert deviation.text.startswith(f"{name}, which ")
    assert value not in str(deviation.to_json())


def test_folders_of_the_suite_and_of_plugins_on_the_python_path_are_not_recorded(
    tmp_path, monkeypatch
):
    (tmp_path / "sitecustomize.py").write_text("X = 1")
    plugin = Environment("current", (), sys.executable, python_path=(str(tmp_path / "plugin"),))
    for path, recorded in (
        (f"{PROJECT}", None),
        (f"{PROJECT}/tests/data/toy:{PROJECT}", None),
        (f"/home/user/code:{PROJECT}:", "/home/user/code"),
        (f"{PROJECT}-other", f"{PROJECT}-other"),
    ):
        monkeypatch.setenv("PYTHONPATH", path)
        assert describe(plugin, []).env.get("PYTHONPATH") == recorded
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = describe(plugin, []).env
    assert (found["PYTHONPATH"], found["sitecustomize"]) == (
        str(tmp_path),
        str(tmp_path / "sitecustomize.py"),
    )


@pytest.mark.slow
@pytest.mark.parametrize("way", ["the shell", "the command prefix"])
def test_a_run_with_preloaded_code_records_it(tmp_path, way):
    (tmp_path / "sitecustomize.py").write_text("X = 1")
    path = os.pathsep.join([str(tmp_path), str(PROJECT / "tests" / "data" / "toy"), str(PROJECT)])
    library = "/nonexistent/libx.so"  # the loader only prints a warning
    shell = {
        "PYTHONPATH": path,
        "LD_PRELOAD": library,
        "PYTHONSTARTUP": "/a",
        "PYTHONOPTIMIZE": "1",
    }
    words = (
        () if way == "the shell" else (f"environment.command_prefix=[env,'LD_PRELOAD={library}']",)
    )
    if words:
        del shell["LD_PRELOAD"]
    run_suite(tmp_path, *TOY_RUN, *words, f"output={tmp_path / 'out'}", toy=True, exits=0, **shell)
    run, logged = records(tmp_path / "out")
    assert run.environment_variables["PYTHONPATH"] == str(tmp_path)
    assert run.environment_variables["LD_PRELOAD"] == library
    phrases = " ".join(logged["deviations"])
    assert all(
        f"{name}, which" in phrases for name in ("LD_PRELOAD", "PYTHONPATH", "sitecustomize")
    )
    assert not any(name.startswith("PYTHONS") for name in run.environment_variables)


def records(folder):
    """Return run.json and the value of `suite_run` of the run below a folder."""
    (log,) = folder.glob("*/run_0/result_0.txt")
    (line,) = [line for line in log.read_text().splitlines() if '"suite_run"' in line]
    return read_run(log.with_name("run.json")), json.loads(line.removeprefix(":::MLLOG "))["value"]


@pytest.mark.slow
def test_runs_that_differ_in_a_variable_are_different_experiments(tmp_path):
    """Check variables of the shell and of the command prefix: the workers' environment counts."""
    shells = {
        "plain": {},
        "again": {
            "CUDA_VISIBLE_DEVICES": "5",
            "OMP_NUM_THREADS": "7",
            "TF_CONFIG": "{}",
            "RANKS": "1",
        },
        "tuned": {"TF_ENABLE_ONEDNN_OPTS": "0", "MXNET_API_KEY": "s3cret"},
        "odd": {"XLA_FLAGS": "a\n:::MLLOG {}\x1b[31m|b\udcff"},
    }
    words = ("seed=1",)
    for name, shell in shells.items():
        run_suite(
            tmp_path, *TOY_RUN, *words, f"output={tmp_path / name}", toy=True, exits=0, **shell
        )
    run_suite(
        tmp_path,
        *TOY_RUN,
        *words,
        f"output={tmp_path / 'prefix'}",
        "environment.command_prefix=[env,'TF_ENABLE_ONEDNN_OPTS=0']",
        toy=True,
        MXNET_API_KEY="other",
    )
    expected = {
        "plain": {},
        "again": {"CUDA_VISIBLE_DEVICES": "5"},
        "tuned": {"TF_ENABLE_ONEDNN_OPTS": "0", "MXNET_API_KEY": HIDDEN},
        "odd": {"XLA_FLAGS": "a\n:::MLLOG {}\x1b[31m|b\\xff"},
        "prefix": {"TF_ENABLE_ONEDNN_OPTS": "0", "MXNET_API_KEY": HIDDEN},
    }
    for name, env in expected.items():
        run, logged = records(tmp_path / name)
        assert run.environment_variables == logged["environment_variables"] == env, name
        assert "s3cret" not in json.dumps(logged)
    deviations = {name: records(tmp_path / name)[1]["deviations"] for name in expected}
    assert any("TF_ENABLE_ONEDNN_OPTS=0" in phrase for phrase in deviations["tuned"])
    assert deviations["plain"] == deviations["again"]
    report = suite_here(
        tmp_path, "report", *(tmp_path / name for name in expected), "--format", "json", exits=0
    ).stdout
    assert len(json.loads(report)) == 3, report
    shown = suite_here(tmp_path, "report", *(tmp_path / name for name in expected), exits=0).stdout
    assert "TF_ENABLE_ONEDNN_OPTS" in shown
    assert "\x1b[31m" not in shown
    assert "\n:::MLLOG {}" not in shown
    compared = suite_here(
        tmp_path, "compare", tmp_path / "plain", tmp_path / "tuned", exits=0
    ).stdout
    assert "TF_ENABLE_ONEDNN_OPTS" in compared
    resumed = run_suite(
        tmp_path, *TOY_RUN, *words, f"output={tmp_path / 'tuned'}", "resume=true", toy=True, exits=2
    )
    assert "holds a run with different settings or data" in resumed.stderr
