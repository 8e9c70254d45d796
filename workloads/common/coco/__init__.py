"""Framework-independent COCO support for detection workloads.

The modules read annotations and objects, prepare the data set, compute average precision, and draw
the images of the demo.
"""
