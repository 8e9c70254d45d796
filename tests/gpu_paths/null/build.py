"""Build the null device with gcc, and return the variables that load it."""

import os
import shutil
import subprocess
from pathlib import Path

from suite.environments.venvs import status

HERE = Path(__file__).parent
HEADERS = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda-13.0")) / "include"
LIBRARIES = (
    "cublas",
    "cudnn",
    "nccl",
    "cufft",
    "curand",
    "cusparse",
    "cusolver",
    "cupti",
    "nvtx",
    "cufile",
)
CUDA_PREFIXES = ("cuda", "__cuda", *LIBRARIES)
DEPENDENT_LIBRARIES = (
    "torch/lib/libtorch_cuda.so", "torch/lib/libc10_cuda.so", "torch/lib/libtorch_cuda_linalg.so",
    "torch/lib/libtorch_python.so", "torch/lib/libtorch_nvshmem.so", "torchvision/_C.so",
)  # fmt: skip
"""Libraries whose undefined symbols the null device must define."""


def site_packages():
    """Return the site-packages of PyTorch's environment."""
    return next((status("torch").folder / "lib").glob("python3*/site-packages"))


def missing():
    """Return why the null device cannot be built here; empty if it can be built."""
    lacking = [program for program in ("gcc", "g++", "nm") if shutil.which(program) is None]
    if lacking:
        return f"no {', '.join(lacking)} here"
    return (
        ""
        if (HEADERS / "cuda_runtime_api.h").exists()
        else f"no headers of CUDA 13.0 in {HEADERS} (CUDA_HOME)"
    )


def run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def undefined(*libraries):
    """Return the symbols of CUDA's libraries that these libraries use and do not define."""
    lines = run("nm", "-D", "--undefined-only", *map(str, libraries)).splitlines()
    names = {
        line.split()[1].partition("@")[0] for line in lines if line.startswith(" ") and line.split()
    }
    return {name for name in names if name.startswith(CUDA_PREFIXES)}


def build(folder):
    """Build the null device in `folder`, and return the variables for a process that uses it."""
    packages = site_packages()
    include = [f"-I{path}" for path in (HEADERS, HERE, *(packages / "nvidia").glob("*/include"))]
    objects = []
    for name in ("runtime.cpp", "libraries.cpp"):
        objects.append(folder / f"{name}.o")
        run(
            "g++",
            "-O1",
            "-w",
            "-fPIC",
            "-std=c++17",
            *include,
            "-c",
            str(HERE / name),
            "-o",
            str(objects[-1]),
        )
    run("gcc", "-O1", "-w", "-fPIC", "-c", str(HERE / "driver.c"), "-o", str(folder / "driver.o"))
    symbols = run("nm", "--defined-only", *map(str, objects)).splitlines()
    defined = {line.split()[-1] for line in symbols if " T " in line}
    rest = sorted(
        undefined(*(path for name in DEPENDENT_LIBRARIES if (path := packages / name).exists()))
        - defined
    )
    answers = [f'int {name}(void) {{ null_count("call {name}", 1); return 0; }}' for name in rest]
    (folder / "rest.c").write_text("\n".join(["void null_count(const char *, long);", *answers]))
    run(
        "gcc",
        "-O1",
        "-w",
        "-fPIC",
        "-fno-builtin",
        "-c",
        str(folder / "rest.c"),
        "-o",
        str(folder / "rest.o"),
    )
    runtime = folder / "libnullcuda.so"
    run(
        "g++",
        "-shared",
        "-o",
        str(runtime),
        *map(str, objects),
        str(folder / "rest.o"),
        "-lpthread",
    )
    for name in ("libcuda.so.1", "libnvrtc.so.13"):
        run("gcc", "-shared", "-o", str(folder / name), str(folder / "driver.o"))
    run(
        "gcc",
        "-O1",
        "-w",
        "-fPIC",
        "-shared",
        "-o",
        str(folder / "libnvidia-ml.so.1"),
        str(HERE / "nvml.c"),
    )
    return {
        "LD_PRELOAD": f"{runtime}:{folder / 'libnvrtc.so.13'}",
        "LD_LIBRARY_PATH": str(folder),
        "TRITON_LIBCUDA_PATH": str(folder),
    }
