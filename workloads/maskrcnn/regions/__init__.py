"""Region selection between the two stages: proposals, sampled regions, and detections.

These functions run on the host in NumPy. All three frameworks call them, each with the framework's
non-maximum suppression, so that they compute on the same regions.
"""
