"""A minimal replacement for pynvml: two devices that are connected by NVLink, and one driver."""

import types


class NVMLError(Exception):
    pass


def make(broken=(), running=(), used=1 << 20, driver=13000, capability=(9, 0), slow=0, parts=0):
    """Return the module for `sys.modules["pynvml"]`; the functions in `broken` raise an error."""
    module = types.ModuleType("pynvml")
    memory = types.SimpleNamespace(total=80 << 30, used=used, free=(80 << 30) - used)
    figures = {
        **{
            "Count": 2,
            "Name": "Fake GPU",
            "CudaComputeCapability": capability,
            "MigMode": (parts, parts),
        },
        **{
            "MemoryInfo": memory,
            "PowerUsage": 312_500,
            "EnforcedPowerLimit": 700_000,
            "ClockInfo": 1980,
        },
        **{
            "Temperature": 45,
            "CurrentClocksThrottleReasons": slow,
            "TopologyCommonAncestor": 50,
            "P2PStatus": 0,
        },
    }
    answers = {
        f"nvmlDeviceGet{name}": lambda *_, value=value: value for name, value in figures.items()
    }
    answers |= {
        **dict.fromkeys(("nvmlInit", "nvmlShutdown"), lambda: None),
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetUUID": lambda device: f"GPU-{device}",
        "nvmlDeviceGetPciInfo": lambda device: types.SimpleNamespace(
            busId=f"00000000:3{device}:00.0"
        ),
        "nvmlDeviceGetUtilizationRates": lambda device: types.SimpleNamespace(
            gpu=90 + device, memory=5
        ),
        "nvmlDeviceGetMaxClockInfo": lambda device, kind: {1: 1980, 2: 2619}[kind],
        "nvmlDeviceGetNvLinkState": lambda device, link: _link(link),
        "nvmlDeviceGetComputeRunningProcesses": lambda device: [
            types.SimpleNamespace(pid=pid) for pid in running
        ],
        "nvmlSystemGetDriverVersion": lambda: "580.65",
        "nvmlSystemGetCudaDriverVersion": lambda: driver,
    }
    for name, answer in answers.items():
        setattr(module, name, _fails if name in broken else answer)
    module.NVMLError = NVMLError
    module.NVML_CLOCK_SM, module.NVML_CLOCK_MEM, module.NVML_TEMPERATURE_GPU = 1, 2, 0
    module.NVML_NVLINK_MAX_LINKS, module.NVML_P2P_CAPS_INDEX_NVLINK, module.NVML_P2P_STATUS_OK = (
        36,
        2,
        0,
    )
    return module


def _link(link):
    if link >= 18:
        raise NVMLError("Invalid Argument")
    return 1


def _fails(*arguments):
    raise NVMLError("Not Supported")
