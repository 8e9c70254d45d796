"""Lock files: every line is pinned, no host is named, and invalid files are refused."""

import configparser
import sys

import pytest

from suite.common.paths import PROJECT
from suite.environments import locks, venvs

LOCKS = sorted((PROJECT / "environments").glob("*.txt"))


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_a_shipped_lock_pins_every_line_and_names_no_host(path):
    lock = locks.read(path)
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    assert len(lock.requirements) == len(lines) > 5
    assert "://" not in path.read_text()
    assert not any(line.startswith("-") for line in lines)
    for minor in range(lock.python_first[1], lock.python_last[1] + 1):
        here = {"python_version": f"3.{minor}"}
        names = [
            item.name for item in lock.requirements if not item.marker or item.marker.evaluate(here)
        ]
        assert len(names) == len(set(names)) == len(lock.pins((3, minor)))


@pytest.mark.parametrize("name", locks.framework_locks())
def test_a_framework_lock_has_what_a_worker_needs_and_a_configuration(name):
    lock = locks.framework_locks()[name]
    pins = lock.pins(lock.python_first)
    assert {lock.framework, "numpy", "psutil", "mlperf-logging", "setuptools"} <= set(pins)
    assert pins["mlperf-logging"] == "4.1.68"
    assert f"name: {name}\n" in (PROJECT / "conf" / "environment" / f"{name}.yaml").read_text()


def test_locks_contain_whether_they_were_tried():
    untried = {name: lock for name, lock in locks.framework_locks().items() if not lock.tried}
    assert set(untried) == {"jax-cuda", "jax-cuda12", "mxnet-cuda", "tensorflow-cuda"}
    assert all(lock.path.read_text().startswith("# not tried") for lock in untried.values())


def test_extras_in_setup_cfg_agree_with_the_locks():
    config = configparser.ConfigParser()
    config.read(PROJECT / "setup.cfg")
    for extra, name in (
        ("torch", "torch"),
        ("tensorflow", "tensorflow-cpu"),
        ("mxnet", "mxnet-cpu"),
        ("jax", "jax"),
    ):
        pins = locks.framework_locks()[name].pins((3, 11))
        for line in config["options.extras_require"][extra].split():
            package, sign, version = line.partition("==")
            if sign:
                assert pins[package] == version


LOOSE = ("six", "six>=1", "six==1.*", "six==1,!=2", "six[x]==1", "-r other.txt", "six @ file:///x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((f"# python: 3.10-3.13\n\n{line}\n", r"loose\.txt:3: ") for line in LOOSE),
        ("six==1.16.0\n", r"loose\.txt .*# python: 3\.10-3\.13"),
    ],
)
def test_a_lock_without_pins_or_python_versions_is_refused(tmp_path, text, message):
    (tmp_path / "loose.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        locks.read(tmp_path / "loose.txt")


def test_pins_and_support_depend_on_the_python_version(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text(
        '# python: 3.10-3.11\nA_b==1; python_version < "3.11"\na.b==2; python_version >= "3.11"\n'
    )
    lock = locks.read(path)
    assert [lock.pins((3, minor)) for minor in (10, 11)] == [{"a-b": "1"}, {"a-b": "2"}]
    assert [minor for minor in range(8, 14) if lock.supports((3, minor))] == [10, 11]


def test_a_missing_python_for_a_lock_is_refused(tmp_path):
    path = tmp_path / "old.txt"
    path.write_text("# python: 2.6-2.6\n")
    message = r"needs Python 2\.6 to 2\.6, but this is .* PATH has no python2\.6\. .*--python FILE"
    with pytest.raises(ValueError, match=message):
        venvs.find_python(locks.read(path))
    with pytest.raises(ValueError, match=r"needs Python 2\.6 to 2\.6, but .* is Python 3"):
        venvs.find_python(locks.read(path), sys.executable)
    with pytest.raises(ValueError, match="does not run"):
        venvs.find_python(locks.read(path), str(tmp_path))
