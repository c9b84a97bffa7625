#include "task.h"

#define KERNELS "simplex_jax/models/lda/native/kernels.inl"
#include "simplex_jax/native/each_width.h"
