// Running sums of 16 numbers, and the first of them above a share of the last.

#if WIDTH >= 8 && defined(__x86_64__)

inline __m256 scan8(__m256 x) {
  x = _mm256_add_ps(x, _mm256_castsi256_ps(_mm256_slli_si256(_mm256_castps_si256(x), 4)));
  x = _mm256_add_ps(x, _mm256_castsi256_ps(_mm256_slli_si256(_mm256_castps_si256(x), 8)));
  const __m256 low = _mm256_permute2f128_ps(x, x, 0x08);
  return _mm256_add_ps(x, _mm256_shuffle_ps(low, low, 0xff));
}

// Returns how many of the running sums of `sums` [16] are not above u times (the last and `extra`).
inline uint32_t search(const float* sums, float extra, float u, float* running, float* threshold) {
  __m256 a = scan8(_mm256_loadu_ps(sums));
  __m256 b = scan8(_mm256_loadu_ps(sums + 8));
  const __m256i last = _mm256_set1_epi32(7);
  b = _mm256_add_ps(b, _mm256_permutevar8x32_ps(a, last));
  const __m256 all = _mm256_add_ps(_mm256_permutevar8x32_ps(b, last), _mm256_set1_ps(extra));
  const __m256 t = _mm256_mul_ps(all, _mm256_set1_ps(u));
  _mm256_storeu_ps(running, a);
  _mm256_storeu_ps(running + 8, b);
  *threshold = _mm256_cvtss_f32(t);
  const int passed = _mm256_movemask_ps(_mm256_cmp_ps(a, t, _CMP_LE_OQ)) |
                     _mm256_movemask_ps(_mm256_cmp_ps(b, t, _CMP_LE_OQ)) << 8;
  return __builtin_popcount(passed);
}

// The same of whole numbers, where all 32 bits of u are a share. At most 15, whatever the sums.
#if WIDTH == 16

inline uint32_t search(const int32_t* sums, uint32_t u, int32_t* running, int32_t* threshold) {
  const __m512i zero = _mm512_setzero_si512();
  __m512i x = _mm512_loadu_si512(sums);
  x = _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 15));
  x = _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 14));
  x = _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 12));
  x = _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 8));
  _mm512_storeu_si512(running, x);
  const uint32_t all = _mm_extract_epi32(_mm512_extracti32x4_epi32(x, 3), 3);
  *threshold = static_cast<int32_t>(uint64_t(u) * all >> 32);
  const uint32_t above = _mm512_cmpgt_epi32_mask(x, _mm512_set1_epi32(*threshold));
  return __builtin_ctz(above | 1 << (kLanes - 1));
}

#else

inline __m256i scan8(__m256i x) {
  x = _mm256_add_epi32(x, _mm256_slli_si256(x, 4));
  x = _mm256_add_epi32(x, _mm256_slli_si256(x, 8));
  const __m256i low = _mm256_permute2x128_si256(x, x, 0x08);
  return _mm256_add_epi32(x, _mm256_shuffle_epi32(low, 0xff));
}

inline uint32_t search(const int32_t* sums, uint32_t u, int32_t* running, int32_t* threshold) {
  const __m256i* from = reinterpret_cast<const __m256i*>(sums);
  __m256i* to = reinterpret_cast<__m256i*>(running);
  const __m256i a = scan8(_mm256_loadu_si256(from));
  const __m256i last = _mm256_permutevar8x32_epi32(a, _mm256_set1_epi32(7));
  const __m256i b = _mm256_add_epi32(scan8(_mm256_loadu_si256(from + 1)), last);
  _mm256_storeu_si256(to, a);
  _mm256_storeu_si256(to + 1, b);
  const uint32_t all = _mm256_extract_epi32(b, 7);
  *threshold = static_cast<int32_t>(uint64_t(u) * all >> 32);
  const __m256i t = _mm256_set1_epi32(*threshold);
  const int above = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(a, t))) |
                    _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(b, t))) << 8;
  return __builtin_ctz(above | 1 << (kLanes - 1));
}

#endif

#else

// The same, adding in the same order.
inline uint32_t search(const float* sums, float extra, float u, float* running, float* threshold) {
  for (int half = 0; half < kLanes; half += 8) {
    for (int quad = half; quad < half + 8; quad += 4) {
      const float* x = sums + quad;
      const float first = x[1] + x[0], second = x[2] + x[1], third = x[3] + x[2];
      running[quad] = x[0];
      running[quad + 1] = first;
      running[quad + 2] = second + x[0];
      running[quad + 3] = third + first;
    }
    for (int j = 4; j < 8; ++j) running[half + j] += running[half + 3];
  }
  for (int j = 8; j < kLanes; ++j) running[j] += running[7];
  *threshold = (running[kLanes - 1] + extra) * u;
  uint32_t passed = 0;
  for (int j = 0; j < kLanes; ++j) passed += running[j] <= *threshold;
  return passed;
}

inline uint32_t search(const int32_t* sums, uint32_t u, int32_t* running, int32_t* threshold) {
  int32_t sum = 0;
  for (int j = 0; j < kLanes; ++j) running[j] = sum += sums[j];
  *threshold = static_cast<int32_t>(uint64_t(u) * uint32_t(sum) >> 32);
  uint32_t passed = 0;
  for (int j = 0; j < kLanes - 1; ++j) passed += running[j] <= *threshold;
  return passed;
}

#endif

// The row of a lane at which its running sums, in lanes of rows, pass `left`: the first row whose
// sum is above, without a jump.
template <int kRows>
ALWAYS_INLINE uint32_t row_of(const float* partial, uint32_t rows, uint32_t lane, float left) {
  rows = kRows ? kRows : rows;
  const float sum = partial[(rows - 1) * kLanes + lane];
  // Rounding must not lead beyond the group.
  int32_t bits;
  std::memcpy(&bits, &sum, 4);
  bits -= 1;
  float below;
  std::memcpy(&below, &bits, 4);
  left = left < below ? left : below;
  // Nor to a topic without mass: rounded running sums of lanes may decrease.
  left = left > 0 ? left : 0;
  uint32_t row = 0;
#pragma GCC unroll 8
  for (uint32_t b = 0; b < rows - 1; ++b) row += partial[b * kLanes + lane] <= left;
  return row;
}
