// The random numbers of the tokens of a document.

constexpr uint32_t kChunk = 32;  // positions whose words are made at a time

// Two uniforms for each of `count` positions of a document from `first` on.
inline void uniforms(const uint32_t* key, uint32_t id, uint32_t first, uint32_t count, float* one,
                     float* two) {
  for (uint32_t i = 0; i < count; i += WIDTH) {
    Words x = 2 * (lanes() + (first + i));
    Words y = Words{} + id;
    threefry(key, x, y);
    *reinterpret_cast<Loose*>(one + i) = uniform(x);
    *reinterpret_cast<Loose*>(two + i) = uniform(y);
  }
}
