// Log probabilities of log weights. A row does not depend on the others, nor on the width.

// The 16 numbers of a row from `j` on, padded with minus infinity.
ALWAYS_INLINE const float* sixteen(const float* row, int64_t j, int64_t size, float* room) {
  if (j + 16 <= size) return row + j;
  std::fill(room, room + 16, -std::numeric_limits<float>::infinity());
  std::memcpy(room, row + j, (size - j) * sizeof(float));
  return room;
}

// Writes the log probabilities of a row, which may be where the weights are, and returns the log of
// their total.
inline float normalise_row(const float* from, int64_t size, float* to) {
  constexpr int64_t kChunk = 4096;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  alignas(64) float room[16], peaks[16], sums[16];
  Integers strange = {};
  std::fill(peaks, peaks + 16, -kInfinity);
  for (int64_t j = 0; j < size; j += 16) {
    const float* x = sixteen(from, j, size, room);
    for (int64_t lane = 0; lane < 16; lane += WIDTH) {
      const Vector value = load(x + lane), peak = load(peaks + lane);
      strange |= ~(value < kInfinity);
      store(peaks + lane, value > peak ? value : peak);
    }
  }
  const float peak = *std::max_element(peaks, peaks + 16);
  double total = 0;  // rows may be long
  for (int64_t first = 0; first < size; first += kChunk) {
    std::fill(sums, sums + 16, 0.0f);
    const int64_t last = std::min(first + kChunk, size);
    for (int64_t j = first; j < last; j += 16) {
      const float* x = sixteen(from, j, size, room);
      for (int64_t lane = 0; lane < 16; lane += WIDTH) {
        store(sums + lane, load(sums + lane) + exponential_of(load(x + lane) - peak));
      }
    }
    for (const float sum : sums) total += sum;
  }
  const float scale =
      any(strange) ? std::nanf("") : logarithm(constant(static_cast<float>(total)))[0];
  for (int64_t j = 0; j < size; ++j) to[j] = (from[j] - peak) - scale;
  return peak + scale;
}

void normalise(const Weights& task) {
  for (int64_t i; (i = task.taken->fetch_add(1, std::memory_order_relaxed)) < task.rows;) {
    const int64_t first = i * task.size;
    task.totals[i] =
        normalise_row(task.values + first, task.size, task.normalised + first);
  }
}
