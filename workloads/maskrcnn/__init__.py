"""Mask R-CNN R50-FPN: object detection and instance segmentation on COCO."""
