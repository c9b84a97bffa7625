// Functions of vectors, as in `simplex_jax.draws.uniform`; logarithm and exponential are those of
// Cephes (Moshier 1984), within 2 units in the last place.

ALWAYS_INLINE Vector load(const float* from) { return *reinterpret_cast<const Loose*>(from); }
ALWAYS_INLINE void store(float* to, Vector x) { *reinterpret_cast<Loose*>(to) = x; }

ALWAYS_INLINE Vector constant(float x) { return Vector{} + x; }

template <int kCount>
ALWAYS_INLINE Vector polynomial(const float (&coefficients)[kCount], Vector x) {
  Vector value = constant(coefficients[0]);
#pragma GCC unroll 16
  for (int i = 1; i < kCount; ++i) value = value * x + coefficients[i];
  return value;
}

// Whether any number is not 0.
ALWAYS_INLINE bool any(Integers x) {
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

ALWAYS_INLINE Vector larger(Vector x, float least) { return x > least ? x : constant(least); }
ALWAYS_INLINE Vector smaller(Vector x, float most) { return x < most ? x : constant(most); }
ALWAYS_INLINE Vector absolute(Vector x) {
  return reinterpret_cast<Vector>(reinterpret_cast<Words>(x) & 0x7fffffffu);
}

// Of normal positive numbers; minus infinity of 0.
ALWAYS_INLINE Vector logarithm(Vector x) {
  constexpr float kLog[] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                            -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                            2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
  // x = 2^exponent (1 + m) with 1 + m between the square roots of 1/2 and 2.
  // In words: what is not a positive number must not overflow either.
  const Words bits = reinterpret_cast<Words>(x);
  const Integers exponent = reinterpret_cast<Integers>(bits - 0x3f3504f3u) >> 23;
  const Vector m =
      reinterpret_cast<Vector>(bits - (reinterpret_cast<Words>(exponent) << 23)) - 1.0f;
  const Vector e = __builtin_convertvector(exponent, Vector);
  const Vector square = m * m;
  Vector y = m * square * polynomial(kLog, m);
  y += e * -2.12194440e-4f;
  y -= 0.5f * square;
  const Vector value = (m + y) + e * 0.693359375f;
  return x > 0.0f ? value : constant(-std::numeric_limits<float>::infinity());
}

// log(1 + x) for x > -1, also where 1 + x rounds x away.
ALWAYS_INLINE Vector logarithm_1p(Vector x) {
  const Vector u = 1.0f + x;
  return logarithm(u) + (x - (u - 1.0f)) / u;
}

// 0 from -87.3 down, infinity from 88.7 up.
ALWAYS_INLINE Vector exponential_of(Vector x) {
  constexpr float kExp[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                            4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
  const Vector near = smaller(larger(x, -87.3f), 88.72f);
  const Integers n = __builtin_convertvector(
      near * 1.44269504f + (near < 0.0f ? constant(-0.5f) : constant(0.5f)), Integers);
  const Vector whole = __builtin_convertvector(n, Vector);
  const Vector r = (near - whole * 0.693359375f) - whole * -2.12194440e-4f;
  const Vector y = (r * r * polynomial(kExp, r) + r) + 1.0f;
  // In two steps: 2^128 is not a number.
  const Integers half = n >> 1;
  const Vector value = y * reinterpret_cast<Vector>((half + 127) << 23) *
                       reinterpret_cast<Vector>((n - half + 127) << 23);
  const Vector low = x < -87.3f ? constant(0) : value;
  return x > 88.72f ? constant(std::numeric_limits<float>::infinity()) : low;
}

// A magnitude in (0, 1/2]; the lowest bit is the side.
ALWAYS_INLINE Vector magnitude(Words bits) {
  return (__builtin_convertvector(reinterpret_cast<Integers>(bits >> 1), Vector) + 0.5f) *
         0x1p-32f;
}

ALWAYS_INLINE Integers side(Words bits) {
  return -reinterpret_cast<Integers>(bits & 1u);  // all bits where it is 1
}

ALWAYS_INLINE Vector exponential(Words bits) {
  constexpr float kLogComplement[] = {
      2.1989608285366558e-05f, 7.241233834065497e-05f, 0.00019822688773274422f,
      0.0007013495778664947f,  0.002581680892035365f,  0.00976857915520668f,
      0.03961698338389397f,    0.1826048046350479f,    1.1507283449172974f};
  const Vector v = magnitude(bits);
  return side(bits) ? -logarithm(v) : v * polynomial(kLogComplement, 4.0f * v - 1.0f);
}

ALWAYS_INLINE Vector normal(Words bits) {
  constexpr float kCentre[] = {6.0259564634179696e-05f, 0.0005945637822151184f,
                               -0.0016793514369055629f, -0.001954047940671444f,
                               0.016960585489869118f,   -0.030587483197450638f,
                               -0.05386839061975479f,   0.9502246379852295f,
                               2.210118532180786f};
  constexpr float kTail[] = {-0.001267039799131453f, 0.0026107376907020807f,
                             -0.0020698418375104666f, 0.0023633299861103296f,
                             -0.004753379616886377f,  0.006100969389081001f,
                             1.8203877210617065f,     4.891089916229248f};
  constexpr float kCentreLimit = 5.5f, kTailMiddle = 3.6220936827390355f,
                  kTailHalf = 1.2768858028273204f;
  const Vector v = magnitude(bits);
  const Vector w = -logarithm(4.0f * v * (1.0f - v));
  const Integers central = w < kCentreLimit;
  Vector ratio = polynomial(kCentre, (w - kCentreLimit / 2) / (kCentreLimit / 2));
  if (__builtin_expect(any(~central), 0)) {
    const Vector tail = polynomial(kTail, (root(larger(w, 0.0f)) - kTailMiddle) / kTailHalf);
    ratio = central ? ratio : tail;
  }
  const Vector z = (1.0f - 2.0f * v) * ratio;
  return side(bits) ? -z : z;
}
