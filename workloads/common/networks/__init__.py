"""Framework-independent networks: layer lists, initial values, pretrained weights from files."""
