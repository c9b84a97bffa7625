// Vectors of WIDTH numbers, and Threefry-2x32 (Salmon et al. 2011, 20 rounds) on them: the words of
// `simplex_jax.draws.bits.random_words`.

typedef uint32_t Words __attribute__((vector_size(4 * WIDTH)));
typedef int32_t Integers __attribute__((vector_size(4 * WIDTH)));
typedef float Vector __attribute__((vector_size(4 * WIDTH)));
// The same where nothing is known about its place in memory.
typedef float Loose __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

ALWAYS_INLINE Words rotated(Words x, int by) { return (x << by) | (x >> (32 - by)); }

// 0, 1, 2, ...
ALWAYS_INLINE Words lanes() {
  Words x;
  for (int j = 0; j < WIDTH; ++j) x[j] = j;
  return x;
}

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
  return (__builtin_convertvector(reinterpret_cast<Integers>(bits >> 9), Vector) + 0.5f) *
         0x1p-23f;
}
