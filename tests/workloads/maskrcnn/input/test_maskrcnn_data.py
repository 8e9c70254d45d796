"""Batches of Mask R-CNN: geometry, targets, shapes, shares, and damaged files.

Geometry is compared with plain arithmetic, targets with plain anchors.
"""

import cv2
import numpy as np
import pytest
from PIL import Image

from suite.catalog.sets import named_sets
from testing import synthetic as common
from tests.workloads.common.coco import synthetic_coco as synthetic
from tests.workloads.common.coco.synthetic_coco import blank, copies, prepare, validation
from tests.workloads.maskrcnn import synthetic_masks
from tests.workloads.maskrcnn.input import rpn_plain
from tests.workloads.resnet50.synthetic_images import place
from workloads.api import DatasetInfo
from workloads.common.coco import annotations as coco
from workloads.common.images.jpeg import BadImage
from workloads.common.images.resize import bounded_size
from workloads.maskrcnn.input.data import SampleData
from workloads.maskrcnn.input.dataset_info import load_dataset_info
from workloads.maskrcnn.input.synthetic import SyntheticSampleData
from workloads.maskrcnn.settings import DEMO_MODEL, REFERENCE_MODEL
from workloads.maskrcnn.workload import MaskRCNN

MODEL = {**DEMO_MODEL, "classes": 3, "padded_shapes": [[96, 160], [64, 160], [160, 96], [160, 64]]}
IMAGES, WITH_OBJECTS, UNUSED = 25, 23, (5, 110)
"""Numbers of training images, and of images with usable objects, and ids of unused images.

The objects of the unused images are a crowd, or a pixel wide.
"""


def write(root):
    """Write 25 training images.

    An image has only a crowd, and an image has only a box with a width of one pixel.
    """
    synthetic_masks.write(root, IMAGES, 13)

    def change(content):
        mine = [entry for entry in content["annotations"] if entry["image_id"] == 50]
        content["annotations"] = [
            entry for entry in content["annotations"] if entry["image_id"] not in (50, 60)
        ]
        image = synthetic.image(content, 50)
        crowd = synthetic_masks.crowd(image["height"], image["width"])
        content["annotations"].append(
            {**mine[0], "iscrowd": 1, "segmentation": crowd, "bbox": [3, 5, 37, 25]}
        )
        thin = {"bbox": [4, 5, 1, 9], "segmentation": [[4, 5, 5, 5, 5, 14, 4, 14]]}
        content["annotations"].append({**mine[0], "id": 6000, "image_id": 60, **thin})

    synthetic.change(root, change)
    return root


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write(tmp_path_factory.mktemp("maskrcnn") / "images")


@pytest.fixture(scope="module")
def prepared(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared") / "p"
    prepare(source, folder)
    return folder


def settings(folder, batch=6, devices=1, model=MODEL, **options):
    chosen = common.settings(
        "maskrcnn", devices=devices, global_batch_size=batch, dataset="dummy",
        data_dir=str(folder), model=model, targets={"BBOX": 0.3, "SEGM": 0.3},
        hyperparameters=common.hyperparameters(named_sets(MaskRCNN)["demo"]), seed=4,
        options={"data_threads": 2, **options},
    )  # fmt: skip
    return chosen, load_dataset_info(chosen)


def opened(folder, where=None, batch=6, **options):
    chosen = where or place(0, range(1), 1)
    return SampleData(*settings(folder, batch, chosen.num_replicas, **options), chosen, seed=4)


@pytest.fixture(scope="module")
def epoch(prepared):
    """Return an epoch's batches and their input pipeline."""
    data = opened(prepared)
    steps = [step[0] for step in copies(data, 0, data.steps_per_epoch)]
    yield data, steps
    data.close()


def test_counts(prepared):
    _, dataset_info = settings(prepared)
    assert (dataset_info.train_samples, dataset_info.evaluation_samples) == (21, 13)
    assert dataset_info.sizes["train_indexed"] == WITH_OBJECTS
    assert dataset_info.sizes["objects_per_image_most"] == 3  # the fourth is a crowd
    workload = MaskRCNN(*settings(prepared))
    assert workload.steps_per_epoch == opened(prepared).steps_per_epoch
    assert dataset_info.sizes["train_96x160"] + dataset_info.sizes["train_160x96"] == 21


def test_an_epoch_has_every_image_with_objects_once_in_batches_of_an_orientation(epoch):
    data, steps = epoch
    seen = []
    for arrays in steps:
        images = arrays["number"]
        lying = data.images.width[images] > data.images.height[images]
        assert lying.all() or not lying.any()
        seen += images.tolist()
    ids = data.images.label[np.unique(seen)]
    assert len(ids) == 21
    assert not {50, 60} & set(ids.tolist())
    assert {50, 60} < set(data.images.label.tolist())


def test_batches_have_the_smallest_shape_that_holds_their_images(epoch):
    _, steps = epoch
    shapes = set()
    for arrays in steps:
        height, width = arrays["image"].shape[1:3]
        most = arrays["size"].max(0)
        fitting = [(h, w) for h, w in MODEL["padded_shapes"] if h >= most[0] and w >= most[1]]
        assert (height, width) == min(fitting, key=lambda shape: shape[0] * shape[1])
        shapes.add((height, width))
        for image, (down, across) in zip(arrays["image"], arrays["size"], strict=True):
            assert not image[down:].any()
            assert not image[:, across:].any()
            assert image[:down, :across].any()
    assert len(shapes) >= 2


def test_the_logged_padding_fill_equals_that_of_the_batches(prepared, epoch):
    _, steps = epoch
    filled = sum(int(arrays["size"].prod(1).sum()) for arrays in steps)
    padded = sum(arrays["image"].size // 3 for arrays in steps)
    workload = MaskRCNN(*settings(prepared))
    assert workload.log_keys()["input_padding_fill"] == pytest.approx(filled / padded, abs=6e-4)
    assert 0.5 < filled / padded < 1


def of_file(source, image):
    """Return an image's trained objects from the annotation file, in order."""
    path = synthetic.path(source)
    found = coco.parse(path, path.read_bytes())
    rows = found.objects[found.images["id"][found.objects["image"]] == image]
    return [
        (row["box"], row["label"], row["mask"])
        for row in rows
        if not row["crowd"] and row["box"][2:].min() > 1
    ]


def test_pixels_boxes_and_polygons_follow_plain_arithmetic(source, epoch):
    """Check images resized as in Pillow and mirrored at W - x - 1, in float32."""
    data, steps = epoch
    flips = 0
    for arrays in steps:
        polygon_starts = [0, *arrays["polygon_ends"].tolist()]
        object_starts = [0, *arrays["object_ends"].tolist()]
        for slot, number in enumerate(arrays["number"]):
            down, across = arrays["size"][slot].tolist()
            whole = cv2.cvtColor(cv2.imread(data.images.path(number)), cv2.COLOR_BGR2RGB)
            height, width = whole.shape[:2]
            assert (down, across) == size_of_reference(height, width, 96, 128)
            pixels = np.asarray(
                Image.fromarray(whole).resize((across, down), Image.Resampling.BILINEAR)
            ).astype(int)
            found = arrays["image"][slot, :down, :across].astype(int)
            flip = bool(np.abs(found - pixels[:, ::-1]).max() <= 2)
            flips += flip
            assert flip or np.abs(found - pixels).max() <= 2
            entries = of_file(source, data.images.label[number])
            assert (arrays["label"][slot] > 0).sum() == len(entries)
            for place_, (box, label, mask) in enumerate(entries):
                x, y = across / width, down / height
                corners = np.array(
                    [box[0] * x, box[1] * y, (box[0] + box[2] - 1) * x, (box[1] + box[3] - 1) * y]
                )
                if flip:
                    corners[[0, 2]] = across - corners[[2, 0]] - 1
                assert arrays["box"][slot, place_] == pytest.approx(corners, rel=1e-5, abs=1e-4)
                assert arrays["label"][slot, place_] == label
                flat = slot * 3 + place_
                mine = range(object_starts[flat], object_starts[flat + 1])
                assert len(mine) == len(mask.lengths)
                points = np.concatenate(
                    [arrays["points"][polygon_starts[p] : polygon_starts[p + 1]] for p in mine]
                )
                expected = np.array(mask.coordinates).reshape(-1, 2) * [x, y]
                if flip:
                    expected[:, 0] = across - expected[:, 0] - 1
                np.testing.assert_allclose(points, expected, rtol=1e-5, atol=1e-4)
    assert 3 < flips < 20


def test_scaled_decoding_changes_values_by_one(prepared, epoch):
    """Check that only images that grow differ, which OpenCV resizes."""
    _, steps = epoch
    data = opened(prepared, decode="scaled")
    ((found,),) = copies(data, 0, 1)
    data.close()
    difference = np.abs(found["image"].astype(int) - steps[0]["image"])
    grows = (
        steps[0]["size"] >= np.stack([data.images.height, data.images.width], 1)[found["number"]]
    ).all(1)
    assert grows.any()
    assert difference[grows].max() == 1
    assert difference[grows].mean() < 0.3
    for name in steps[0]:
        if name != "image":
            np.testing.assert_array_equal(found[name], steps[0][name])


def size_of_reference(height, width, shorter, longest):
    """Return the result of maskrcnn_benchmark's `Resize.get_size`, copied from there."""
    least, most = float(min(width, height)), float(max(width, height))
    size = shorter
    if most / least * size > longest:
        size = round(longest * least / most)
    if (width <= height and width == size) or (height <= width and height == size):
        return height, width
    return (
        (int(size * height / width), size) if width < height else (size, int(size * width / height))
    )


def test_sizes_are_the_references_for_all_images_of_a_megapixel():
    rng = np.random.default_rng(0)
    height, width = rng.integers(1, 1500, (2, 20_000))
    keep = np.maximum(height, width) < 90 * np.minimum(height, width)
    for shorter, longest in ((800, 1333), (96, 128)):
        found = np.stack(bounded_size(height[keep], width[keep], shorter, longest), 1)
        sizes = zip(height[keep].tolist(), width[keep].tolist(), strict=True)
        np.testing.assert_array_equal(
            found, [size_of_reference(*size, shorter, longest) for size in sizes]
        )
    assert [int(side) for side in bounded_size(480, 640, 800, 1333)] == [800, 1066]
    assert [int(side) for side in bounded_size(640, 427, 800, 1333)] == [1199, 800]
    assert [int(side) for side in bounded_size(300, 640, 800, 1333)] == [625, 1333]


def test_batches_of_a_replica_do_not_depend_on_the_processes(prepared):
    together = opened(prepared, place(0, range(3), 3))
    expected = copies(together, 1, 6)
    together.close()
    parts = [
        opened(prepared, place(0, range(2), 3), data_threads=3),
        opened(prepared, place(1, range(2, 3), 3)),
    ]
    steps = [copies(data, 1, 6) for data in parts]
    for data in parts:
        data.close()
    for step in range(5):
        for share, wanted in zip(steps[0][step] + steps[1][step], expected[step], strict=True):
            assert share.keys() == wanted.keys()
            for name, values in wanted.items():
                np.testing.assert_array_equal(share[name], values)
            assert len(share["object_ends"]) == 2 * 3


def test_every_validation_image_once_and_padding_marked(prepared):
    seen = []
    for arrays, slot, pixels in validation(
        lambda where: opened(prepared, where, evaluation_batch_size=3)
    ):
        seen.append(int(arrays["number"][slot]))
        assert list(arrays["image"].shape[1:3]) in MODEL["padded_shapes"]
        down, across = arrays["size"][slot].tolist()
        assert (down, across) == size_of_reference(*pixels.shape[:2], 96, 128)
        resized = Image.fromarray(pixels).resize((across, down), Image.Resampling.BILINEAR)
        assert (
            np.abs(arrays["image"][slot, :down, :across].astype(int) - np.asarray(resized)).max()
            <= 2
        )
    assert sorted(seen) == list(range(13))


def test_a_damaged_image_ends_the_run_or_is_replaced_with_its_targets(source, tmp_path):
    folder = tmp_path / "p"
    prepare(write(tmp_path / "images"), folder)
    data = opened(folder, skip_bad=True)
    ((before,),) = copies(data, 0, 1)
    broken = int(before["number"][3])
    path = data.images.path(broken)
    blank(path)
    ((after,),) = copies(data, 0, 1)
    unchanged = [0, 1, 2, 4, 5]
    for name in (
        "image",
        "size",
        "number",
        "box",
        "label",
        "anchor",
        "anchor_offset",
        "anchor_weight",
    ):
        np.testing.assert_array_equal(before[name][unchanged], after[name][unchanged])
    replacement = int(after["number"][3])
    assert replacement == (broken + 1) % WITH_OBJECTS
    shape = after["image"].shape[1:3]
    drawn = data.draw(after["number"], 0, shape)
    np.testing.assert_array_equal(after["points"], drawn.polygons.points)
    assert after["object_ends"][-1] == len(after["polygon_ends"])
    boxes = after["box"][3, after["label"][3] > 0]
    plain = rpn_plain.anchors(MODEL, *shape)
    labels, owner = rpn_plain.labels(plain, boxes, *after["size"][3].tolist())
    anchor = after["anchor"][3, after["anchor_weight"][3] > 0]
    np.testing.assert_array_equal(after["anchor_label"][3, : len(anchor)], labels[anchor])
    positive = anchor[labels[anchor] == 1]
    offsets = rpn_plain.offsets(boxes[owner[positive]], plain[positive])
    np.testing.assert_allclose(
        after["anchor_offset"][3, : len(positive)], offsets, rtol=1e-5, atol=1e-5
    )
    data.close()
    strict = opened(folder)
    with pytest.raises(BadImage, match=f"{path}: neither a JPEG nor a PNG file"):
        list(strict.train(0, 1))
    strict.close()


def test_an_image_that_fits_no_shape_is_refused_in_one_line(prepared):
    message = r"does not fit any padded shape\. Set workload.padded_shapes=64x96\+96x64\+"
    with pytest.raises(ValueError, match=message):
        settings(prepared, model={**MODEL, "padded_shapes": [[64, 96], [96, 64]]})


@pytest.mark.parametrize(
    ("folders", "every", "message"),
    [
        (
            ("train2017", "val2017"),
            1,
            "22 of 22 training objects and 13 of 13 validation objects have no mask",
        ),
        (("val2017",), 1, "0 of 22 training objects and 13 of 13 validation objects have no mask"),
        (
            ("train2017",),
            22,
            "1 of 22 training objects and 0 of 13 validation objects have no mask",
        ),
    ],
)
def test_data_without_all_masks_are_refused(tmp_path, folders, every, message):
    root = synthetic.write(tmp_path / "images", 12, 9)
    for folder in folders:
        synthetic.change(
            root,
            lambda content: [e.pop("segmentation") for e in content["annotations"][::every]],
            folder,
        )
    prepare(root, tmp_path / "p")
    with pytest.raises(
        ValueError,
        match=(
            rf"p: {message}, but Mask R-CNN needs a mask for each object\. .* workload=ssd, which"
            r" needs only boxes"
        ),
    ):
        settings(tmp_path / "p")


@pytest.mark.parametrize(("model", "most"), [(MODEL, 3), (REFERENCE_MODEL, 93)])
def test_synthetic_batches_have_the_real_shapes(prepared, model, most):
    chosen = common.settings(
        "maskrcnn", devices=2, global_batch_size=4, dataset="", model={**model, "classes": 3}
    )
    dataset_info = DatasetInfo(100, 10, {"classes": 3, "objects_per_image_most": most}, "synthetic")
    data = SyntheticSampleData(chosen, dataset_info, place(0, range(2), 2), 1)
    real = {
        name: array.dtype for name, array in next(opened(prepared).train(0, 1))[0].arrays.items()
    }
    for number, step in enumerate(data.train(0, 4)):
        assert len(step) == 2
        for batch in step:
            arrays = batch.arrays
            assert {name: array.dtype for name, array in arrays.items()} == real
            shape = arrays["image"].shape[1:3]
            assert list(shape) == model["padded_shapes"][number % len(model["padded_shapes"])]
            assert arrays["box"].shape == (2, most, 4)
            assert (arrays["label"] > 0).sum() == 2 * min(7, most)
            assert arrays["object_ends"][-1] == len(arrays["polygon_ends"]) == 2 * min(7, most)
            assert arrays["polygon_ends"][-1] == len(arrays["points"])
            assert arrays["anchor_label"].sum() >= 4
            assert (arrays["box"].max(axis=(0, 1))[2:] < shape[::-1]).all()
            assert arrays["points"].min() >= 0
    assert list(data.evaluation()) == []
