"""Environment variables that a worker inherits from the shell.

A worker inherits the shell's variables, except variables that would connect the worker to processes
of a different job or change a framework's backend. `Framework.commands` sets the variables that a
run needs. This module imports only the standard library.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

NOT_INHERITED = (
    "DMLC_",  # ps-lite: with DMLC_ROLE=server, importing MXNet would turn the process into a server
    "GCONV_PATH",  # the C library loads character set converters from this path
    "KERAS_",  # Keras: backend, folder of keras.json, and maximum numbers of epochs and steps
    "OPENSSL_CONF",  # hashlib loads the libraries that the file OPENSSL_CONF names
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "PMI_",  # with PMI variables, an MPI library would connect to the processes of mpiexec
    "PMIX_",
    # with TORCHELASTIC_USE_AGENT_STORE, PyTorch would wait for the store of torchrun
    "TORCHELASTIC_",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "JAX_COORDINATOR_ADDRESS",
    "JAX_NUM_PROCESSES",
    "JAX_PROCESS_ID",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "RANK",
    "ROLE_NAME",
    "SUITE_PRIVATE_NETWORK",  # set if this command was started by a process of a run
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "TF_CONFIG",
    "TF_USE_LEGACY_KERAS",
    "WORLD_SIZE",
)
"""Names of environment variables that no worker inherits.

A name that ends with `_` is a prefix and matches all names that begin with the prefix.
"""
PYTHON_SWITCHES = frozenset(
    [
        "PYTHONASYNCIODEBUG",
        "PYTHONBREAKPOINT",
        "PYTHONCASEOK",
        "PYTHONDEBUG",
        "PYTHONDEVMODE",
        "PYTHONDUMPREFS",
        "PYTHONDUMPREFSFILE",
        "PYTHONEXECUTABLE",
        "PYTHONHOME",
        "PYTHONINSPECT",
        "PYTHONMALLOC",
        "PYTHONMALLOCSTATS",
        "PYTHONNODEBUGRANGES",
        "PYTHONOPTIMIZE",
        "PYTHONPERFSUPPORT",
        "PYTHONPLATLIBDIR",
        "PYTHONPROFILEIMPORTTIME",
        "PYTHONPYCACHEPREFIX",
        "PYTHONSTARTUP",
        "PYTHONTHREADDEBUG",
        "PYTHONTRACEMALLOC",
        "PYTHONVERBOSE",
        "PYTHONWARNINGS",
        "PYTHON_FROZEN_MODULES",
        "PYTHON_GIL",
        "PYTHON_JIT",
        "PYTHON_PERF_JIT_SUPPORT",
        "PYTHON_PRESITE",
    ]
)
"""Environment variables that change how the Python interpreter starts and works. Workers do not
inherit these variables.
"""
_PREFIXES = tuple(name for name in NOT_INHERITED if name.endswith("_"))
USER_VARIABLES = ("LOGNAME", "USER", "LNAME", "USERNAME")
"""Environment variables that `getpass.getuser()` reads before it looks up the user id in the passwd
database.
"""


def inherited_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables in `env` that a process of a run inherits.

    If the user id has no entry in the passwd database, as in containers, the returned variables
    also contain a user name. PyTorch's compiler requires a user name.
    """
    inherited = {
        name: value
        for name, value in env.items()
        if name not in NOT_INHERITED
        and name not in PYTHON_SWITCHES
        and not name.startswith(_PREFIXES)
    }
    if not any(inherited.get(name) for name in USER_VARIABLES) and not _has_passwd_entry():
        name = f"uid-{os.getuid()}"
        inherited |= {"LOGNAME": name, "USER": name}
    return inherited


def worker_variables(env: Mapping[str, str], temporary_folder: Path) -> dict[str, str]:
    """Return the inherited variables of a worker, with the temporary folder as TMPDIR.

    If the home folder is not writable, HOME is set to a folder inside the temporary folder. Triton,
    CUDA, and Matplotlib keep caches in the home folder, and fail if the home folder is not
    writable.

    Args:
        env: Environment variables of the shell.
        temporary_folder: Folder for the temporary files of the run.
    """
    inherited = {**inherited_variables(env), "TMPDIR": str(temporary_folder)}
    if not _is_usable_home(env.get("HOME") or _home_from_passwd()):
        home = temporary_folder / "home"
        home.mkdir(exist_ok=True)
        inherited["HOME"] = str(home)
    return inherited


def _is_usable_home(folder: str) -> bool:
    """Check whether a folder is a writable home folder.

    The root folder is not accepted as a home folder, because containers without a passwd entry set
    HOME=/.
    """
    is_folder = os.path.isabs(folder) and os.path.isdir(folder) and os.path.realpath(folder) != "/"
    return is_folder and os.access(folder, os.W_OK | os.X_OK)


def _has_passwd_entry() -> bool:
    return bool(_home_from_passwd())


def _home_from_passwd() -> str:
    """Return the home folder of this user in the passwd database.

    The string is empty if the user id has no entry in the passwd database.
    """
    try:
        return pwd.getpwuid(os.getuid()).pw_dir or "/"
    except KeyError:
        return ""
