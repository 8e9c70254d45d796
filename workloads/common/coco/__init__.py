"""COCO without a framework: annotations, objects, the prepared data set, average precision, the demo's images.

For detection workloads.
"""
