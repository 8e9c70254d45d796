"""Arrays that trainers compute on one or two devices.

MXNet drives all devices in a single process. All other frameworks use a process per device.
"""

import functools

from tests.frameworks_probe import probe, probe_together

FRAMEWORKS = ("pytorch", "tensorflow", "jax", "mxnet")


@functools.cache
def on_devices(framework, devices, function, *arguments):
    """Return the arrays of each process, grouped by the first part of their names (up to `/`)."""
    if devices == 1 or framework == "mxnet":
        found = [probe(framework, function, framework, devices, *arguments)]
    else:
        found = probe_together(framework, devices, function, framework, devices, *arguments)
    return [_by_case(arrays) for arrays in found]


def _by_case(arrays):
    found = {}
    for key, value in arrays.items():
        case, _, name = key.partition("/")
        found.setdefault(case, {})[name] = value
    return found
