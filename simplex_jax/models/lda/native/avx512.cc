#if defined(__x86_64__)
#include <immintrin.h>

#include "task.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,popcnt")
#endif

#define WIDTH 16
#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace simplex::avx512 {

#include "random.inl"
#include "search.inl"
#include "dense.inl"
#include "sparse.inl"

}  // namespace simplex::avx512

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
