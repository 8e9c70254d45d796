"""Framework-independent networks: layer lists, initial values, and pretrained weights."""
