// The numbers of one thread of a GPU, by the names that vectors.inl has for vectors on a CPU: formulas
// are written once. Compiled without contracted operations (-fmad=false), they round alike on both.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>

#include "simplex_jax/_src/native/launch.cuh"

#define ALWAYS_INLINE __device__ __forceinline__

namespace simplex::cuda {

using Words = uint32_t;
using Integers = int32_t;
using Vector = float;

// What is true of a number.
struct Mask {
  bool value;

  ALWAYS_INLINE Mask() : value(false) {}
  ALWAYS_INLINE Mask(bool value) : value(value) {}
  ALWAYS_INLINE explicit operator bool() const { return value; }
};

ALWAYS_INLINE Mask operator&(Mask a, Mask b) { return a.value && b.value; }
ALWAYS_INLINE Mask operator|(Mask a, Mask b) { return a.value || b.value; }
ALWAYS_INLINE Mask operator~(Mask a) { return !a.value; }
ALWAYS_INLINE bool any(Mask x) { return x.value; }

ALWAYS_INLINE Words bits_of(Vector x) { return __float_as_uint(x); }
ALWAYS_INLINE Words bits_of(Integers x) { return static_cast<Words>(x); }
ALWAYS_INLINE Integers signed_of(Words x) { return static_cast<Integers>(x); }
ALWAYS_INLINE Vector float_of_bits(Words x) { return __uint_as_float(x); }
ALWAYS_INLINE Vector float_of(Words x) { return static_cast<Vector>(x); }
ALWAYS_INLINE Vector float_of(Integers x) { return static_cast<Vector>(x); }
ALWAYS_INLINE Integers integer_of(Vector x) { return static_cast<Integers>(x); }

ALWAYS_INLINE Vector constant(float x) { return x; }
ALWAYS_INLINE Vector root(Vector x) { return sqrtf(x); }
ALWAYS_INLINE Vector floor_of(Vector x) { return floorf(x); }

template <int kCount>
ALWAYS_INLINE Vector chosen(const float (&from)[kCount], Integers place) {
  return from[place];
}

#include "simplex_jax/_src/native/functions.inl"

}  // namespace simplex::cuda
