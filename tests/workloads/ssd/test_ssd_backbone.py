"""`backbone.weights` of SSD: rejected files, conversion, and use in every framework."""

import dataclasses
import errno
import os
import re
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

from suite.common import registry
from suite.common.runspec import read_run
from suite.plan.resume import identity
from suite.plan.settings import resolve_settings
from testing import synthetic_ssd
from tests.frameworks_probe import probe
from tests.helpers import (
    composed,
    events,
    full_but,
    only,
    run_suite,
    run_suite_here,
    suite,
    written,
)
from tests.workloads.common.coco import synthetic_coco
from tests.workloads.common.networks import synthetic_torch_files as torch_files
from workloads.common import manifest as manifests
from workloads.common.networks import backbones
from workloads.ssd import backbone, network
from workloads.ssd.settings import REFERENCE_MODEL
from workloads.ssd.workload import SSD

LAYERS = network.build(REFERENCE_MODEL)
SHAPES = backbone.shapes(LAYERS)


FEW = {
    name: shape
    if name.startswith(("conv1", "bn1"))
    else (*(max(1, size // 8) for size in shape[:2]), *shape[2:])
    for name, shape in SHAPES.items()
}
"""Shapes of a trunk with a 64th of the weights, for tests in which their number is irrelevant."""


def arrays(shapes):
    """Return synthetic weights of a trunk, and some entries that are dropped."""
    generator = np.random.default_rng(5)
    found = {}
    for name, shape in shapes.items():
        value = 0.05 * generator.standard_normal(shape, np.float32)
        found[name] = (
            np.abs(value) + 0.5
            if name.endswith(("running_var", "bn1.weight", "bn2.weight"))
            else value
        )
        if name.endswith("running_var"):
            found[name.replace("running_var", "num_batches_tracked")] = np.array(9, np.int64)
    found["fc.weight"] = generator.standard_normal((10, 512), np.float32)
    return found


FEW_ARRAYS, digest_of = arrays(FEW), manifests.sha256


def tar(values):
    return torch_files.tarred(
        {name: value for name, value in values.items() if "tracked" not in name}
    )


def zipped(values=FEW_ARRAYS):
    kept = {name: value for name, value in values.items() if name in SHAPES}
    return torch_files.zipped(torch_files.state_dict(kept, length=5), list(kept.values()))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return a backbone's path and arrays, with the format and size of the published file."""
    path, values = tmp_path_factory.mktemp("backbone") / "synthetic.pth", arrays(SHAPES)
    path.write_bytes(tar(values))
    return path, values


@pytest.fixture
def few(tmp_path, monkeypatch):
    """Return the path of a backbone with few weights, and patch the workload to accept it."""
    monkeypatch.setattr(backbone, "shapes", lambda layers: FEW)
    path = tmp_path / "synthetic.pth"
    path.write_bytes(tar(FEW_ARRAYS))
    return path


def settings_of(data, *overrides, weights=None):
    """Return settings of a reference run before `resolve`.

    `data` is the folder of the data sets, `weights` the value of `backbone.weights`.
    """
    config = composed("workload=ssd", "device=cpu", *overrides)
    config.backbone["weights"] = None if weights is None else str(weights)
    settings = resolve_settings(config, SSD, registry.load_framework("pytorch"))
    return dataclasses.replace(settings, data_dir=str(data / "coco2017"))


def resolved(data, path, *overrides):
    return SSD.resolve(settings_of(data, "backbone.allow_other=true", *overrides, weights=path))


# -- the published file --


@pytest.mark.parametrize(
    ("published", "name"),
    [
        (backbone.PUBLISHED, "resnet34-333f7ec4.pth"),
        (backbones.RESNET34.resaved, "resnet34-b627a593.pth"),
    ],
)
def test_names_of_published_files_contain_their_digest(published, name):
    assert published.file == f"resnet34-{published.sha256[:8]}.pth" == name
    assert published.url == f"https://download.pytorch.org/models/{name}"
    assert len(published.sha256) == 64


UNPROVEN = "backbone resnet34-b627a593.pth, not shown to hold the weights of resnet34-333f7ec4.pth"
"""Note of the file that torchvision saved again."""


@pytest.mark.parametrize(
    "proof", ["none", "the published file", "one that differs in a last digit"]
)
def test_the_newer_file_is_closed_if_both_convert_to_the_same_arrays(
    tmp_path, few, monkeypatch, proof
):
    """Patch both digests so that the files count as the published files."""
    values = {**FEW_ARRAYS, "bn1.bias": FEW_ARRAYS["bn1.bias"].copy()}
    if "differs" in proof:
        values["bn1.bias"][5] = np.nextafter(values["bn1.bias"][5], np.float32(1))
    resaved = tmp_path / "resaved.pth"
    resaved.write_bytes(zipped(values))
    again = dataclasses.replace(backbones.RESNET34.resaved, sha256=digest_of(resaved))
    mine = dataclasses.replace(backbones.RESNET34, sha256=digest_of(few), resaved=again)
    monkeypatch.setattr(backbone, "PUBLISHED", mine)
    if proof != "none":
        published = SSD.resolve(settings_of(tmp_path, weights=few))
        assert backbones.notes(published, mine) == ()
        assert backbones.described(published) == f"synthetic.pth sha256:{digest_of(few)}"
    settings = SSD.resolve(settings_of(tmp_path, weights=resaved))
    shown = {"weights_of": digest_of(few)} if proof == "the published file" else {}
    assert settings.options["backbone"] == {
        "file": "resaved.pth",
        "sha256": digest_of(resaved),
        **shown,
    }
    assert SSD.load_dataset_info(dataclasses.replace(settings, data_dir="")).notes == (
        () if shown else (UNPROVEN,)
    )
    found = backbones.load(settings, FEW)
    assert all(np.array_equal(found[name], values[name]) for name in FEW)


# -- rejected values --

REFUSED = {
    "no backbone": (
        ("workload=ssd",),
        f"Download {backbone.PUBLISHED.url} and set backbone.weights=PATH",
    ),
    "a key": (("workload=ssd", "backbone.weight={file}"), " (did you mean backbone.weights="),
    "two files": (
        ("workload=ssd", "-m", "backbone.weights=a.pth,b.pth"),
        "backbone.weights=a.pth,b.pth: No such file",
    ),
    "another workload": (
        ("workload=ncf", "backbone.weights={file}"),
        "Run with workload=ncf --help",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_on_the_command_line(tmp_path, few, name):
    overrides, words = REFUSED[name]
    overrides = [text.replace("{file}", str(few)) for text in overrides]
    folders = {"SUITE_DATA_DIR": str(tmp_path / "data"), "CUDA_VISIBLE_DEVICES": ""}
    done = run_suite_here(tmp_path, "device=cpu", *overrides, **folders)
    assert done.returncode == 2, done.stdout + done.stderr
    assert sum(words in line for line in done.stderr.splitlines()) == 1
    # There is a line for the mistake, and a line for everything else that is missing here: the
    # environment, the data set, memory for the batch.
    allowed = re.compile(r"run_suite\.py: |  \d\. |for a demo on the devices ")
    assert all(map(allowed.match, done.stderr.splitlines()))
    assert not (tmp_path / "logs").exists()
    assert not (tmp_path / "data").exists()


RANDOM = "starts from random weights. Leave it out"


@pytest.mark.parametrize(
    ("overrides", "weights", "words"),
    [
        (
            ("backbone.allow_other=true",),
            None,
            f"Download {backbone.PUBLISHED.url} and set backbone.weights=PATH",
        ),
        ((), "/nowhere/x.pth", "/nowhere/x.pth: No such file or directory. Download "),
        ((), "/", "backbone.weights=/: not a regular file"),
        ((), "/dev/zero", "/dev/zero: not a regular file"),
        ((), "{file}", "set backbone.allow_other=true (open division)"),
        (("profile=demo",), "{file}", f"profile=demo {RANDOM}"),
        (("profile=synthetic",), "{file}", f"profile=synthetic {RANDOM}"),
    ],
)
def test_invalid_backbones_are_rejected(tmp_path, few, overrides, weights, words):
    weights = weights and weights.replace("{file}", str(few))
    with pytest.raises(ValueError, match=re.escape(words)):
        SSD.resolve(settings_of(tmp_path / "data", *overrides, weights=weights))
    assert not (tmp_path / "data").exists()


def changed(name, value):
    """Return a function that writes the synthetic weights with a changed value.

    If `value` is None, the entry is left out.
    """
    found = {key: kept for key, kept in FEW_ARRAYS.items() if key != name}
    return lambda path: path.write_bytes(tar(found if value is None else {**found, name: value}))


def hostile(path):
    """Write a pickle that would create the file `mark` in the same folder."""
    call = f"cos\nsystem\n(S'touch {path.with_name('mark')}'\ntR.".encode()
    path.write_bytes(torch_files.tarred(torch_files.arrays(), payload=call))


BAD = {
    "missing": (
        changed("layer3.5.bn2.running_var", None),
        "layer3.5.bn2.running_var is missing. The weights belong",
    ),
    "shape": (
        changed("conv1.weight", FEW_ARRAYS["conv1.weight"][:32].copy()),
        "not float32 (64, 3, 7, 7)",
    ),
    "double": (
        changed("bn1.bias", FEW_ARRAYS["bn1.bias"].astype(np.float64)),
        "bn1.bias is float64 (64,)",
    ),
    "NaN": (
        changed("bn1.bias", np.full(64, np.nan, np.float32)),
        "bn1.bias has a number that is not finite",
    ),
    "variance": (
        changed("bn1.running_var", -FEW_ARRAYS["bn1.running_var"]),
        "negative variance. The file is damaged",
    ),
    "truncated": (lambda path: path.write_bytes(tar(FEW_ARRAYS)[:100_000]), ""),
    "hostile": (hostile, "which is not allowed in weights"),
    "large": (
        lambda path: path.touch() or os.truncate(path, 1 << 40),
        "more than 1,073,741,824 bytes",
    ),
    "a pipe": (os.mkfifo, "not a regular file"),
}


@pytest.mark.parametrize("name", BAD)
def test_damaged_or_unsuitable_files_are_rejected(tmp_path, few, name):
    write, words = BAD[name]
    path = tmp_path / "bad.pth"
    write(path)
    with pytest.raises(
        ValueError, match=rf"^{re.escape(f'backbone.weights={path}: ')}.*{re.escape(words)}"
    ):
        resolved(tmp_path / "data", path)
    assert not list((tmp_path / "data").rglob("*")), "a failed conversion must not leave files"
    assert not (tmp_path / "mark").exists()


# -- the conversion --


def test_a_backbone_is_converted_once_loaded_and_noted(tmp_path, few):
    settings = resolved(tmp_path, few)
    folder = backbones.folder(settings)
    assert folder == tmp_path / "backbones" / f"ssd-{digest_of(few)[:16]}"
    note = f"backbone {digest_of(few)[:8]} instead of resnet34-333f7ec4.pth"
    assert backbones.notes(settings, backbone.PUBLISHED) == (note,)
    found = backbones.load(settings, FEW)
    assert list(found) == list(FEW)
    assert all(np.array_equal(found[name], FEW_ARRAYS[name]) for name in FEW)
    # The time stamps are constant, so that the bytes are reproducible.
    with zipfile.ZipFile(folder / "weights.npz") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert manifests.verify(folder, manifests.read(folder))
    before = written(folder)
    assert resolved(tmp_path, few) == settings
    assert written(folder) == before
    assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "bytes instead of"),
        (lambda path: path.write_bytes(b"x" * path.stat().st_size), "content differs"),
        (lambda path: path.unlink(), "missing"),
        (
            lambda path: (path.parent / "manifest.json").unlink(),
            "does not contain the converted weights",
        ),
        (lambda path: (path.parent / "manifest.json").write_text("{"), "cannot be read"),
    ],
)
def test_a_damaged_conversion_is_refused_by_the_worker(tmp_path, few, edit, words):
    settings = resolved(tmp_path, few)
    edit(backbones.folder(settings) / "weights.npz")
    with pytest.raises(ValueError, match=words):
        backbones.load(settings, FEW)


def test_a_full_disk_is_reported(tmp_path, few, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(backbones, "_write", full)
    with pytest.raises(
        ValueError,
        match=r"written \(No space left on device\)\. Set SUITE_DATA_DIR to a different folder",
    ):
        resolved(tmp_path, few)
    assert not list((tmp_path / "backbones").iterdir())


# -- effects on a run --


def test_initial_weights_are_the_backbones_and_the_heads_drawn(tmp_path, few):
    settings = resolved(tmp_path, few)
    dataset_info = dataclasses.replace(
        SSD.load_dataset_info(dataclasses.replace(settings, data_dir="")), train_samples=2_000
    )
    found = dict(SSD(settings, dataset_info).initial_weights(3))
    drawn = dict(network.initial_weights(LAYERS, 3))
    assert set(found) == set(drawn) | set(FEW)
    for name, value in found.items():
        assert np.array_equal(value, FEW_ARRAYS[name] if name in FEW else drawn[name]), name


def test_resume_identity_depends_on_the_content_not_the_path(tmp_path, few):
    """Compare the identity of runs whose files differ in path, and in content."""
    moved, different = tmp_path / "a, b" / "synthetic.pth", tmp_path / "other" / "synthetic.pth"
    for path, content in (
        (moved, few.read_bytes()),
        (different, tar({**FEW_ARRAYS, "bn1.bias": FEW_ARRAYS["bn1.bias"] + 1})),
    ):
        path.parent.mkdir()
        path.write_bytes(content)
    found = {}
    for name, path in (("file", few), ("moved", moved), ("other", different)):
        settings = resolved(tmp_path, path)
        assert settings.options["backbone_weights"] == str(path)
        dataset_info = SimpleNamespace(fingerprint="x")
        found[name] = identity(
            SimpleNamespace(settings=settings, dataset_info=dataset_info, environment_variables={})
        )
    assert found["file"] == found["moved"] != found["other"]


@pytest.mark.parametrize("profile", ["demo", "synthetic"])
def test_other_profiles_keep_random_weights(tmp_path, profile):
    settings = settings_of(tmp_path, f"profile={profile}")
    assert SSD.resolve(settings) == settings
    assert backbones.load(settings, SHAPES) == {}
    assert backbones.described(settings) == "random"


@pytest.mark.framework
def test_a_reference_run_records_its_backbone(tmp_path, whole):
    """Run two steps of the full model on a few images in COCO's layout.

    The test checks the content of run.json and of the log.
    """
    source, data = synthetic_coco.write(tmp_path / "coco"), tmp_path / "data"
    folders = {"SUITE_DATA_DIR": str(data)}
    prepared = suite(tmp_path, "data", "prepare", "coco2017", "--from", source, **folders)
    assert prepared.returncode == 0, prepared.stderr
    path = tmp_path / "a b, c.pth"
    path.write_bytes(whole[0].read_bytes())
    overrides = (
        f"backbone.weights={path}",
        "backbone.allow_other=true",
        "batch=global:2",
        "stop=steps:2",
    )
    done = run_suite(tmp_path, "workload=ssd", "device=cpu", *overrides, **folders)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = only((tmp_path / "logs").glob("*/*/run_0"))
    digest = digest_of(path)
    note = f"backbone {digest[:8]} instead of resnet34-333f7ec4.pth"
    spec = read_run(folder / "run.json")
    assert spec.settings.options["backbone"] == {"file": path.name, "sha256": digest}
    assert spec.settings.options["backbone_weights"] == str(path)
    assert note in map(str, spec.labels)
    found = {key: value for key, value, _ in events(folder / "result_0.txt")}
    assert found["backbone_weights"] == f"{path.name} sha256:{digest}"
    assert found["submission_division"] == "open"
    assert note in found["suite_run"]["labels"]
    assert note in found["suite_run"]["deviations"]
    assert only((data / "backbones").iterdir()).name == f"ssd-{digest[:16]}"


@pytest.mark.framework
@pytest.mark.parametrize(
    "framework",
    full_but(("pytorch", "tensorflow", "jax", "mxnet"), "pytorch", "tensorflow", "mxnet"),
)
def test_weights_and_statistics_reach_the_trainer(tmp_path, whole, framework):
    """Check a trainer whose trunk is a part of ResNet-34."""
    (file, arrays), data = whole, str(tmp_path / "coco2017")
    resolved(tmp_path, file)
    state = probe(framework, "probes.ssd_backbone_probe.state", framework, data, digest_of(file))
    small = synthetic_ssd.workload("steps", framework)
    shapes, drawn = backbone.shapes(small.network), dict(small.initial_weights(3))
    assert len([name for name in shapes if "running" in name]) == 2 * 11
    for name, value in drawn.items():
        assert np.array_equal(state[name], arrays[name] if name in shapes else value), name
    for name in network.statistics(small.network):
        assert np.array_equal(state[name], arrays[name]), name
