# The CUDA kernels: kernels/<op>/*.cu without tensor headers. Without a CUDA
# compiler the library holds the twin kernels/no_cuda.cpp instead.
