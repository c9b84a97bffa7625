#if defined(__x86_64__)
#include <immintrin.h>

#include "task.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,popcnt")
#endif

#define WIDTH 8
#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace simplex::avx2 {

#include "random.inl"
#include "search.inl"
#include "dense.inl"
#include "sparse.inl"

}  // namespace simplex::avx2

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
