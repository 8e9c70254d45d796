"""Masks in prepared data: written arrays, rejected masks, COCO 2014, and independence of SSD."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycocotools import mask as tool

from tests.helpers import examples, json_values
from tests.workloads.common.coco import synthetic_coco as synthetic
from tests.workloads.common.coco.synthetic_coco import Folders, prepare
from tests.workloads.common.coco.test_coco_dataset import original, source
from tests.workloads.common.images.preparing import check_rejected_or_skipped, rejection
from workloads.common import manifest as manifests
from workloads.common.coco import annotations as coco
from workloads.common.coco import masks, objects
from workloads.common.coco.dataset import Coco2014
from workloads.common.images import index

__all__ = ["original", "source"]
SQUARE = [2.5, 3.25, 12.5, 3.25, 12.5, 13.25, 2.5, 13.25]


def set_mask(number, value):
    return lambda content: synthetic.annotation(content, number).update(segmentation=value)


def rle(counts, size):
    return {"counts": counts, "size": size}


def opened(folder, split="train"):
    count = manifests.read(folder).counts[split]
    found = objects.read(folder, split, count)
    return found, masks.read(folder, split, len(found.label))


def test_prepared_polygons_equal_those_of_the_file(source, tmp_path):
    def change(content):
        synthetic.annotation(content, 1000)["segmentation"] = [SQUARE, [1, 2, 3, 4, 5.5, 6]]
        synthetic.annotation(content, 2001).update(bbox=[3, 4, 1, 8])

    synthetic.change(source, change)
    prepare(source, tmp_path / "p")
    content = json.loads(synthetic.path(source).read_text())
    found, (polygons, trainable) = opened(tmp_path / "p")
    entries = sorted(content["annotations"], key=lambda entry: (entry["image_id"], entry["id"]))
    assert len(found.label) == len(entries) == len(polygons.object_ends)
    starts, points = [0, *polygons.object_ends.tolist()], [0, *polygons.polygon_ends.tolist()]
    for number, entry in enumerate(entries):
        mine = range(starts[number], starts[number + 1])
        flat = [polygons.points[points[p] : points[p + 1]].reshape(-1).tolist() for p in mine]
        assert flat == entry["segmentation"]
        assert trainable[number] == (not entry["iscrowd"] and entry["id"] != 2001)
    counts = manifests.read(tmp_path / "p").counts
    assert (
        counts["train_segmented_objects"]
        == trainable.sum()
        == len(entries) - 1 - sum(e["iscrowd"] for e in entries)
    )
    assert (counts["train_segmented"], counts["objects_per_image_most"]) == (10, 3)


def test_files_that_ssd_reads_do_not_depend_on_masks(source, tmp_path):
    prepare(source, tmp_path / "with")
    for folder in ("train2017", "val2017"):
        synthetic.change(
            source, lambda content: [e.pop("segmentation") for e in content["annotations"]], folder
        )
    lines = prepare(source, tmp_path / "without")
    assert not any("left out" in line or "notice" in line for line in lines)
    without = {
        path.name: path.read_bytes()
        for path in (tmp_path / "without").iterdir()
        if path.name != manifests.NAME
    }
    assert "train_polygon_points.npy" not in without
    for name, data in without.items():
        assert (tmp_path / "with" / name).read_bytes() == data
    masked = {path.name for path in (tmp_path / "with").iterdir()} - set(without) - {manifests.NAME}
    assert masked == {f"train_{name}.npy" for name in masks.TYPES} | {
        "val_mask_counts.npy",
        "val_mask_ends.npy",
    }
    Folders().verify(tmp_path / "without")


def test_images_without_objects_have_a_separate_index(source, tmp_path):
    prepare(source, tmp_path / "p")
    manifest = manifests.read(tmp_path / "p")
    root = index.root(tmp_path / "p", manifest)
    full = index.read(tmp_path / "p", "val", root, 7)
    empty = index.read(tmp_path / "p", "val_empty", root, manifest.counts["val_empty"])
    both = index.join(full, empty)
    assert empty.label.tolist() == [1040, 1080]
    assert both.label.tolist() == [*full.label.tolist(), 1040, 1080]
    assert [both.name(number) for number in (0, 6, 7, 8)] == [
        full.name(0),
        full.name(6),
        empty.name(0),
        empty.name(1),
    ]
    assert index.join(empty, empty).name(3) == empty.name(1)
    Folders().verify(tmp_path / "p")


BAD = {
    "text": ("mask", "its mask is neither a list of polygons nor run lengths"),
    "flat": ([1, 2, 3, 4, 5, 6], "its mask is neither a list of polygons nor run lengths"),
    "words": ([["a", "b", 3, 4, 5, 6]], "its mask is neither a list of polygons nor run lengths"),
    "large": ([[10**400, 2, 3, 4, 5, 6]], "its mask is neither a list of polygons nor run lengths"),
    "two points": ([SQUARE, [1, 2, 3, 4]],
                   "a polygon of its mask has 2 points, not 3 points or more"),
    "odd": ([[1, 2, 3, 4, 5, 6, 7]],
            "a polygon of its mask has 7 coordinates, not 3 points or more"),
    "outside": ([[1, 2, 3, 4, 5, 1000]], "its mask reaches "),
    "left": ([SQUARE, [-1500, 2, 3, 4, 5, 6]], "its mask reaches 1500 pixels beyond its image of "),
    "nan": ([[1, 2, 3, float("nan"), 5, 6]], "its mask has a point that is not finite"),
    "no size": (rle([5], None), "the run lengths of its mask have no size"),
    "counts": (rle([1, "x"], [2, 3]), "the run lengths of its mask are not integers of at least 0"),
    "letters": (rle("é", [2, 3]), "the run lengths of its mask are not integers of at least 0"),
    "pixels": (rle([1, 2], [2, 3]), "the run lengths of its mask have 3 pixels, not 2 x 3"),
    "size": (rle([1, 2, 3], [2, 3]), "its mask is 3 x 2 pixels, its image "),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_mask_is_rejected_or_skipped(source, tmp_path, kind):
    value, message = BAD[kind]
    synthetic.change(source, set_mask(1000, value))
    problem = f"{synthetic.path(source)}: annotation 1000 (image 10): {message}"
    lines = check_rejected_or_skipped(Folders(), source, tmp_path, problem)
    assert lines[-1] == "notice: 1 images or annotations that cannot be used were left out"
    found, (polygons, _) = opened(tmp_path / "p")
    assert len(polygons.object_ends) == len(found.label) == 21


def test_run_lengths_are_allowed_only_for_crowds(source, tmp_path):
    content = json.loads(synthetic.path(source).read_text())
    image = synthetic.image(content, 10)
    whole = rle([3, image["height"] * image["width"] - 3], [image["height"], image["width"]])
    synthetic.change(source, set_mask(1000, whole))
    assert "its mask has run lengths, which are allowed only for crowds" in rejection(
        Folders(), source, tmp_path
    )
    synthetic.change(source, lambda c: synthetic.annotation(c, 1000).update(iscrowd=1))
    prepare(source, tmp_path / "p")
    _, (polygons, trainable) = opened(tmp_path / "p")
    assert not trainable[0]
    assert polygons.object_ends[0] == 0


def test_points_beyond_their_image_are_not_changed(source, tmp_path):
    synthetic.change(source, set_mask(1000, [[-5.75, 2, 3, 4, 5, 6]]))
    prepare(source, tmp_path / "p")
    assert opened(tmp_path / "p")[1][0].points[0].tolist() == [-5.75, 2]


@examples(60)
@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_compressed_run_lengths_of_cocos_tool_are_read(height, width, data):
    pixels = np.array(
        data.draw(st.lists(st.booleans(), min_size=height * width, max_size=height * width))
    )
    encoded = tool.encode(np.asfortranarray(pixels.reshape(height, width).astype(np.uint8)))
    flat = pixels.reshape(height, width).T.reshape(-1)
    found = masks.compact({"counts": encoded["counts"].decode(), "size": [height, width]})
    if not pixels.any():
        assert found is None
        return
    assert np.array_equal(np.repeat(np.arange(len(found.runs)) % 2, found.runs), flat)
    assert masks.run_lengths(found, height, width) == encoded["counts"]


@examples(80)
@given(
    json_values(10, st.sampled_from(["counts", "size"]))
    | st.lists(st.lists(st.floats(-2, 60), max_size=9), max_size=3),
    st.booleans(),
)
def test_any_mask_is_used_or_rejected_in_one_line(value, crowd):
    both = {"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}
    entry = {**both, "id": 1, "iscrowd": int(crowd), "segmentation": value}
    fine = {**both, "id": 2, "iscrowd": 0, "segmentation": [SQUARE]}
    content = {
        "images": [{"id": 1, "file_name": "1.jpg", "width": 50, "height": 40}],
        "categories": [{"id": 1, "name": "a"}], "annotations": [entry, fine],
    }  # fmt: skip
    found = coco.parse(Path("some.json"), json.dumps(content).encode())
    assert len(found.problems) == 2 - len(found.objects)
    assert found.objects["mask"][-1].lengths == (8,)
    assert all(
        line.startswith("some.json: annotation 1 (image 1): ") and line.isprintable()
        for line in found.problems
    )
    for mask in found.objects["mask"]:
        if mask is not None:
            masks.run_lengths(mask, 40, 50)


MISSING = {
    "missing": None, "null": [None], "no polygon": [[]], "object": [{}],
    "empty polygon": [[[]]], "polygons": [[[], []]],
    "no counts": [{"counts": [], "size": [2, 3]}], "no letters": [{"counts": "", "size": [2, 3]}],
    "no pixel": [{"counts": [6], "size": [2, 3]}],
}  # fmt: skip
"""Forms of a missing mask: a list with the value of `segmentation`, or None for a missing key."""


def remove_masks(source, value, wanted=lambda entry: True, folders=("train2017", "val2017")):
    """Remove the masks of some annotations."""

    def change(content):
        for entry in filter(wanted, content["annotations"]):
            if value is None:
                entry.pop("segmentation")
            else:
                entry["segmentation"] = value[0]

    for folder in folders:
        synthetic.change(source, change, folder)


@pytest.mark.parametrize("kind", MISSING)
@pytest.mark.parametrize("mixed", [False, True], ids=["boxes alone", "mixed"])
@pytest.mark.parametrize("skip_bad", [False, True])
def test_objects_without_a_mask_keep_their_boxes(source, tmp_path, kind, mixed, skip_bad):
    prepare(source, tmp_path / "with")
    remove_masks(source, MISSING[kind], lambda entry: not mixed or entry["id"] % 3 == 0)
    lines = prepare(source, tmp_path / "without", skip_bad=skip_bad)
    assert not any("left out" in line or "notice" in line for line in lines)
    for path in (tmp_path / "without").iterdir():
        assert (
            path.name == manifests.NAME
            or (tmp_path / "with" / path.name).read_bytes() == path.read_bytes()
        )
    assert {f"{split}_{name}.npy" for split in ("train", "val") for name in objects.TYPES} <= {
        path.name for path in (tmp_path / "without").iterdir()
    }
    counts = manifests.read(tmp_path / "without").counts
    entries = [
        e
        for f in ("train2017", "val2017")
        for e in json.loads(synthetic.path(source, f).read_text())["annotations"]
    ]
    missing = sum(not mixed or entry["id"] % 3 == 0 for entry in entries)
    assert counts["train_without_mask"] + counts["val_without_mask"] == missing
    assert (
        f"{masks.describe_missing(counts)}: Mask R-CNN cannot use this data set, SSD can" in lines
    )
    assert "train_segmented" not in counts
    Folders().verify(tmp_path / "without")


@pytest.mark.parametrize("folder", ["train2017", "val2017"])
def test_a_split_without_masks_cannot_be_used_by_mask_rcnn(source, tmp_path, folder):
    remove_masks(source, [[]], folders=[folder])
    prepare(source, tmp_path / "p")
    split = folder.removesuffix("2017")
    counts = manifests.read(tmp_path / "p").counts
    assert counts[f"{split}_without_mask"] == counts[f"{split}_objects"] > 0
    assert (
        sum(counts[f"{name}_without_mask"] for name in ("train", "val"))
        == counts[f"{split}_objects"]
    )
    assert "0 of " in masks.describe_missing(counts)


def test_empty_polygons_of_a_mask_are_ignored(source, tmp_path):
    prepare(source, tmp_path / "p")
    content = json.loads(synthetic.path(source).read_text())
    polygons = synthetic.annotation(content, 1000)["segmentation"]
    synthetic.change(source, set_mask(1000, [[], *polygons, []]))
    prepare(source, tmp_path / "q")
    assert len({manifests.read(tmp_path / name).fingerprint for name in ("p", "q")}) == 1


def write_2014(source, root):
    """Write the same images in the layout of COCO 2014.

    `val2014` contains the images of val2017 and two training images, `train2014` the rest.
    """
    content = {
        name: json.loads(synthetic.path(source, name).read_text())
        for name in ("train2017", "val2017")
    }
    moved = (20, 110)
    parts = {
        "train2014": ("train2017", "train2014", lambda image: image not in moved),
        "valminusminival2014": ("train2017", "val2014", lambda image: image in moved),
        "minival2014": ("val2017", "val2014", lambda image: True),
    }
    (root / "annotations").mkdir(parents=True)
    for name, (split, folder, wanted) in parts.items():
        (root / folder).mkdir(exist_ok=True)
        some = {
            **content[split],
            "images": [image for image in content[split]["images"] if wanted(image["id"])],
            "annotations": [
                entry for entry in content[split]["annotations"] if wanted(entry["image_id"])
            ],
        }
        synthetic.path(root, name).write_text(json.dumps(some))
        for image in some["images"]:
            shutil.copy(source / split / image["file_name"], root / folder)
    return root


def test_coco_2014_has_the_same_images_with_different_names(source, tmp_path):
    root = write_2014(source, tmp_path / "coco2014")
    prepare(source, tmp_path / "p17")
    prepare(root, tmp_path / "p14", Coco2014)
    first, second = manifests.read(tmp_path / "p17"), manifests.read(tmp_path / "p14")
    assert (second.dataset, second.counts) == ("coco2014", first.counts)
    for path in (tmp_path / "p17").glob("*.npy"):
        if "names" not in path.name and "ends" not in path.name:
            assert path.read_bytes() == (tmp_path / "p14" / path.name).read_bytes(), path.name
    images = index.read(tmp_path / "p14", "train", root, 10)
    assert images.name(1) == "val2014/000000000020.jpg"
    assert images.name(0) == "train2014/000000000010.jpg"
    assert "counts differ from the published coco2014" in second.notes[0]
    Coco2014().verify(tmp_path / "p14")


def test_problems_specific_to_coco_2014_are_rejected(source, tmp_path):
    root = write_2014(source, tmp_path / "coco2014")
    synthetic.change(
        root,
        lambda content: content["images"].append(
            dict(synthetic.image(content, 20), id=10, file_name="10.jpg")
        ),
        "valminusminival2014",
    )
    with pytest.raises(
        ValueError, match=r"valminusminival2014.json: image 10 is also in .*train2014.json$"
    ):
        prepare(root, tmp_path / "p", Coco2014)
    synthetic.path(root, "valminusminival2014").unlink()
    with pytest.raises(
        ValueError, match=r"2014.json: No such file .*\. Expected: train2014, val2014 and ann"
    ):
        prepare(root, tmp_path / "p", Coco2014)
