"""Runs in PyTorch's environment: Mask R-CNN's cases with torchvision's modules in float64.

This is an independent reference. It consists of torchvision's Bottleneck with the stride moved, its
frozen norm, pyramid, RPN head, box head and mask head under its names, and `roi_align` on a single
region at a time. Plain NumPy connects the modules, and positive regions are selected. The losses
follow the workload's rule page.
"""

import json
from collections import OrderedDict

import numpy as np
import torch
import torch.nn.functional as F
from pycocotools import mask as coco_mask
from torch import nn
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.mask_rcnn import MaskRCNN, MaskRCNNHeads, MaskRCNNPredictor
from torchvision.models.detection.rpn import RPNHead, concat_box_prediction_layers
from torchvision.models.resnet import Bottleneck
from torchvision.ops import FeaturePyramidNetwork, roi_align
from torchvision.ops.feature_pyramid_network import LastLevelMaxPool
from torchvision.ops.misc import FrozenBatchNorm2d

from testing.synthetic_maskrcnn import by_anchor, torchvision_name
from tests.workloads.maskrcnn import regions_plain as plain
from workloads.maskrcnn import anchors, network
from workloads.maskrcnn.settings import REFERENCE_MODEL


def norm(layers):
    """Return the constructor of torchvision's frozen norm without ε, or of PyTorch's live norm."""
    return (
        (lambda channels: FrozenBatchNorm2d(channels, eps=0)) if layers.frozen else nn.BatchNorm2d
    )


def body(model, make_norm):
    """Return a trunk of torchvision's bottlenecks with the stride on the first 1×1."""
    width = model["trunk_width"]
    found = nn.Module()
    found.conv1, found.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), make_norm(width)
    channels = width
    for stage, count in enumerate(model["trunk_blocks"]):
        planes, stride, blocks = width << stage, 2 if stage else 1, []
        for number in range(count):
            first, shortcut = stride if number == 0 else 1, None
            if number == 0:
                shortcut = nn.Sequential(
                    nn.Conv2d(channels, 4 * planes, 1, stride, bias=False), make_norm(4 * planes)
                )
            block = Bottleneck(channels, planes, 1, shortcut, norm_layer=make_norm)
            block.conv1.stride = (first, first)
            blocks.append(block)
            channels = 4 * planes
        setattr(found, f"layer{stage + 1}", nn.Sequential(*blocks))
    return found


class Reference(nn.Module):
    """torchvision's modules under torchvision's names."""

    def __init__(self, workload):
        super().__init__()
        self.model, self.layers, self.workload = workload.settings.model, workload.network, workload
        stages, channels = len(self.model["trunk_blocks"]), self.model["fpn_channels"]
        self.backbone, self.rpn, self.roi_heads = nn.Module(), nn.Module(), nn.Module()
        self.backbone.body = body(self.model, norm(self.layers))
        inputs = [4 * self.model["trunk_width"] << stage for stage in range(stages)]
        self.backbone.fpn = FeaturePyramidNetwork(inputs, channels, LastLevelMaxPool())
        self.rpn.head = RPNHead(channels, 3)
        heads, classes, features = (
            self.roi_heads,
            self.layers.classes + 1,
            self.model["box_features"],
        )
        heads.box_head = TwoMLPHead(channels * self.model["box_pool"] ** 2, features)
        heads.box_predictor = FastRCNNPredictor(features, classes)
        between = self.model["mask_channels"]
        heads.mask_head = MaskRCNNHeads(channels, [between] * self.model["mask_convolutions"], 1)
        heads.mask_predictor = MaskRCNNPredictor(between, between, classes)

    def load(self, values):
        """Load parameters, constants and statistics by the suite's names."""
        mine = {
            torchvision_name(name): torch.from_numpy(np.float64(value))
            for name, value in values.items()
        }
        missing, unexpected = self.load_state_dict(mine, strict=False)
        assert not unexpected, unexpected
        assert all("running" in name or "num_batches" in name for name in missing), missing

    def features(self, batch):
        """Return the maps of the levels, RPN's logits (B, A) and deltas (B, A, 4)."""
        images, sizes = (
            np.float64(batch.arrays["image"][..., ::-1]) - network.BGR_MEANS,
            batch.arrays["size"],
        )
        for image, (height, width) in zip(images, sizes, strict=True):
            image[height:], image[:, width:] = 0, 0
        trunk, x = self.backbone.body, torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()
        x = F.max_pool2d(F.relu(trunk.bn1(trunk.conv1(x))), 3, 2, 1)
        maps = OrderedDict()
        for number in range(len(self.model["trunk_blocks"])):
            x = maps[str(number)] = getattr(trunk, f"layer{number + 1}")(x)
        levels = list(self.backbone.fpn(maps).values())
        logits, deltas = concat_box_prediction_layers(*self.rpn.head(levels))
        count = len(images)
        return levels[:-1], logits.view(count, -1), deltas.view(count, -1, 4)

    def proposals(self, batch, logits, deltas, training):
        """Return the proposals of each image, computed in plain NumPy."""
        late, model = 0 if training else 1, self.model
        most = self.workload.options.num_image_candidates if training else model["proposals_test"]
        every = [
            np.float64(level)
            for level in anchors.level_anchors(model, *batch.arrays["image"].shape[1:3])
        ]
        limits = (
            model["proposals_before_nms"][late],
            model["proposals_after_nms"][late],
            most,
            training,
        )
        found = logits.detach().numpy(), deltas.detach().numpy()
        return plain.propose(*found, every, batch.arrays["size"], *limits)

    def pooled(self, maps, image, box, side):
        """Return the pooled values (1, C, side, side) of a region."""
        size, base = self.model["roi_level_size"], self.model["roi_level_base"]
        level = plain.level(box, size, base, len(maps))
        row = torch.tensor([[image, *box]], dtype=torch.float64)
        return roi_align(maps[level], row, side, 1 / self.model["strides"][level], 2)

    def box_outputs(self, maps, regions):
        """Return logits (n, C + 1) and deltas (n, C + 1, 4) of regions (image, box)."""
        x = torch.cat(
            [self.pooled(maps, image, box, self.model["box_pool"]) for image, box in regions]
        )
        logits, deltas = self.roi_heads.box_predictor(self.roi_heads.box_head(x))
        return logits, deltas.view(len(logits), -1, 4)

    def mask_outputs(self, maps, regions):
        """Return mask logits (n, C + 1, 28, 28) of regions (image, box)."""
        x = torch.cat(
            [self.pooled(maps, image, box, self.model["mask_pool"]) for image, box in regions]
        )
        return self.roi_heads.mask_predictor(self.roi_heads.mask_head(x))

    def losses(self, batch):
        """Return the five losses by name, the proposals that they used, and the maps."""
        arrays, values = batch.arrays, self.workload.settings
        maps, objectness, deltas = self.features(batch)
        proposed = self.proposals(batch, objectness, deltas, True)
        rules = (
            int(self.model["rois"]),
            int(self.model["rois"] * self.model["roi_positive_fraction"]),
        )
        epoch = int(arrays["epoch"][0])
        learned = plain.sample(
            proposed, arrays["box"], arrays["label"], arrays["number"], epoch, values.seed, *rules
        )
        rows = [(image, *region) for image, of_image in enumerate(learned) for region in of_image]
        logits, moves = self.box_outputs(maps, [(image, box) for image, box, *_ in rows])
        label = torch.tensor([kind for _, _, kind, *_ in rows])
        positive = [number for number, row in enumerate(rows) if row[2] > 0]
        found = {
            **self.rpn_losses(arrays, objectness, deltas),
            "class": F.cross_entropy(logits, label),
        }
        found["box"] = found["mask"] = torch.zeros((), dtype=torch.float64)
        if positive:
            wanted = torch.tensor(np.array([rows[number][3] for number in positive]))
            found["box"] = F.smooth_l1_loss(
                moves[positive, label[positive]], wanted, reduction="sum"
            ) / len(rows)
            of_masks = self.mask_outputs(maps, [rows[number][:2] for number in positive])
            targets = torch.tensor(
                np.array([self.target(arrays, rows[number]) for number in positive])
            )
            selected = of_masks[range(len(positive)), label[positive]]
            found["mask"] = F.binary_cross_entropy_with_logits(selected, targets)
        return found, proposed, maps

    def rpn_losses(self, arrays, objectness, deltas):
        """Return the losses of RPN over the sampled anchors."""
        used = arrays["anchor_weight"] > 0
        image, slot = np.nonzero(used)
        anchor, wanted = arrays["anchor"][image, slot], arrays["anchor_label"][image, slot]
        wanted = torch.from_numpy(np.float64(wanted))
        is_object, offset = (
            wanted > 0,
            torch.from_numpy(np.float64(arrays["anchor_offset"][image, slot])),
        )
        moves = deltas[image, anchor][is_object] - offset[is_object]
        beta, size = 1 / 9, moves.abs()
        each = torch.where(size < beta, size**2 / (2 * beta), size - beta / 2)
        entropy = F.binary_cross_entropy_with_logits(objectness[image, anchor], wanted)
        return {"objectness": entropy, "rpn_box": each.sum() / used.sum()}

    def target(self, arrays, row):
        """Return the matched object's polygons inside the region, drawn by pycocotools."""
        image, box, _, _, matched = row
        number, side = image * arrays["box"].shape[1] + matched, 2 * self.model["mask_pool"]
        first = arrays["object_ends"][number - 1] if number else 0
        polygons = []
        for place in range(first, arrays["object_ends"][number]):
            start = arrays["polygon_ends"][place - 1] if place else 0
            points = np.float64(arrays["points"][start : arrays["polygon_ends"][place]])
            width, height = max(box[2] - box[0], 1), max(box[3] - box[1], 1)
            polygons.append(((points - box[:2]) * [side / width, side / height]).ravel().tolist())
        return np.float64(
            coco_mask.decode(coco_mask.merge(coco_mask.frPyObjects(polygons, side, side)))
        )

    def detected(self, batch):
        """Return a list of (box, score, label, mask) for each image."""
        maps, objectness, deltas = self.features(batch)
        proposed = self.proposals(batch, objectness, deltas, False)
        proposed = [boxes for boxes, _ in proposed]
        regions = [(image, box) for image, boxes in enumerate(proposed) for box in boxes]
        logits, moves = self.box_outputs(maps, regions)
        counts = [len(boxes) for boxes in proposed]
        split = [
            part.numpy() for values in (logits.softmax(1), moves) for part in values.split(counts)
        ]
        found = []
        for image, boxes in enumerate(proposed):
            outputs = split[image][None], split[len(counts) + image][None]
            (best,) = plain.detect(
                [boxes], *outputs, batch.arrays["size"][image : image + 1], self.model["detections"]
            )
            of_masks = self.mask_outputs(maps, [(image, box) for box, *_ in best]).sigmoid()
            found.append(
                [(*row, mask[row[2]].numpy()) for row, mask in zip(best, of_masks, strict=True)]
            )
        return found


def computed(case):
    """Return results of a training batch and of an evaluation batch.

    They are `loss/NAME`, `gradient/NAME` and `proposals` in training, and `box`, `score`, `label`,
    `mask` and `count` in evaluation.
    """
    from testing import synthetic_maskrcnn as synthetic

    torch.set_num_threads(1)
    workload = synthetic.workload(case, "pytorch")
    reference, batch = Reference(workload).double(), synthetic.batch(workload, 0)
    weights = synthetic.weights(workload)
    reference.load({**weights, **synthetic.statistics(workload)})
    with torch.no_grad():
        detected = reference.eval().detected(batch)
    rows = [row for of_image in detected for row in of_image]
    found = {
        name: np.array([row[i] for row in rows])
        for i, name in enumerate(("box", "score", "label", "mask"))
    }
    found["count"] = np.array([len(of_image) for of_image in detected])
    losses, proposed, _ = reference.train().losses(batch)
    sum(losses.values()).backward()
    parameters = dict(reference.named_parameters())
    for name in network.shapes(workload.network):
        if not workload.parameter_rule(name).frozen:
            found[f"gradient/{name}"] = parameters[torchvision_name(name)].grad.numpy()
    found |= {f"loss/{name}": value.detach().numpy() for name, value in losses.items()}
    return {**found, "proposals": by_anchor(proposed)}


def names(classes):
    """Return facts about torchvision's MaskRCNN with frozen norms as JSON.

    They are: names and shapes, the number of trained values, the parameters that are not trained,
    and the suite's names mapped to torchvision's.
    """
    with torch.device("meta"):
        backbone = resnet_fpn_backbone(
            backbone_name="resnet50", weights=None, trainable_layers=3, norm_layer=FrozenBatchNorm2d
        )
        model = MaskRCNN(backbone, num_classes=classes)
    parameters = dict(model.named_parameters())
    found = {
        "parameters": {name: list(value.shape) for name, value in parameters.items()},
        "buffers": {name: list(value.shape) for name, value in model.named_buffers()},
        "trained": sum(value.numel() for value in parameters.values() if value.requires_grad),
        "frozen": [name for name, value in parameters.items() if not value.requires_grad],
        "renamed": {
            name: torchvision_name(name) for name in network.shapes(network.build(REFERENCE_MODEL))
        },
    }
    return {"names": json.dumps(found)}
