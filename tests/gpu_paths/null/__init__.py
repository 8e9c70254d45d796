"""A stub of CUDA's libraries, whose device computes no results: the null device.

PyTorch's CUDA code runs on it: streams, the allocator, pinned memory, autograd's threads, and
DistributedDataParallel. Kernels have no effect, so values and times are meaningless. Launches,
synchronizations, bytes, memory and collectives are counted. A run on the null device does not show
that the code works on a GPU.
"""
