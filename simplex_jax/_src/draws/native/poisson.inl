// Poisson variates, as in `simplex_jax.draws.poisson`.

void poisson(const Poisson& task) {
  alignas(64) float rates[kBlock], large[kBlock], counts[kBlock];
  alignas(64) uint32_t columns[kBlock];
  const Draws& draws = task.draws;
  for_blocks(draws, [&](int64_t row, int64_t first, int64_t count) {
    const uint32_t* key = draws.keys + 2 * row;
    const uint32_t start = draws.offsets[row] + static_cast<uint32_t>(first);
    fill(task.rate, row, first, count, rates);
    for (int64_t i = 0; i < count; i += WIDTH) {
      const Vector rate = load(rates + i);
      const Mask many = (rate >= kInversionLimit) & (rate <= kMost);
      store(large + i, many ? rate : constant(-1));
      const Words here = lanes() + static_cast<uint32_t>(start + i);
      std::memcpy(columns + i, &here, sizeof(Words));
    }
    const auto propose = [=](uint32_t row, Words columns, Vector rate) {
      const Mask needed = rate > 0.0f;
      if (!any(needed)) return constant(0);
      return needed ? propose_count(key, row, columns, rate) : constant(0);
    };
    accepted(count, columns, large, counts, propose, 1, propose);
    for (int64_t i = 0; i < count; i += WIDTH) {
      const Vector rate = load(rates + i);
      const Mask valid = (rate >= 0.0f) & (rate <= kMost);
      Words one, two;
      words(key, 0, lanes() + static_cast<uint32_t>(start + i), one, two);
      const Vector few = by_inversion(one, valid & (rate < kInversionLimit) ? rate : constant(0));
      const Vector value = rate < kInversionLimit ? few : load(counts + i);
      store(counts + i, valid ? value : constant(std::nanf("")));
    }
    std::memcpy(draws.values + row * draws.size + first, counts, count * sizeof(float));
  });
}
