"""Decoding a part of a JPEG: seek points that data preparation notes, and smaller JPEGs made with them."""
