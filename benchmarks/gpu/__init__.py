"""The first thirty minutes on a GPU, in five stages: right, learns, fast, fed, why. `make gpu`."""
