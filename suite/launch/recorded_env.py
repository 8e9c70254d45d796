"""Environment variables that are recorded with a run.

Users tune frameworks, compilers, and libraries with environment variables. Runs that differ in a
recorded variable are different experiments. A variable that can change the arithmetic puts a run
into the open division.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from suite.catalog.deviations import Deviation, DeviationCode
from suite.launch.base import WAITING_VARIABLES
from suite.launch.registered_frameworks import tuning_variables

MACHINE_PREFIXES = ("CUDA_", "NVIDIA_")
"""Prefixes of recorded variables that are specific to a machine. Variables with these prefixes
are not copied to remote machines.
"""
DEVICE_CHOICE = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
"""Recorded variables that select the visible devices of a machine. Runs that differ only in
DEVICE_CHOICE variables are the same experiment.
"""
PRELOADING = {
    "LD_PRELOAD": "loads other libraries into the workers",
    "LD_AUDIT": "loads other libraries into the workers",
    "CUDA_INJECTION64_PATH": "loads another library into the workers",
    "NVTX_INJECTION64_PATH": "loads another library into the workers",
    "TF_PLUGGABLE_DEVICE_LIBRARY_PATH": "loads another library into the workers",
    "MXNET_LIBRARY_PATH": "loads another library into the workers",
    "OMP_TOOL_LIBRARIES": "loads another library into the workers",
    "PJRT_NAMES_AND_LIBRARY_PATHS": "loads another library into the workers",
    "TRITON_LIBCUDA_PATH": "loads another library into the workers",
    "TRITON_KERNEL_OVERRIDE": "replaces compiled kernels",
    "TRITON_OVERRIDE_DIR": "replaces compiled kernels",
    "TRITON_PTXAS_PATH": "compiles kernels with another assembler",
    "PYTHONPATH": "lets the workers import code that is neither the environment's nor a plugin's",
    "PYTHONUSERBASE": (
        "lets the workers import code that is neither the environment's nor a plugin's"
    ),
    "sitecustomize": "runs other code in the workers",
    "usercustomize": "runs other code in the workers",
}
"""Maps environment variables, and modules that Python imports at startup, to their effect. Each of
them can make the workers execute additional code.
"""
OF_LIBRARIES = (
    "BLIS_ARCH_TYPE",
    "DISABLE_ADDMM_CUDA_LT",
    "NPY_DISABLE_CPU_FEATURES",
    "NPY_ENABLE_CPU_FEATURES",
)
"""Names of recorded library variables that do not begin with the prefix of a framework."""
_PYTHON_PATHS = ("PYTHONPATH", "PYTHONUSERBASE", "sitecustomize", "usercustomize")
"""Recorded names whose values are paths. Paths differ between machines, so runs that differ only in
the values of these names are the same experiment.
"""
_SET_BY_IMAGES = re.compile(
    r"(CUDA|CUDNN|NVIDIA|NCCL|CUBLAS|MKL|TF|PYTORCH|TORCH|JAX|XLA|MXNET)_([A-Z0-9_]*_)?VERSION|NV_\w+"
    r"|NVIDIA_(REQUIRE_CUDA|DRIVER_CAPABILITIES|PRODUCT_NAME|BUILD_ID|BUILD_REF)|(CUDA|CUDNN)_(HOME|PATH|ROOT)"
)
"""Pattern of recorded variables that only describe a container image or an installation. Runs that
differ only in these variables are the same experiment.
"""
_TERRAFORM = re.compile(
    r"TF_(VAR|CLI|TOKEN|REGISTRY|STATE)_\w+|TF_(LOG|LOG_\w+|INPUT|WORKSPACE|IN_AUTOMATION|DATA_DIR|PLUGIN_CACHE_\w+|IGNORE)"
)
"""Pattern of Terraform's variables, which have the same prefix (`TF_`) as TensorFlow's
variables.
"""
SECRET = r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE|PRIVATE"
"""Pattern of the names of secret variables, whose values are never recorded."""
HIDDEN = "(hidden)"
_USER_INFO = re.compile(r"(?<=://)[^/@\s]*@")
"""Pattern of the user name and password in a URL."""
MAX_VALUE_CHARACTERS = 4096


def recorded_prefixes() -> tuple[str, ...]:
    """Return the prefixes of the names of all recorded variables."""
    return (*tuning_variables(), *MACHINE_PREFIXES, *PRELOADING, *OF_LIBRARIES)


def recorded_variables(env: Mapping[str, str], set_by_run: Collection[str] = ()) -> dict[str, str]:
    """Return a worker's recorded variables without secrets, sorted by name.

    Args:
        env: The variables that a worker inherits.
        set_by_run: Names of the variables that the run sets. These variables are not recorded,
            because they follow from the run's settings.
    """
    # the log contains WAITING_VARIABLES as thread_waiting
    unrecorded = {*set_by_run, *WAITING_VARIABLES}
    prefixes = recorded_prefixes()
    names = (
        name
        for name in sorted(env)
        if name.startswith(prefixes) and name not in unrecorded and not _TERRAFORM.fullmatch(name)
    )
    return {_as_text(name): _without_secret(name, env[name]) for name in names}


def identifying_variables(recorded: Mapping[str, str]) -> dict[str, str]:
    """Return the recorded variables that must be equal in all runs of an experiment."""
    return {
        name: value
        for name, value in recorded.items()
        if name not in (*DEVICE_CHOICE, *_PYTHON_PATHS) and not _SET_BY_IMAGES.fullmatch(name)
    }


def _without_secret(name: str, value: str) -> str:
    if re.search(SECRET, name, re.IGNORECASE):
        return HIDDEN
    return _as_text(_USER_INFO.sub(f"{HIDDEN}@", value))[:MAX_VALUE_CHARACTERS]


def _as_text(value: str) -> str:
    """Return the value with escape sequences for all bytes that are not UTF-8.

    JSON files cannot contain bytes that are not UTF-8.
    """
    return value.encode(errors="surrogateescape").decode(errors="backslashreplace")


class NumericVariable(NamedTuple):
    """An environment variable that can change the arithmetic and the result of a run."""

    pattern: str
    """Regular expression that matches the complete name of the variable."""
    effect: str
    source: str
    """Document or source file that describes the variable."""


_ONEDNN = "oneDNN, Developer Guide"
_CUBLAS = "cuBLAS, documentation"
_MKL = "oneMKL, Developer Guide"
_OPENBLAS = "OpenBLAS, USAGE.md"
_TF_SOURCE = "TensorFlow, tensorflow/core/util/env_var.cc and its callers"
_MXNET = "MXNet 1.9, docs/static_site/src/pages/api/faq/env_var.md"
_PYTORCH = "PyTorch, docs/source/cuda_environment_variables.rst"
_JAX = "JAX, docs/config_options.rst"
NUMERIC_VARIABLES = (
    NumericVariable(
        "NVIDIA_TF32_OVERRIDE",
        "forbids or allows TF32 in cuBLAS and cuDNN",
        "NVIDIA, cuDNN: environment variables",
    ),
    NumericVariable(
        "CUBLAS_WORKSPACE_CONFIG",
        "chooses among algorithms of matrix products",
        f"{_CUBLAS}: Results Reproducibility",
    ),
    NumericVariable(
        "CUBLASLT_WORKSPACE_SIZE", "chooses among algorithms of matrix products", _PYTORCH
    ),
    NumericVariable(
        "DISABLE_ADDMM_CUDA_LT",
        "chooses the library of matrix products",
        "PyTorch, aten/src/ATen/native",
    ),
    NumericVariable(
        "BLIS_ARCH_TYPE",
        "chooses the kernels by processor type",
        "BLIS, docs/ConfigurationHowTo.md",
    ),
    NumericVariable(
        "NPY_(DISABLE|ENABLE)_CPU_FEATURES",
        "chooses NumPy's kernels by instruction set",
        "NumPy, doc/source/reference/simd/build-options.rst",
    ),
    NumericVariable(
        r"CUBLAS_(EMULAT\w+|FIXEDPOINT_EMULATION\w+)",
        "emulates fp32 or fp64 by narrower formats",
        f"{_CUBLAS}: Floating Point Emulation",
    ),
    NumericVariable(
        "(ONEDNN|DNNL)_DEFAULT_FPMATH_MODE",
        "computes fp32 in bf16, fp16, or TF32",
        f"{_ONEDNN}: Primitive Attributes: floating-point math mode",
    ),
    NumericVariable(
        "(ONEDNN|DNNL)_(MAX_CPU_ISA|CPU_ISA_HINTS)",
        "chooses the kernels by instruction set",
        f"{_ONEDNN}: CPU Dispatcher Control",
    ),
    NumericVariable(
        "MKL_(CBWR|ENABLE_INSTRUCTIONS|DEBUG_CPU_TYPE)",
        "chooses the kernels by instruction set",
        f"{_MKL}: Obtaining Numerically Reproducible Results",
    ),
    NumericVariable(
        "MKL_(BLAS_COMPUTE_MODE|VML_MODE|DISABLE_FAST_MM)",
        "changes the accuracy or the algorithm of matrix products",
        f"{_MKL}: BLAS compute modes",
    ),
    NumericVariable("OPENBLAS_CORETYPE", "chooses the kernels by processor type", _OPENBLAS),
    NumericVariable(
        "ATEN_CPU_CAPABILITY",
        "chooses PyTorch's kernels by instruction set",
        "PyTorch, aten/src/ATen/native/DispatchStub.cpp",
    ),
    NumericVariable(
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "computes fp32 matrix products in TF32", _PYTORCH
    ),
    NumericVariable(
        r"TORCH_(BLAS|LINALG)_PREFER_\w+", "chooses the library of matrix products", _PYTORCH
    ),
    NumericVariable(
        "TORCH_(MKLDNN_MATMUL_MIN_DIM|CUDNN_V8_API_DISABLED)",
        "chooses the library of an operator",
        "PyTorch, aten/src/ATen",
    ),
    NumericVariable(
        r"TORCHINDUCTOR_\w*(PRECISION|FAST|FREEZING|TF32)\w*",
        "changes the arithmetic of compiled kernels",
        "PyTorch, torch/_inductor/config.py",
    ),
    NumericVariable(
        r"TRITON_(F32_DEFAULT|DEFAULT_FP_FUSION)",
        "changes the arithmetic of compiled kernels",
        "Triton, README: Tips for hacking",
    ),
    NumericVariable(
        r"TF_ENABLE_(ONEDNN_\w+|ZENDNN_OPTS)",
        "chooses the library of CPU operators",
        "TensorFlow, guide: CPU optimizations",
    ),
    NumericVariable(
        "TF_SET_ONEDNN_FPMATH_MODE",
        "computes fp32 in bf16",
        "TensorFlow, tensorflow/core/util/mkl_util.h",
    ),
    NumericVariable(
        "TF_XLA_FLAGS|XLA_FLAGS",
        "changes which operators are fused and how they are computed",
        "OpenXLA, docs/flags_guidance.md",
    ),
    NumericVariable(
        r"TF_ENABLE_(CUBLAS|CUDNN|CUDNN_RNN)_TENSOR_OP_MATH\w*",
        "computes fp32 on tensor cores",
        _TF_SOURCE,
    ),
    NumericVariable(
        r"TF_ENABLE_AUTO_MIXED_PRECISION\w*|TF_AUTO_MIXED_PRECISION_\w+",
        "computes parts of the graph in fp16",
        _TF_SOURCE,
    ),
    NumericVariable(
        r"TF_(FP16_\w+_USE_FP32_COMPUTE|CONV2D_USE_FP16_ACCUMULATE|ENABLE_WINOGRAD_NONFUSED|USE_DEEP_CONV2D)",
        "changes the algorithm or the accumulator of an operator",
        _TF_SOURCE,
    ),
    NumericVariable(
        r"TF_(DETERMINISTIC_OPS|CUDNN_\w+|USE_CUBLASLT|MATMUL_AUTOTUNE_ENABLE|DEBUG_CUDNN_RNN\w*)",
        "chooses among algorithms of an operator",
        _TF_SOURCE,
    ),
    NumericVariable(
        "MXNET_(SAFE_ACCUMULATION|FC_TRUE_FP16)", "changes the accumulator of an operator", _MXNET
    ),
    NumericVariable(
        "MXNET_CUDA_(ALLOW_TENSOR_CORE|TENSOR_OP_MATH_ALLOW_CONVERSION)",
        "computes on tensor cores",
        _MXNET,
    ),
    NumericVariable(
        "MXNET_(CUDNN_AUTOTUNE_DEFAULT|ENFORCE_DETERMINISM)",
        "chooses among algorithms of an operator",
        _MXNET,
    ),
    NumericVariable(
        r"MXNET_(MKLDNN_ENABLED|ONEDNN_ENABLED|USE_MKLDNN_RNN|USE_ONEDNN_RNN|SUBGRAPH_BACKEND|USE_FUSION)",
        "chooses the library of operators, or fuses them",
        _MXNET,
    ),
    NumericVariable(
        "JAX_DEFAULT_MATMUL_PRECISION", "changes the precision of matrix products", _JAX
    ),
    NumericVariable(
        "JAX_(ENABLE_X64|DEFAULT_DTYPE_BITS|NUMPY_DTYPE_PROMOTION|EXPLICIT_X64_DTYPES)",
        "changes the types of arrays",
        _JAX,
    ),
    NumericVariable(
        "JAX_(DEFAULT_PRNG_IMPL|THREEFRY_PARTITIONABLE|ENABLE_CUSTOM_PRNG|RANDOM_SEED_OFFSET)",
        "changes the random numbers",
        _JAX,
    ),
    NumericVariable("JAX_DISABLE_JIT", "computes without the compiler", _JAX),
)
"""Environment variables that put a run into the open division, with their effects and sources.

The list excludes variables that only change the number of threads or the order in which devices are
summed (NCCL_ALGO). The closed-division rules allow submitters to choose the number of threads and
the order of the sum.
"""


def opens_run(name: str) -> bool:
    """Check whether an environment variable puts a run into the open division.

    A variable puts a run into the open division if it can change the arithmetic or load code.
    """
    return name in PRELOADING or _numeric_variable(name) is not None


def environment_deviations(recorded: Mapping[str, str]) -> list[Deviation]:
    """Return a deviation for each variable that puts a run into the open division."""
    deviations = []
    for name, value in recorded.items():
        entry = _numeric_variable(name)
        if name in PRELOADING:
            # The value of the variable is omitted, because it is a list of paths that differ
            # between machines.
            deviations.append(
                Deviation(DeviationCode.PRELOADED_CODE, name, detail=PRELOADING[name])
            )
        elif entry is not None:
            deviations.append(
                Deviation(DeviationCode.ENVIRONMENT_VARIABLE, name, value, detail=entry.effect)
            )
    return deviations


def _numeric_variable(name: str) -> NumericVariable | None:
    return next((entry for entry in NUMERIC_VARIABLES if re.fullmatch(entry.pattern, name)), None)
