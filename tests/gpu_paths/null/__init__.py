"""A CUDA device that computes nothing, in place of CUDA's libraries.

PyTorch's own CUDA code runs on it: streams, allocator, pinned memory, autograd's threads,
DistributedDataParallel. Kernels do nothing: values are garbage, times mean nothing; launches,
waits, bytes, memory and collectives are counted. What ran on it has not run on a GPU.
"""
