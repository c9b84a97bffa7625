#include "task.h"

#define KERNELS "simplex_jax/_src/draws/native/kernels.inl"
#include "simplex_jax/_src/native/each_width.h"
