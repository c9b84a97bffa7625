// The file of the same name for kernels that run without a GPU, see cuda_runtime.h.
#pragma once

#include <cuda_runtime.h>

namespace simplex::cuda {

template <typename... Parameters, typename... Arguments>
cudaError_t launch(cudaStream_t, void (*kernel)(Parameters...), unsigned blocks, dim3 threads,
                   int64_t shared, Arguments... arguments) {
  emulation::memory.assign(shared / sizeof(int4) + 1, int4{-1, -1, -1, -1});
  emulation::run(blocks, threads, [=] { kernel(arguments...); });
  return cudaSuccess;
}

template <typename Kernel>
int probe(Kernel) {
  return 0;
}

inline int4* shared_memory() { return emulation::memory.data(); }

}  // namespace simplex::cuda
