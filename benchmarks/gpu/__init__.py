"""The first thirty minutes on a GPU, in four stages: right, learns, fast, why. `make gpu`."""
