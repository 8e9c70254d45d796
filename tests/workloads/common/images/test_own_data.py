"""Folders of the user's own, by a name of the user's own: open, and never called what they are not."""

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
    words = ("data", "prepare", kind, "--name", name, "--from", tmp_path / kind)
    return suite_here(tmp_path, *words, SUITE_DATA_DIR=str(tmp_path / "data"))


@pytest.mark.parametrize(
    ("kind", "name", "workload", "published"),
    [("images", "my-photos", "resnet50", "imagenet"), ("coco", "my.scenes_2", "ssd", "coco2017")],
)
def test_they_are_prepared_listed_and_open_under_their_name(
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
    words = (
        f"workload={workload}",
        "profile=demo",
        f"workload.dataset={name}",
        f"output={tmp_path / 'out'}",
    )
    draft = plan(composed(*words), "job", tmp_path / "out").draft
    assert (draft.settings.dataset, draft.settings.data_dir) == (name, str(data / name))
    assert any(
        deviation.text.startswith(f"data set {name}, not {published}")
        for deviation in draft.deviations()
    )


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("images", "imagenet", "this name is reserved for a data set of the suite"),
        ("images", "photos-demo", "reserved for generated data"),
        ("images", "../x", "allowed are letters, digits"),
        ("coco", "", "allowed are letters, digits"),
        ("imagenet", "mine", "Use --name with user-defined data only: images, coco"),
    ],
)
def test_a_name_that_is_taken_or_leads_elsewhere_is_refused(tmp_path, data, kind, name, said):
    done = prepared(tmp_path, kind, name)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
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
def test_what_only_looks_like_one_is_none(tmp_path, data, name, content):
    (data / name).mkdir(parents=True)
    (data / name / "manifest.json").write_text(content)
    assert name not in registry.dataset_names()
    assert suite_here(tmp_path, "data", "list", SUITE_DATA_DIR=str(data)).returncode == 0
    with pytest.raises(ValueError, match=name):
        registry.load_dataset(name)
