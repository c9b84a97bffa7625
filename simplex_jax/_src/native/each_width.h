// Includes the file KERNELS once for every set of vector instructions that the compiler knows of this
// machine's kind, in a namespace of its own, with WIDTH numbers to a vector. Which one runs is chosen
// on the machine that runs it, see `for_width`.
#pragma once

#if defined(__x86_64__) && !defined(SIMPLEX_PLAIN)
#define SIMPLEX_X86
#include <immintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace simplex::plain {
#define WIDTH 4
#include "simplex_jax/_src/native/vectors.inl"
#include "simplex_jax/_src/native/functions.inl"
#include KERNELS
#undef WIDTH
}  // namespace simplex::plain

#if defined(SIMPLEX_X86)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,popcnt")
#endif
namespace simplex::avx2 {
#define WIDTH 8
#include "simplex_jax/_src/native/vectors.inl"
#include "simplex_jax/_src/native/functions.inl"
#include KERNELS
#undef WIDTH
}  // namespace simplex::avx2
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,popcnt")
#endif
namespace simplex::avx512 {
#define WIDTH 16
#include "simplex_jax/_src/native/vectors.inl"
#include "simplex_jax/_src/native/functions.inl"
#include KERNELS
#undef WIDTH
}  // namespace simplex::avx512
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
