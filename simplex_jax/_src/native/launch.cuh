// How kernels are started and find the shared memory of their block. Tests that run them without a GPU
// replace this file.
#pragma once

#include <cuda_runtime.h>

namespace simplex::cuda {

template <typename... Parameters, typename... Arguments>
cudaError_t launch(cudaStream_t stream, void (*kernel)(Parameters...), unsigned blocks,
                   dim3 threads, int64_t shared, Arguments... arguments) {
  kernel<<<blocks, threads, shared, stream>>>(arguments...);
  return cudaGetLastError();
}

// Returns 0 if this GPU can run a kernel, which may have been compiled for other ones.
template <typename Kernel>
int probe(Kernel kernel) {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, kernel);
}

__device__ __forceinline__ int4* shared_memory() {
  extern __shared__ int4 memory[];
  return memory;
}

}  // namespace simplex::cuda
