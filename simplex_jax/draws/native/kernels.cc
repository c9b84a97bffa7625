#include "task.h"

#define KERNELS "simplex_jax/draws/native/kernels.inl"
#include "simplex_jax/native/each_width.h"
