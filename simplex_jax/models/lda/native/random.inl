// Threefry-2x32 (Salmon et al. 2011, 20 rounds), several counters at a time: the words of
// `simplex_jax.draws.bits.random_words`.

typedef uint32_t Words __attribute__((vector_size(4 * WIDTH)));
typedef int32_t Integers __attribute__((vector_size(4 * WIDTH)));
typedef float Vector __attribute__((vector_size(4 * WIDTH)));
// The same where nothing is known about its place in memory.
typedef float Loose __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

constexpr uint32_t kChunk = 32;  // positions whose words are made at a time

inline Words rotated(Words x, int by) { return (x << by) | (x >> (32 - by)); }

// 23 bits and a half: in (0, 1), never 0, never 1.
inline Vector uniform(Words bits) {
  return (__builtin_convertvector(reinterpret_cast<Integers>(bits >> 9), Vector) + 0.5f) *
         0x1p-23f;
}

// Two uniforms for each of `count` positions of a document from `first` on.
inline void uniforms(const uint32_t* key, uint32_t id, uint32_t first, uint32_t count, float* one,
                     float* two) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t schedule[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAu};
  Words lanes;
  for (int j = 0; j < WIDTH; ++j) lanes[j] = j;
  for (uint32_t i = 0; i < count; i += WIDTH) {
    Words x = 2 * (lanes + (first + i)) + schedule[0];
    Words y = Words{} + (id + schedule[1]);
#pragma GCC unroll 5
    for (int round = 0; round < 5; ++round) {
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) {
        x += y;
        y = x ^ rotated(y, kRotations[round % 2][r]);
      }
      x += schedule[(round + 1) % 3];
      y += schedule[(round + 2) % 3] + (round + 1);
    }
    *reinterpret_cast<Loose*>(one + i) = uniform(x);
    *reinterpret_cast<Loose*>(two + i) = uniform(y);
  }
}
