#include "task.h"

#define KERNELS "simplex_jax/_src/models/topics/native/kernels.inl"
#include "simplex_jax/_src/native/each_width.h"
