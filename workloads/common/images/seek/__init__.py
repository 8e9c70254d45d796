"""Decoding a part of a JPEG without reading what lies before and beside it.

Preparation of a data set notes seek points of its training images (`make_points`, in the folder `seek` beside the index); a
run reads them (`read_points`) and cuts a smaller JPEG out of a file for every crop (`cut_excerpt`), with the same pixels.

What is in here uses files and libjpeg-turbo, and knows nothing of `images.jpeg`, which decodes the excerpts. Others import
from this package alone.
"""

from workloads.common.images.seek.excerpt import Excerpt, cut_excerpt
from workloads.common.images.seek.prepared import SeekPoints, make_points, read_points, verify_points

__all__ = ["Excerpt", "SeekPoints", "cut_excerpt", "make_points", "read_points", "verify_points"]
