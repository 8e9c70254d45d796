"""Maps the names in logs and tables to a unique name per workload and framework."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from suite.catalog.rounds import find_round
from suite.common import registry
from suite.common.registry import GENERATED
from workloads.api import Round

WORKLOADS = ("resnet50", "ssd", "maskrcnn", "gnmt", "transformer", "ncf")
"""Names of the suite's workloads."""
_ALIASES: Mapping[str, str] = {
    "resnet": "resnet50",
    "mask": "maskrcnn",
    "mask_rcnn": "maskrcnn",
    "nmt": "gnmt",
    "rnn_translator": "gnmt",
    "recommendation": "ncf",
    "gnn": "rgat",  # v4.0 and v4.1 use this name for R-GAT. Target and data set are those of v5.0.
}
"""Suite name of a workload by its name in logs of the rounds or in tables of articles."""
WORKLOAD_TITLES: Mapping[str, str] = {
    "resnet50": "ResNet-50 (image classification)",
    "ssd": "SSD (object detection, light)",
    "retinanet": "RetinaNet (object detection)",
    "maskrcnn": "Mask R-CNN (object detection, heavy)",
    "gnmt": "GNMT (translation, recurrent)",
    "transformer": "Transformer (translation)",
    "ncf": "NCF (recommendation)",
    "rgat": "R-GAT (graph node classification)",
    "bert": "BERT (language model, pre-training)",
    "dlrm_dcnv2": "DLRM-DCNv2 (recommendation)",
    "flux1": "FLUX.1 (text to image)",
    "stable_diffusion": "Stable Diffusion (text to image)",
    "gpt3": "GPT-3 (language model, pre-training)",
    "llama2_70b_lora": "Llama 2 70B LoRA (language model, fine-tuning)",
    "llama31_405b": "Llama 3.1 405B (language model, pre-training)",
    "llama31_8b": "Llama 3.1 8B (language model, pre-training)",
}


PLACEHOLDER = "PLACEHOLDER"
"""Substring of the default names in NVIDIA's scripts, such as `SUBMISSION_ORG_PLACEHOLDER`. Some
submitters did not replace these names.
"""
UNKNOWN_ROUND = "not known"
"""Round of a log that cannot be identified by its format, its folder names, or a published run."""
_ROUND = re.compile(
    r"(?:(?:mlperf_)?training_(?:results_)?)?v?(\d\.\d)(?:\.0)?(?:-(?:main|master|[0-9a-f]{7,40}))?"
)
"""Folder name of a round, such as `v3.1`, or of a repository archive, such as
`training_results_v3.1-main`. The archive name ends with the branch.
"""


def parse_round_name(folder_name: str) -> str:
    """Return the round in the name of a folder.

    Example: `v3.1` for `v3.1` or `training_results_v3.1`. The result is empty for all other names.
    """
    match = _ROUND.fullmatch(folder_name)
    return f"v{match[1]}" if match else ""


def round_of_folder(path: Path) -> str:
    """Return the round of a log, or an empty string.

    The round is the name of the nearest parent folder that is named after a round.

    If the path as given has no such folder, the function resolves its symbolic links and searches
    again.
    """
    place = absolute_place(path)
    named = filter(
        None,
        map(
            parse_round_name,
            (*reversed(place.parent.parts), *reversed(path.resolve().parent.parts)),
        ),
    )
    return next(named, "")


def absolute_place(path: Path) -> Path:
    """Return the absolute path without `..` and without resolving symbolic links."""
    return path.resolve() if ".." in path.parts else path.absolute()


def round_like(name: str) -> Round:
    """Return the round with this name, or v0.7 for a round that the suite lacks."""
    found = find_round(name) or find_round("v0.7")
    assert found is not None, "conf/rounds/v0.7.yaml"
    return found


def data_text(dataset: str) -> str:
    """Return `generated data` for a generated data set.

    The name of any other data set is returned unchanged.
    """
    return "generated data" if dataset.endswith(GENERATED) else f"data set {dataset or 'not known'}"


def short_title(workload: str) -> str:
    """Return the title of a workload in sentences, such as `Mask R-CNN`.

    An unknown name is returned unchanged.
    """
    return WORKLOAD_TITLES.get(workload, workload).partition(" (")[0]


def workload_name(name: str) -> str:
    """Return the suite's name of a workload. An unknown name is converted to lower case."""
    lower = name.strip().lower()
    return _ALIASES.get(lower, lower)


_BENCHMARKS_BY_FRAMEWORK: Mapping[str, tuple[str, ...]] = {
    "hugectr": ("dlrm", "dlrm_dcnv2"),
    "dgl": ("rgat",),
}
"""Frameworks for one kind of model to the workloads that submitters train in them."""
_BUILT_ON: Mapping[str, str] = {"nemo": "pytorch", "megatron": "pytorch"}
"""Libraries to the framework that each is built on, for descriptions that name no framework."""


def framework_name(text: str, system: str = "", workload: str = "") -> str:
    """Return the framework in a submitter's description.

    If the description contains no framework name, the function returns the description.

    A description may list the containers of several frameworks. The system name decides if it
    contains the name of a single framework. A specialized framework such as HugeCTR is chosen for
    its workloads and ignored for all other workloads. If several frameworks remain, the function
    returns all names without versions: `mxnet or pytorch`.

    Args:
        text: Text of the description, such as `NGC MXNet 23.04, NGC HugeCTR 23.04`.
        system: Name of the system's folder, such as `dgxa100_ngc23.04_mxnet`.
        workload: The suite's name of the workload. Empty if the workload is unknown.
    """
    names = dict.fromkeys([*registry.names(registry.FRAMEWORKS), *_BENCHMARKS_BY_FRAMEWORK])
    by_source = [
        [name for name in names if re.search(rf"(?<![a-z]){name}", source)]
        for source in (system.lower(), text.lower())
    ]
    for named in by_source:
        for name in named:
            if workload in _BENCHMARKS_BY_FRAMEWORK.get(name, ()):
                return name
    for named in by_source:
        if workload and len(named) > 1:
            named = [name for name in named if name not in _BENCHMARKS_BY_FRAMEWORK]
        if len(named) == 1:
            return named[0]
    built_on = {base for name, base in _BUILT_ON.items() if name in text.lower()}
    return " or ".join(named or sorted(built_on)) or text


_CHIPS = re.compile(
    r"(?P<tpu>tpu)[ -]?(?P<version>v\d[ep]?|trillium)?"
    r"|(?<![a-wyz])(?P<name>gaudi ?\d?|ascend ?\d+|gc200|rtx"
    r" ?a\d{4}|g?b[23]00|mi\d{3}x|(?:v\d{3}|[ahlpt]\d{1,3})s?(?=\b|x\d*\b))",
    re.IGNORECASE,
)
# NVML reports "H100 80GB HBM3" for the module.
_CARD_OR_MODULE = re.compile(
    r"(?P<PCIe>pcie)|(?P<NVL>\bnvl\b)|(?P<SXM>sxm|\bhbm3\b)", re.IGNORECASE
)


def accelerator_chip(hardware: str) -> str:
    """Return the chip name in a submitter's description.

    Examples: `V100` for `Tesla V100-SXM2-16GB`, `TPU v3` for `tpuv3-8`.

    A description without a recognized chip name is returned unchanged.
    """
    match = _CHIPS.search(hardware)
    if match is None:
        return "CPU" if "none (cpu)" in hardware.lower() else hardware
    if match["tpu"]:
        return f"TPU {match['version'].lower()}" if match["version"] else "TPU"
    name = match["name"]
    return name.capitalize() if name.lower().startswith(("gaudi", "ascend")) else name.upper()


def accelerator_name(hardware: str) -> str:
    """Return the accelerator model in a submitter's description.

    Examples: `H100 PCIe`, `A100 SXM 80 GB`, or only the chip.

    The card and the module of a chip are different models, because they differ in clock, power, and
    memory. The two memory sizes of A100 differ in bandwidth. Details that the description omits are
    omitted in the result: `A100`.
    """
    kind = accelerator_chip(hardware)
    if kind not in ("V100", "A100", "H100", "H200"):
        return kind
    form, memory = (
        _CARD_OR_MODULE.search(hardware),
        re.search(r"\b([48]0) ?GB", hardware, re.IGNORECASE),
    )
    if form and form.lastgroup:
        kind += f" {form.lastgroup}"
    return f"{kind} {memory[1]} GB" if memory and kind.startswith("A100") else kind
