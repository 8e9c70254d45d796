"""Environment variables that workers inherit, their user name, and their home folder.

Variables that would connect a worker to foreign processes are not inherited.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest

from suite.launch import worker_env
from suite.launch.worker_env import inherited_variables, worker_variables
from tests.helpers import PROJECT, TOY_RUN, refusal, run_suite

HARMFUL = {
    "DMLC_ROLE": "server",
    "DMLC_PS_ROOT_PORT": "9123",
    "KERAS_BACKEND": "jax",
    "KERAS_HOME": "/home/user/.keras",
    "TF_USE_LEGACY_KERAS": "1",
    "TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:1"]}}',
    "RANK": "3",
    "LOCAL_RANK": "3",
    "MASTER_ADDR": "a",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "PMI_RANK": "1",
    "PMIX_RANK": "1",
    "JAX_COORDINATOR_ADDRESS": "a:1",
}
HARMFUL |= {
    "PYTHONHOME": "/usr",
    "PYTHONSTARTUP": "/home/user/.pythonrc",
    "PYTHONINSPECT": "1",
    "PYTHONWARNINGS": "error",
    "PYTHONOPTIMIZE": "2",
    "PYTHON_PRESITE": "mine",
    "PYTHONPYCACHEPREFIX": "/home/user/compiled",
    "OPENSSL_CONF": "/home/user/openssl.cnf",
    "OPENSSL_ENGINES": "/home/user/engines",
    "OPENSSL_MODULES": "/home/user/modules",
    "GCONV_PATH": "/home/user/gconv",
}
OF_THE_COMMAND = ("RANK", "PMI_RANK", "PYTHONHOME", "PYTHONINSPECT", "PYTHONWARNINGS")
"""Variables with which the command itself would fail."""
KEPT = {
    "PATH": "/bin",
    "HOME": "/home",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "RANKED": "1",
    "HOROVOD_FUSION_THRESHOLD": "1",
}
KEPT |= {"PYTHONPATH": "/a", "PYTHONUNBUFFERED": "1", "PYTHONHASHSEED": "0"}


def test_harmful_variables_are_not_inherited_and_all_others_are():
    assert inherited_variables({**HARMFUL, **KEPT, "USER": "u"}) == {**KEPT, "USER": "u"}


@pytest.mark.parametrize("variable", worker_env.USER_VARIABLES)
def test_a_user_without_an_entry_in_passwd_gets_a_name_unless_a_variable_has_one(
    monkeypatch, variable
):
    def no_entry(uid):
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(worker_env.pwd, "getpwuid", no_entry)
    generated = f"uid-{os.getuid()}"
    assert inherited_variables({}) == {"LOGNAME": generated, "USER": generated}
    assert inherited_variables({variable: ""}) == {
        variable: "",
        "LOGNAME": generated,
        "USER": generated,
    }
    assert inherited_variables({variable: "somebody"}) == {variable: "somebody"}


def test_a_home_folder_that_cannot_be_written_to_is_replaced(tmp_path, monkeypatch):
    home = tmp_path / "home-of-user"
    home.mkdir()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    file = tmp_path / "file"
    file.touch()
    assert worker_variables({"HOME": str(home)}, temporary)["HOME"] == str(home)
    assert worker_variables({"HOME": str(home)}, temporary)["TMPDIR"] == str(temporary)
    for unusable in ("/", "//", str(file), "/dev/null/home", "relative", "~"):
        replaced = worker_variables({"HOME": unusable}, temporary)["HOME"]
        assert replaced == str(temporary / "home"), unusable
        assert os.path.isdir(replaced)
    monkeypatch.setattr(worker_env, "_home_from_passwd", lambda: str(home))
    assert "HOME" not in worker_variables({}, temporary)  # the passwd entry has it
    monkeypatch.setattr(worker_env, "_home_from_passwd", lambda: "")
    assert worker_variables({}, temporary)["HOME"] == str(temporary / "home")


def environment_of_worker(tmp_path, *words, **env):
    """Run the toy workload and return its worker's environment, which a command prefix writes."""
    found = tmp_path / "worker.json"
    dump = (
        f"import json, os, sys; json.dump(dict(os.environ), open({str(found)!r}, 'w'));"
        " os.execvp(sys.argv[1], sys.argv[1:])"
    )
    prefix = tmp_path / "prefix.py"
    prefix.write_text(dump)
    words = (f"environment.command_prefix=[{sys.executable},{prefix}]", *words)
    run_suite(tmp_path, *TOY_RUN, *words, toy=True, exits=0, **env)
    return json.loads(found.read_text())


def test_no_harmful_variable_of_the_shell_reaches_a_worker(tmp_path):
    shell = {name: value for name, value in HARMFUL.items() if name not in OF_THE_COMMAND}
    found = environment_of_worker(tmp_path, HOME="/", MXNET_ENGINE_TYPE="NaiveEngine", **shell)
    assert (found["RANK"], found["WORLD_SIZE"], found["MXNET_ENGINE_TYPE"]) == (
        "0",
        "1",
        "NaiveEngine",
    )
    assert found["HOME"].startswith(found["TMPDIR"])
    assert not {name for name in shell if name in found}


def can_be_a_user_without_a_name():
    """Return whether this machine lets a process take a user id that has no entry in passwd."""
    words = ["unshare", "--user", "--map-user=12345", "true"]
    return (
        shutil.which("unshare") is not None
        and subprocess.run(words, capture_output=True, check=False).returncode == 0
    )


USES_NAME_AND_HOME = """
import getpass, os, sys
if "suite.worker.main" in sys.argv:
    getpass.getuser()
    os.makedirs(os.path.expanduser("~/.cache"))
os.execvp(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.skipif(
    not can_be_a_user_without_a_name(), reason="user namespaces are not allowed here"
)
@pytest.mark.parametrize("home", [None, "/", "/dev/null/home"])
def test_a_run_of_a_user_without_a_name_or_home_succeeds(tmp_path, home):
    without = [
        "env",
        "-u",
        "HOME",
        "-u",
        "USER",
        "-u",
        "LOGNAME",
        *([f"HOME={home}"] if home else []),
    ]
    words = [
        *without,
        "unshare",
        "--user",
        "--map-user=12345",
        "--map-group=12345",
        sys.executable,
        PROJECT / "run_suite.py",
    ]
    (tmp_path / "prefix.py").write_text(USES_NAME_AND_HOME)
    prefix = f"environment.command_prefix=[{sys.executable},{tmp_path / 'prefix.py'}]"
    env = {
        **os.environ,
        "SUITE_LOG_DIR": str(tmp_path / "logs"),
        "SUITE_DATA_DIR": str(tmp_path / "data"),
        "PYTHONPATH": os.pathsep.join([str(PROJECT / "tests" / "data" / "toy"), str(PROJECT)]),
    }
    done = subprocess.run(
        [*words, *TOY_RUN, prefix],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if home is None:
        done = subprocess.run(
            [*words, *TOY_RUN, "output=~/out"], env=env, capture_output=True, text=True, check=False
        )
        assert "~/out: this user has no home folder. Set an absolute path, or set HOME" in refusal(
            done
        )
