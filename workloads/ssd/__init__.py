"""SSD-ResNet34-300: single-stage object detection."""
