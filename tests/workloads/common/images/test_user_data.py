"""User-defined data sets: prepared under a user-defined name, and always in the open division."""

import json

import pytest

from suite.common import registry
from suite.plan.jobs import plan
from tests.helpers import composed, suite_here
from tests.workloads.common.coco import synthetic_coco
from tests.workloads.resnet50 import synthetic_images


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("SUITE_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def prepared(tmp_path, kind, name):
    write = synthetic_coco.write if kind == "coco" else synthetic_images.write
    write(tmp_path / kind)
    overrides = ("data", "prepare", kind, "--name", name, "--from", tmp_path / kind)
    return suite_here(tmp_path, *overrides, SUITE_DATA_DIR=str(tmp_path / "data"))


@pytest.mark.parametrize(
    ("kind", "name", "workload", "published"),
    [("images", "my-photos", "resnet50", "imagenet"), ("coco", "my.scenes_2", "ssd", "coco2017")],
)
def test_user_defined_data_are_prepared_listed_and_open(
    tmp_path, data, kind, name, workload, published
):
    done = prepared(tmp_path, kind, name)
    assert (done.returncode, done.stderr) == (0, "")
    manifest = json.loads((data / name / "manifest.json").read_text())
    assert (manifest["dataset"], manifest["options"]["kind"], manifest["matches_published"]) == (
        name,
        kind,
        None,
    )
    assert registry.load_dataset(name).is_prepared(data / name)
    assert (
        registry.load_dataset(name).how()
        == f"suite data prepare {kind} --name {name} --from FOLDER"
    )
    assert name in registry.dataset_names()
    assert "sound" in suite_here(tmp_path, "data", "verify", name, SUITE_DATA_DIR=str(data)).stdout
    overrides = (
        f"workload={workload}",
        "profile=demo",
        f"workload.dataset={name}",
        f"output={tmp_path / 'out'}",
    )
    draft = plan(composed(*overrides), "job", tmp_path / "out").draft
    assert (draft.settings.dataset, draft.settings.data_dir) == (name, str(data / name))
    assert any(
        deviation.text.startswith(f"data set {name}, not {published}")
        for deviation in draft.deviations()
    )


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("images", "imagenet", "this name is reserved for a data set of the suite"),
        ("images", "photos-demo", "reserved for generated data"),
        ("images", "../x", "allowed are letters, digits"),
        ("coco", "", "allowed are letters, digits"),
        ("imagenet", "mine", "Use --name with user-defined data only: images, coco"),
    ],
)
def test_a_reserved_or_invalid_name_is_rejected(tmp_path, data, kind, name, message):
    done = prepared(tmp_path, kind, name)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert not data.exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(
            ("odd", text)
            for text in (
                "[]",
                "{",
                '{"options": {"kind": ["images"]}}',
                '{"options": {"kind": "none"}}',
            )
        ),
        ("odd", '{"options": {"kind": "ml-20m"}}'),
        ("no name", '{"options": {"kind": "images"}}'),
    ],
)
def test_a_folder_with_an_invalid_manifest_is_not_a_data_set(tmp_path, data, name, content):
    (data / name).mkdir(parents=True)
    (data / name / "manifest.json").write_text(content)
    assert name not in registry.dataset_names()
    assert suite_here(tmp_path, "data", "list", SUITE_DATA_DIR=str(data)).returncode == 0
    with pytest.raises(ValueError, match=name):
        registry.load_dataset(name)
