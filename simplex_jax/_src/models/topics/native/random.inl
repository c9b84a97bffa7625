// The random numbers of the tokens of a document.

constexpr uint32_t kChunk = 32;  // positions whose words are made at a time

inline void put(Words bits, float* to) { *reinterpret_cast<Loose*>(to) = uniform(bits); }
inline void put(Words bits, uint32_t* to) { std::memcpy(to, &bits, sizeof(bits)); }

// Two uniforms for each of `count` positions of a document from `first` on; all bits of the first
// where whole numbers are asked for.
template <typename Number>
inline void uniforms(const uint32_t* key, uint32_t id, uint32_t first, uint32_t count, Number* one,
                     float* two) {
  for (uint32_t i = 0; i < count; i += WIDTH) {
    Words x = 2 * (lanes() + (first + i));
    Words y = Words{} + id;
    threefry(key, x, y);
    put(x, one + i);
    put(y, two + i);
  }
}
