// Threefry-2x32 (Salmon et al. 2011, 20 rounds), for the words of `simplex_jax.draws.bits.random_words`,
// and functions, as in `simplex_jax.draws.uniform`; logarithm and exponential are those of Cephes (Moshier
// 1984), within 2 units in the last place.

ALWAYS_INLINE Words rotated(Words x, int by) { return (x << by) | (x >> (32 - by)); }

// Replaces counters by their hash.
template <typename Word>
ALWAYS_INLINE void threefry(const Word* key, Words& x, Words& y) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const Word schedule[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAu};
  x += schedule[0];
  y += schedule[1];
#pragma GCC unroll 5
  for (int round = 0; round < 5; ++round) {
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      x += y;
      y = x ^ rotated(y, kRotations[round % 2][r]);
    }
    x += schedule[(round + 1) % 3];
    y += schedule[(round + 2) % 3] + static_cast<uint32_t>(round + 1);
  }
}

// 23 bits and a half: in (0, 1), never 0, never 1.
ALWAYS_INLINE Vector uniform(Words bits) {
  return (float_of(signed_of(bits >> 9)) + 0.5f) * 0x1p-23f;
}

template <int kCount>
ALWAYS_INLINE Vector polynomial(const float (&coefficients)[kCount], Vector x) {
  Vector value = constant(coefficients[0]);
#pragma GCC unroll 16
  for (int i = 1; i < kCount; ++i) value = value * x + coefficients[i];
  return value;
}

ALWAYS_INLINE Vector larger(Vector x, float least) { return x > least ? x : constant(least); }
ALWAYS_INLINE Vector smaller(Vector x, float most) { return x < most ? x : constant(most); }
ALWAYS_INLINE Vector absolute(Vector x) { return float_of_bits(bits_of(x) & 0x7fffffffu); }

// Of normal positive numbers; minus infinity of 0.
ALWAYS_INLINE Vector logarithm(Vector x) {
  constexpr float kLog[] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                            -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                            2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
  // x = 2^exponent (1 + m) with 1 + m between the square roots of 1/2 and 2.
  // In words: what is not a positive number must not overflow either.
  const Words bits = bits_of(x);
  const Integers exponent = signed_of(bits - 0x3f3504f3u) >> 23;
  const Vector m = float_of_bits(bits - (bits_of(exponent) << 23)) - 1.0f;
  const Vector e = float_of(exponent);
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
  const Integers n =
      integer_of(near * 1.44269504f + (near < 0.0f ? constant(-0.5f) : constant(0.5f)));
  const Vector whole = float_of(n);
  const Vector r = (near - whole * 0.693359375f) - whole * -2.12194440e-4f;
  const Vector y = (r * r * polynomial(kExp, r) + r) + 1.0f;
  // In two steps: 2^128 is not a number.
  const Integers half = n >> 1;
  const Vector value = y * float_of_bits(bits_of(half + 127) << 23) *
                       float_of_bits(bits_of(n - half + 127) << 23);
  const Vector low = x < -87.3f ? constant(0) : value;
  return x > 88.72f ? constant(std::numeric_limits<float>::infinity()) : low;
}

// A magnitude in (0, 1/2]; the lowest bit is the side.
ALWAYS_INLINE Vector magnitude(Words bits) {
  return (float_of(signed_of(bits >> 1)) + 0.5f) * 0x1p-32f;
}

ALWAYS_INLINE Mask side(Words bits) { return (bits & 1u) != 0u; }

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
  const Mask central = w < kCentreLimit;
  Vector ratio = polynomial(kCentre, (w - kCentreLimit / 2) / (kCentreLimit / 2));
  if (__builtin_expect(any(~central), 0)) {
    const Vector tail = polynomial(kTail, (root(larger(w, 0.0f)) - kTailMiddle) / kTailHalf);
    ratio = central ? ratio : tail;
  }
  const Vector z = (1.0f - 2.0f * v) * ratio;
  return side(bits) ? -z : z;
}
