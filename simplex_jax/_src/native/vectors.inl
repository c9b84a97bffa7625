// Vectors of WIDTH numbers. What has a namesake in scalars.cuh works on a GPU too, by that.

typedef uint32_t Words __attribute__((vector_size(4 * WIDTH)));
typedef int32_t Integers __attribute__((vector_size(4 * WIDTH)));
typedef float Vector __attribute__((vector_size(4 * WIDTH)));
// The same where nothing is known about its place in memory.
typedef float Loose __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
// All bits of a number or none, by what is true of it.
typedef Integers Mask;

// Numbers with other ones' bits, and numbers of other kinds with their values.
ALWAYS_INLINE Words bits_of(Vector x) { return reinterpret_cast<Words>(x); }
ALWAYS_INLINE Words bits_of(Integers x) { return reinterpret_cast<Words>(x); }
ALWAYS_INLINE Integers signed_of(Words x) { return reinterpret_cast<Integers>(x); }
ALWAYS_INLINE Vector float_of_bits(Words x) { return reinterpret_cast<Vector>(x); }
ALWAYS_INLINE Vector float_of(Words x) { return __builtin_convertvector(x, Vector); }
ALWAYS_INLINE Vector float_of(Integers x) { return __builtin_convertvector(x, Vector); }
ALWAYS_INLINE Integers integer_of(Vector x) { return __builtin_convertvector(x, Integers); }

ALWAYS_INLINE Vector load(const float* from) { return *reinterpret_cast<const Loose*>(from); }
ALWAYS_INLINE void store(float* to, Vector x) { *reinterpret_cast<Loose*>(to) = x; }

ALWAYS_INLINE Vector constant(float x) { return Vector{} + x; }

// 0, 1, 2, ...
ALWAYS_INLINE Words lanes() {
  Words x;
  for (int j = 0; j < WIDTH; ++j) x[j] = j;
  return x;
}

// Whether it is true of any number.
ALWAYS_INLINE bool any(Mask x) {
#if WIDTH == 16 && defined(SIMPLEX_X86)
  const __m512i bits = reinterpret_cast<__m512i>(x);
  return _mm512_test_epi32_mask(bits, bits) != 0;
#elif WIDTH == 8 && defined(SIMPLEX_X86)
  const __m256i bits = reinterpret_cast<__m256i>(x);
  return !_mm256_testz_si256(bits, bits);
#else
  int32_t bits = 0;
  for (int j = 0; j < WIDTH; ++j) bits |= x[j];
  return bits != 0;
#endif
}

ALWAYS_INLINE Vector root(Vector x) {
  for (int j = 0; j < WIDTH; ++j) x[j] = __builtin_sqrtf(x[j]);
  return x;
}

ALWAYS_INLINE Vector floor_of(Vector x) {
  for (int j = 0; j < WIDTH; ++j) x[j] = __builtin_floorf(x[j]);
  return x;
}

template <int kCount>
ALWAYS_INLINE Vector chosen(const float (&from)[kCount], Integers places) {
  Vector x;
  for (int j = 0; j < WIDTH; ++j) x[j] = from[places[j]];
  return x;
}
