#include "task.h"

#define KERNELS "simplex_jax/models/topics/native/kernels.inl"
#include "simplex_jax/native/each_width.h"
