"""What a detector decides between its two halves, on the host in NumPy: proposals, the regions that are learned, detections.

All three frameworks call these functions with their own non-maximum suppression, so they compute on the same regions.
"""
