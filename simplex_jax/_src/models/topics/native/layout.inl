// Rows of words from topics: what `engine.likelihood_of` computes, as `Task::weights` has it.

void lay_out(const Layout& task) {
  constexpr int64_t kWords = 64;  // some cache lines of each topic, so that few pages are in use
  alignas(64) float peaks[kWords], row[kWords] = {}, tile[kLanes][kWords];
  for (int64_t v;
       (v = task.taken->fetch_add(kWords, std::memory_order_relaxed)) < task.num_words;) {
    const int64_t count = std::min(kWords, task.num_words - v);
    const float* const from = task.log_topics + v;
    std::fill(peaks, peaks + kWords, -std::numeric_limits<float>::infinity());
    for (int64_t k = 0; k < task.num_topics; ++k) {
      const float* topic = from + k * task.num_words;
      for (int64_t w = 0; w < count; ++w) peaks[w] = std::max(peaks[w], topic[w]);
    }
    for (int64_t k = 0; k < task.width; k += kLanes) {
      const int64_t topics = std::clamp<int64_t>(task.num_topics - k, 0, kLanes);
      for (int64_t i = 0; i < topics; ++i) {
        std::memcpy(row, from + (k + i) * task.num_words, count * sizeof(float));
        for (int64_t w = 0; w < kWords; w += WIDTH) {
          const Vector peak = load(peaks + w), x = load(row + w);
          const Integers impossible = peak == -std::numeric_limits<float>::infinity();
          const Vector weight = impossible ? constant(1) : exponential_of(x - peak);
          store(tile[i] + w, x == x ? weight : x);
        }
      }
      for (int64_t w = 0; w < count; ++w) {
        float* to = task.weights + (v + w) * task.width + k;
        for (int64_t i = 0; i < topics; ++i) to[i] = tile[i][w];
        std::fill(to + topics, to + kLanes, 0.0f);
      }
    }
  }
}
