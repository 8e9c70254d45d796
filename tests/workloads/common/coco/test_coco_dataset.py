"""`suite data prepare coco2017`: written arrays, rejected or skipped input, and repeated runs."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import examples, json_values
from tests.workloads.common.coco import synthetic_coco as synthetic
from tests.workloads.common.coco.synthetic_coco import Folders, prepare
from tests.workloads.common.images import preparing
from workloads.api.fingerprints import NOT_VERIFIED
from workloads.common import manifest as manifests
from workloads.common.coco import annotations as coco
from workloads.common.coco import objects
from workloads.common.coco.dataset import Coco2017
from workloads.common.data.published import COUNTS
from workloads.common.images import index
from workloads.common.images.counts import COCO2017


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return synthetic.write(tmp_path_factory.mktemp("coco") / "COCO 2017")


@pytest.fixture
def source(original, tmp_path):
    return Path(shutil.copytree(original, tmp_path / "My COCO"))


def rejection(source, tmp_path, **options):
    return preparing.rejection(Folders(), source, tmp_path, **options)


def opened(destination, split="train"):
    manifest = manifests.read(destination)
    count = manifest.counts[split]
    images = index.read(destination, split, Path(manifest.options["images"]), count)
    return images, None if split == "val_empty" else objects.read(destination, split, count)


def test_arrays_equal_the_content_of_the_files(source, tmp_path):
    lines = prepare(source, tmp_path / "p")
    assert (
        "10 training images with 22 objects and 7 validation images with 13 objects of 3 classes"
        in lines[0]
    )
    assert lines[1].startswith(
        "images without objects: 2 training images are not used, 2 validation images affect"
    )
    content = json.loads(synthetic.path(source).read_text())
    images, found = opened(tmp_path / "p")
    # Labels are ids of images. The images 40 and 80 have no objects.
    assert images.label.tolist() == [10, 20, 30, 50, 60, 70, 90, 100, 110, 120]
    classes = {1: 1, 13: 2, 90: 3}
    boxes, labels, ends = found.take(np.arange(10), images.width, images.height)
    first = 0
    for row in range(10):
        entry = synthetic.image(content, int(images.label[row]))
        assert images.name(row) == f"train2017/{entry['file_name']}"
        assert (images.width[row], images.height[row]) == (entry["width"], entry["height"])
        assert images.bytes[row] == (source / images.name(row)).stat().st_size
        mine = [each for each in content["annotations"] if each["image_id"] == entry["id"]]
        expected = sorted((each["id"], each["bbox"], each["category_id"]) for each in mine)
        assert labels[first : ends[row]].tolist() == [
            classes[category] for _, _, category in expected
        ]
        for (_, (left, top, width, height), _), box in zip(
            expected, boxes[first : ends[row]], strict=True
        ):
            corners = np.array([left, top, left + width, top + height])
            assert box * np.tile([entry["width"], entry["height"]], 2) == pytest.approx(
                corners, rel=1e-6
            )
        first = ends[row]
    assert (tmp_path / "p" / "classes.txt").read_text() == "1 person\n13 stop sign\n90 toothbrush\n"
    dataset_info = COCO2017.read(tmp_path / "p")
    assert (
        dataset_info.train_samples,
        dataset_info.evaluation_samples,
        dataset_info.sizes,
        dataset_info.notes,
    ) == (
        10,
        7,
        {"classes": 3},
        (),
    )


def test_objects_are_read_for_any_images_in_any_order(source, tmp_path):
    prepare(source, tmp_path / "p")
    images, found = opened(tmp_path / "p")
    everything = found.take(np.arange(10), images.width, images.height)
    chosen = np.array([7, 0, 7, 3])
    boxes, labels, ends = found.take(chosen, images.width[chosen], images.height[chosen])
    starts = [0, *ends[:-1]]
    for place, row in enumerate(chosen):
        whole = slice(everything[2][row - 1] if row else 0, everything[2][row])
        np.testing.assert_array_equal(boxes[starts[place] : ends[place]], everything[0][whole])
        np.testing.assert_array_equal(labels[starts[place] : ends[place]], everything[1][whole])
    assert len(found.take(chosen[:0], [], [])[0]) == 0


def test_ground_truth_has_all_images_and_the_ids_of_the_files(source, tmp_path):
    prepare(source, tmp_path / "p")
    truth = json.loads((tmp_path / "p" / "val_ground_truth.json").read_text())
    content = json.loads(synthetic.path(source, "val2017").read_text())
    assert [entry["id"] for entry in truth["images"]] == sorted(
        entry["id"] for entry in content["images"]
    )
    assert len(truth["images"]) == 9  # This includes images without objects.
    for entry in content["annotations"]:
        entry.pop("segmentation")
    assert sorted(truth["annotations"], key=lambda a: a["id"]) == sorted(
        content["annotations"], key=lambda a: a["id"]
    )
    assert truth["categories"] == sorted(synthetic.CATEGORIES, key=lambda entry: entry["id"])


def test_preparing_again_changes_nothing(source, tmp_path):
    def change():
        with pytest.raises(ValueError, match="with different content or options"):
            prepare(source, tmp_path / "p", subset=4)
        synthetic.change(source, lambda content: content["annotations"].pop())

    preparing.check_prepared_once(Folders(), source, tmp_path / "p", change)


def test_files_lists_the_images_and_the_prepared_folder(source, tmp_path):
    prepare(source, tmp_path / "p")
    images = [opened(tmp_path / "p", split)[0] for split in ("train", "val", "val_empty")]
    expected = [split.path(number) for split in images for number in range(len(split))]
    names = list(Folders().files(tmp_path / "p"))
    assert names[: len(expected)] == expected
    assert all(Path(name).is_file() for name in expected)
    assert len(expected) > 10
    assert sorted(names[len(expected) :]) == sorted(map(str, (tmp_path / "p").iterdir()))
    with pytest.raises(ValueError, match="no prepared data in"):
        next(Folders().files(tmp_path / "none"))


def test_a_subset_is_spread_over_the_images_with_objects(source, tmp_path):
    lines = prepare(source, tmp_path / "p", subset=4)
    images, _ = opened(tmp_path / "p")
    assert images.label.tolist() == [10, 30, 70, 100]
    validation, _ = opened(tmp_path / "p", "val")
    assert validation.label.tolist() == [1010, 1030, 1060]
    truth = json.loads((tmp_path / "p" / "val_ground_truth.json").read_text())
    assert [entry["id"] for entry in truth["images"]] == [1010, 1030, 1060]
    assert lines[-1] == "notice: subset of 4 training images"
    assert COCO2017.read(tmp_path / "p").notes == ("subset of 4 training images",)
    assert "--subset 0: expected at least 1" in rejection(source, tmp_path, subset=0)


def test_counts_that_differ_from_cocos_are_a_note(source, tmp_path):
    lines = prepare(source, tmp_path / "p", Coco2017)
    assert lines[-1].startswith(
        "a reference run of SSD also needs backbone.weights=resnet34-333f7ec4.pth, from https:"
    )
    assert (
        lines[-2]
        == "notice: counts differ from the published coco2017: 10 train instead of 117,266, 7 val"
        " instead of 4,952, 3 classes instead of 80, 12 train images instead of 118,287, 9 val"
        " images instead of 5,000"
    )
    assert manifests.read(tmp_path / "p").matches_published is False
    dataset_info = COCO2017.published_facts()
    assert (dataset_info.train_samples, dataset_info.evaluation_samples, dataset_info.sizes) == (
        117_266,
        4_952,
        {"classes": 80},
    )


@pytest.mark.parametrize("difference", ["nothing", "an annotation", "an image"])
def test_coco_is_recognized_by_its_annotations_and_the_bytes_of_its_images(
    source, tmp_path, monkeypatch, difference
):
    files = [source / "annotations" / f"instances_{split}2017.json" for split in ("train", "val")]
    folders = {split: list((source / f"{split}2017").iterdir()) for split in ("train", "val")}
    archives = {
        split: sum(path.stat().st_size for path in paths) for split, paths in folders.items()
    }
    monkeypatch.setattr(
        Coco2017, "annotations_sha256", tuple(manifests.sha256(path) for path in files)
    )
    monkeypatch.setattr(Coco2017, "archives", archives)
    counts = {"train": 10, "val": 7, "classes": 3, "train_images": 12, "val_images": 9}
    monkeypatch.setitem(COUNTS, "coco2017", counts)
    if difference == "an annotation":
        files[1].write_bytes(files[1].read_bytes() + b"\n")
    if difference == "an image":
        monkeypatch.setitem(archives, "train", archives["train"] // 2)
    prepare(source, tmp_path / "p", Coco2017)
    assert manifests.read(tmp_path / "p").matches_published is (difference == "nothing")
    (note,) = COCO2017.read(tmp_path / "p").notes
    assert (note == NOT_VERIFIED) is (difference == "nothing")


def test_verify_finds_changed_files(source, tmp_path):
    prepare(source, tmp_path / "p")
    assert "sound, fingerprint" in Folders().verify(tmp_path / "p")[-1]
    picture = source / "val2017" / "000000001010.jpg"
    picture.write_bytes(picture.read_bytes() + b"x")
    with pytest.raises(ValueError, match=r"000000001010\.jpg: [\d,]+ bytes instead of"):
        Folders().verify(tmp_path / "p")
    picture.unlink()
    with pytest.raises(ValueError, match=r"000000001010\.jpg: No such file"):
        Folders().verify(tmp_path / "p")
    (tmp_path / "p" / "train_box.npy").write_bytes(b"")
    with pytest.raises(ValueError, match=r"train_box\.npy: 0 bytes instead of"):
        Folders().verify(tmp_path / "p")
    with pytest.raises(
        ValueError, match=r"no prepared data in .*. Run: suite data prepare dummy --from FOLDER"
    ):
        Folders().verify(tmp_path / "q")


def changed(number, **values):
    """Return a function that changes values of an annotation."""
    return lambda content: synthetic.annotation(content, number).update(values)


def added(part, **values):
    """Return a function that adds a copy of an annotation or image, with changed values."""
    original = {"images": lambda content: synthetic.image(content, 40)}
    original["annotations"] = lambda content: synthetic.annotation(content, 2000)
    return lambda content: content[part].append({**original[part](content), **values})


NAN, OF_IMAGE = float("nan"), "annotation 1000 (image 10): "
BOXES = ([1, 2, -3, 4], [1, 2, 3, 0], [500, 2, 3, 4], [-5, 2, 30, 4], [NAN, 2, 3, 4],
         [1, 2, float("inf"), 4], "1 2 3 4", [1, 2, 3], None)  # fmt: skip
BAD = [
    *((changed(1000, bbox=box), f"{OF_IMAGE}box {box} ") for box in BOXES),
    *((changed(1000, area=area), f"{OF_IMAGE}area {area} ") for area in (NAN, -3, "large")),
    (changed(2000, category_id=7), "annotation 2000 (image 20): unknown category 7"),
    (changed(2000, image_id=77), "annotation 2000: its image 77 "),
    (added("annotations"), "annotation 2000 is listed twice"),
    (
        lambda content: synthetic.annotation(content, 2000).pop("id"),
        "annotation without a usable id: {'image_id': 20",
    ),
    (lambda content: content["annotations"].append([1]), "annotation without a usable id: [1]"),
    (added("images", file_name="x.jpg"), "image 40 is listed twice ("),
    (added("images", id=41), "image 41: its file 000000000040.jpg "),
    (
        added("images", id=41, file_name="../val2017/000000001010.jpg"),
        "image 41: not a file name without folders: ../val2017/",
    ),
    (
        added("images", id=41, file_name="a\x1b[31m\n.jpg"),
        "image 41: not a file name without folders: 'a\\x1b[31m\\n.jpg'",
    ),
    (added("images", id=2**40), "image without a usable id: {'id': 1099511627776"),
    (
        lambda content: content["images"].append({"id": 5, "file_name": "5.jpg"}),
        "image 5: invalid size None x None",
    ),
]


@pytest.mark.parametrize(("damage", "message"), BAD, ids=[message for _, message in BAD])
def test_a_single_bad_entry_is_rejected_or_skipped(source, tmp_path, damage, message):
    synthetic.change(source, damage)
    problem = f"{synthetic.path(source)}: {message}"
    lines = preparing.check_rejected_or_skipped(Folders(), source, tmp_path, problem)
    assert lines[-1].startswith("notice: 1 images or annotations ")
    Folders().verify(tmp_path / "p")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda file: file.unlink() or os.mkfifo(file),
            "instances_train2017.json: not a regular file. Expected: train2017, ",
        ),
        (
            lambda file: os.truncate(file, 1 << 40),
            "train2017.json: more than 2,147,483,648 bytes. Expected: train2017, ",
        ),
        (Path.unlink, "instances_train2017.json: No such file or directory. Expected: "),
        (
            lambda file: shutil.rmtree(file.parents[1] / "train2017"),
            ": no folder train2017. Expected: train2017, val",
        ),
        (
            lambda file: file.write_text(file.read_text().replace("toothbrush", "brush")),
            "instances_val2017.json: the categories differ from ",
        ),
    ],
)
def test_folders_in_a_different_layout_are_rejected(source, tmp_path, damage, message):
    damage(synthetic.path(source))
    assert message in rejection(source, tmp_path)


FLAGS = [
    (0, 0),
    (1, 1),
    (False, 0),
    (True, 1),
    (0.0, 0),
    (1.0, 1),
    ("0", 0),
    ("1", 1),
    (None, 0),
    (-0.0, 0),
]


@pytest.mark.parametrize(("value", "crowd"), FLAGS, ids=repr)
def test_iscrowd_is_0_or_1_in_any_type(source, tmp_path, value, crowd):
    synthetic.change(
        source, lambda content: [e.update(iscrowd=crowd) for e in content["annotations"]], "val2017"
    )
    prepare(source, tmp_path / "p")
    synthetic.change(
        source, lambda content: [e.update(iscrowd=value) for e in content["annotations"]], "val2017"
    )
    prepare(source, tmp_path / "q")
    truth = json.loads((tmp_path / "q" / "val_ground_truth.json").read_text())
    assert {entry["iscrowd"] for entry in truth["annotations"]} == {crowd}
    assert len({manifests.read(tmp_path / name).fingerprint for name in ("p", "q")}) == 1


def test_iscrowd_may_be_missing(source, tmp_path):
    synthetic.change(
        source, lambda content: [e.pop("iscrowd") for e in content["annotations"]], "val2017"
    )
    prepare(source, tmp_path / "p")
    truth = json.loads((tmp_path / "p" / "val_ground_truth.json").read_text())
    assert {entry["iscrowd"] for entry in truth["annotations"]} == {0}


@pytest.mark.parametrize(
    "value", [2, -1, 0.5, NAN, "yes", "true", "", "01", " 1", [], [1], {}, 10**400], ids=repr
)
def test_an_invalid_iscrowd_is_rejected_or_skipped(source, tmp_path, value):
    synthetic.change(source, changed(1000, iscrowd=value))
    problem = f"{synthetic.path(source)}: {OF_IMAGE}iscrowd "
    lines = preparing.check_rejected_or_skipped(Folders(), source, tmp_path, problem)
    assert "is invalid (allowed: 0, 1)" in lines[0]


def test_hidden_files_change_nothing(source, tmp_path):
    prepare(source, tmp_path / "p")
    for folder in ("train2017", "val2017", "annotations"):
        for path in [*(source / folder).iterdir()]:
            (source / folder / f"._{path.name}").write_bytes(b"\0\5\x16\7")
        (source / folder / ".ipynb_checkpoints").mkdir()
        shutil.copy(path, source / folder / ".ipynb_checkpoints")
    prepare(source, tmp_path / "q")
    assert len({manifests.read(tmp_path / name).fingerprint for name in ("p", "q")}) == 1


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_annotations_may_begin_with_a_byte_order_mark(source, tmp_path, encoding):
    prepare(source, tmp_path / "p")
    path = synthetic.path(source)
    path.write_bytes(path.read_text(encoding="utf-8").encode(encoding))
    prepare(source, tmp_path / "q")
    assert len({manifests.read(tmp_path / name).fingerprint for name in ("p", "q")}) == 1


def test_a_box_may_extend_a_pixel_beyond_its_image(source, tmp_path):
    synthetic.change(source, changed(1000, bbox=[-0.75, 2, 3, 4]))
    prepare(source, tmp_path / "p")
    assert opened(tmp_path / "p")[1].box[0].tolist() == [-0.75, 2, 3, 4]


def test_the_flat_boxes_of_the_published_file_are_skipped_without_a_note(source, tmp_path):
    def add(content):
        entry = {**synthetic.image(content, 40), "id": 200_365, "file_name": "000000200365.jpg"}
        content["images"].append(entry)
        flat = {
            **content["annotations"][0],
            "id": 918,
            "image_id": 200_365,
            "bbox": [29.65, 38.33, 1.03, 0.0],
        }
        content["annotations"] += [flat, {**flat, "id": 919, "bbox": [1, 2, 3, 4]}]

    synthetic.change(source, add)
    shutil.copy(
        source / "train2017" / "000000000040.jpg", source / "train2017" / "000000200365.jpg"
    )
    lines = prepare(source, tmp_path / "p")
    assert lines[0].startswith("left out: ")
    assert "annotation 918 (image 200365): box [29.65, 38.33, 1.03, 0.0] has no area" in lines[0]
    assert manifests.read(tmp_path / "p").notes == []
    images, found = opened(tmp_path / "p")
    assert images.label[-1] == 200_365
    assert found.box[-1].tolist() == [1, 2, 3, 4]


def unknown(first):
    """Return a function that sets an unknown category in all annotations from index `first` on."""
    return lambda content: [entry.update(category_id=5) for entry in content["annotations"][first:]]


def test_several_problems_are_listed_and_counted(source, tmp_path):
    synthetic.change(source, unknown(0), "val2017")
    message = rejection(source, tmp_path)
    assert "val2017.json: no image with objects can be used. The first problem is " in message
    synthetic.change(source, unknown(1))
    shutil.copy(synthetic.path(source), synthetic.path(source, "val2017"))
    shutil.copytree(source / "train2017", source / "val2017", dirs_exist_ok=True)
    lines = rejection(source, tmp_path).splitlines()
    assert (
        lines[0]
        == "42 images or annotations cannot be used. Repair them, or set --skip-bad to leave"
        " them out"
    )
    assert len(lines) == 22
    assert lines[-1] == "… and 22 more"


def test_bad_image_files_are_rejected_or_skipped(source, tmp_path):
    folder = source / "train2017"
    (folder / "000000000010.jpg").unlink()
    assert rejection(source, tmp_path).startswith(
        f"{folder}/000000000010.jpg: image 10: cannot be read (No such file"
    )
    (folder / "000000000020.jpg").write_bytes(b"")
    (folder / "000000000030.jpg").write_bytes((folder / "000000000060.jpg").read_bytes()[:-200])
    (folder / "000000000040.jpg").write_bytes(simplejpeg.encode_jpeg(np.zeros((9, 8, 3), np.uint8)))
    lines = rejection(source, tmp_path).splitlines()
    assert lines[0].startswith("4 images or annotations cannot be used")
    assert lines[2].startswith(f"{folder}/000000000020.jpg: image 20: empty (0 bytes)")
    assert lines[3].startswith(f"{folder}/000000000030.jpg: image 30: ")
    assert lines[4].startswith(f"{folder}/000000000040.jpg: image 40: 8 x 9 pixels, but ")
    prepare(source, tmp_path / "p", skip_bad=True)
    assert opened(tmp_path / "p")[0].label.tolist()[:2] == [50, 60]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty (0 bytes)"),
        (b" \n", "empty (2 bytes)"),
        (b'{"images": [', "not JSON (Expecting value: line 1 column 13 (char 12))"),
        (b"\xff\xfe{}", "not JSON ("),
        (b"[]", "not COCO annotations (a list instead of an object)"),
        (b"{}", "not COCO annotations (no list 'images')"),
        (
            b'{"images": {}, "annotations": [], "categories": []}',
            "not COCO annotations (no list 'images')",
        ),
        (
            b'{"images": [{}], "annotations": [], "categories": [{}]}',
            "no annotations. Download the annotations again",
        ),
        (
            b'{"images": [{}], "annotations": [{}], "categories": [{}]}',
            "category without a usable id: {}",
        ),
        (
            b'{"images": [1], "annotations": [1], '
            b'"categories": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]}',
            "category 1 is listed twice (a, b)",
        ),
        (b"[" * 100_000, "not COCO annotations (nested too deeply)"),
    ],
)
def test_an_invalid_annotation_file_is_rejected(source, tmp_path, content, problem):
    synthetic.path(source, "val2017").write_bytes(content)
    message = rejection(source, tmp_path)
    assert message.startswith(f"{synthetic.path(source, 'val2017')}: {problem}")
    assert "\n" not in message
    assert rejection(source, tmp_path, skip_bad=True) == message


ANY_JSON = json_values(6, st.sampled_from(["id", "bbox", "x"]))
entries = st.fixed_dictionaries(
    {},
    optional={
        name: ANY_JSON | st.integers(0, 3)
        for name in (
            "id",
            "image_id",
            "category_id",
            "bbox",
            "file_name",
            "width",
            "height",
            "name",
            "area",
            "iscrowd",
        )
    },
)


@examples(60)
@given(
    st.fixed_dictionaries(
        {
            name: ANY_JSON | st.lists(entries, max_size=4)
            for name in ("images", "annotations", "categories")
        }
    )
)
def test_any_json_is_read_or_rejected_in_one_line(content):
    try:
        lines = coco.parse(Path("some.json"), json.dumps(content).encode()).problems
    except ValueError as error:
        lines = [str(error)]
    assert all(line.startswith("some.json: ") and line.isprintable() for line in lines)
