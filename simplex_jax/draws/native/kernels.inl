// Gamma and Poisson variates and the transition of the Cox-Ingersoll-Ross process, as in
// `simplex_jax.draws.gamma`, `.poisson` and `.cir`, whose comments say why: the same words of
// randomness in the same formulas.

#include "simplex_jax/native/functions.inl"

constexpr int kRounds = 66;
constexpr float kLeast = std::numeric_limits<float>::min();
constexpr float kMost = std::numeric_limits<float>::max();

ALWAYS_INLINE Integers positive(Vector x) { return (x >= kLeast) & (x <= kMost); }

// Two words for each of some variates of a row.
ALWAYS_INLINE void words(const uint32_t* key, uint32_t row, Words columns, Words& one, Words& two) {
  one = Words{} + 2 * row;
  two = columns;
  threefry(key, one, two);
}

// log1p(y) - y + y^2/2 - y^3/3, which is never positive.
ALWAYS_INLINE Vector remainder(Vector y) {
  constexpr float kRemainder[] = {8.177448762580752e-06f,  -2.559679160185624e-05f,
                                  0.00010389083763584495f, -0.0004887076793238521f,
                                  0.0022348545026034117f,  -0.010416309349238873f,
                                  0.04999957233667374f,    -0.2500000298023224f};
  const Integers small = absolute(y) < 0.25f;
  const Vector square = y * y;
  const Vector near = square * square * polynomial(kRemainder, y / 0.25f);
  if (!any(~small)) return near;
  const Vector rest = y * (1.0f - y * (0.5f - y / 3.0f));
  return small ? near : logarithm(1.0f + y) - rest;
}

// Marsaglia and Tsang's proposal, or -1 where it is rejected.
ALWAYS_INLINE Vector propose_gamma(const uint32_t* key, uint32_t row, Words columns, Vector shape) {
  Words one, two;
  words(key, row, columns, one, two);
  const Vector d = shape - (1.0f / 3.0f);
  const Vector y = normal(one) * (1.0f / root(d)) / 3.0f;
  const Integers inside = y > -1.0f;
  const Vector log_acceptance = d * (3.0f * remainder(inside ? y : constant(0)));
  const Integers taken = inside & (uniform(two) < exponential_of(log_acceptance));
  const Vector cube = (1.0f + y) * (1.0f + y) * (1.0f + y);
  return taken ? d * cube : constant(-1);
}

// The same proposal where simple bounds show that it is accepted, or -1 where they do not. R(y) =
// log1p(y) - y + y^2/2 - y^3/3 is the integral of -t^3 / (1 + t) from 0 to y: at least -y^4/4 for y
// above 0, and -y^4/4 / (1 + y) below; and exp(x) >= 1 + x. No draw depends on which of the two is
// asked first: for |y| < 1/4 kRounding is a hundred times what the acceptance above is rounded by,
// and beyond R(y) is |y|^5/20 and more above these bounds, some 500 times the rounding of its
// logarithm.
ALWAYS_INLINE Vector surely_gamma(const uint32_t* key, uint32_t row, Words columns, Vector shape) {
  constexpr float kRounding = 1e-5f;
  Words one, two;
  words(key, row, columns, one, two);
  const Vector d = shape - (1.0f / 3.0f);
  const Vector y = normal(one) * (1.0f / root(d)) / 3.0f;
  const Vector square = y * y, sum = 1.0f + y;
  const Vector least = -0.75f * d * square * square * (y < 0.0f ? 1.0f / sum : constant(1));
  const Integers taken = (y > -1.0f) & (uniform(two) < 1.0f - kRounding + least);
  return taken ? d * (sum * sum * sum) : constant(-1);
}

// Writes the numbers of the lanes of a vector that are negative, counted from `first` on, and returns
// how many there are. Behind these it writes anything: there must be room for a whole vector.
ALWAYS_INLINE int negatives(Vector values, uint32_t first, uint32_t* numbers) {
#if WIDTH == 16 && defined(SIMPLEX_X86)
  const __mmask16 mask = _mm512_movepi32_mask(reinterpret_cast<__m512i>(values < 0.0f));
  const Words all = lanes() + first;
  _mm512_storeu_si512(numbers, _mm512_maskz_compress_epi32(mask, reinterpret_cast<__m512i>(all)));
  return __builtin_popcount(mask);
#else
  int number = 0;
  for (uint32_t j = 0; j < WIDTH; ++j) {
    numbers[number] = first + j;
    number += values[j] < 0;
  }
  return number;
#endif
}

// Variates by rejection for the columns from `first` on, with parameters [kBlock]: what
// `propose(row, columns, parameters)` returns where that is not negative. `surely` is asked first:
// `again` is 1 where it is all of `propose`, and 0 where it only spares most of them.
template <typename Surely, typename Propose>
inline void accepted(uint32_t first, int64_t count, const float* parameters, float* values,
                     Surely surely, int again, Propose propose) {
  uint32_t left[kBlock + WIDTH];
  int64_t number = 0;
  for (int64_t i = 0; i < count; i += WIDTH) {
    const Words columns = lanes() + static_cast<uint32_t>(first + i);
    const Vector value = surely(2, columns, load(parameters + i));
    store(values + i, value);
    number += negatives(value, static_cast<uint32_t>(i), left + number);
  }
  while (number > 0 && left[number - 1] >= count) --number;  // what the last vector has in excess
  for (int round = again; number > 0; ++round) {
    if (round == kRounds) {
      for (int64_t i = 0; i < number; ++i) values[left[i]] = std::nanf("");
      return;
    }
    int64_t still = 0;
    for (int64_t i = 0; i < number; i += WIDTH) {
      Words at;
      Vector parameter;
      for (int j = 0; j < WIDTH; ++j) {
        at[j] = left[std::min(i + j, number - 1)];
        parameter[j] = parameters[at[j]];
      }
      const Vector value = propose(2 * (round + 1), at + first, parameter);
      const int64_t here = std::min<int64_t>(WIDTH, number - i);
      for (int64_t j = 0; j < here; ++j) {
        values[at[j]] = value[j];
        left[still] = at[j];
        still += value[j] < 0;
      }
    }
    number = still;
  }
}

// Gamma variates for the columns from `first` on, with shapes [kBlock] of at least 1/2.
inline void gammas(const uint32_t* key, uint32_t first, int64_t count, const float* shapes,
                   float* values) {
  accepted(
      first, count, shapes, values,
      [=](uint32_t row, Words columns, Vector shape) {
        return surely_gamma(key, row, columns, shape);
      },
      0,
      [=](uint32_t row, Words columns, Vector shape) {
        return propose_gamma(key, row, columns, shape);
      });
}

// A block of a parameter, from column `first` of a row on.
inline void fill(const Parameter& parameter, int64_t row, int64_t first, int64_t count,
                 float* values) {
  const float* from = parameter.values + row * parameter.period;
  if (parameter.period == 1) {
    std::fill(values, values + kBlock, from[0]);
    return;
  }
  int64_t at = first % parameter.period;
  for (int64_t done = 0; done < count;) {
    const int64_t piece = std::min(parameter.period - at, count - done);
    std::memcpy(values + done, from + at, piece * sizeof(float));
    done += piece;
    at = 0;
  }
  std::fill(values + count, values + kBlock, 1.0f);
}

// Calls `block(row, first, count)` for the blocks that this thread takes.
template <typename Block>
inline void for_blocks(const Draws& draws, Block block) {
  const int64_t blocks = (draws.size + kBlock - 1) / kBlock;
  for (int64_t i;
       (i = draws.taken->fetch_add(1, std::memory_order_relaxed)) < draws.rows * blocks;) {
    const int64_t row = i / blocks, first = i % blocks * kBlock;
    block(row, first, std::min(kBlock, draws.size - first));
  }
}

void log_gamma(const Gamma& task) {
  alignas(64) float a[kBlock], shape[kBlock], g[kBlock];
  const Draws& draws = task.draws;
  for_blocks(draws, [&](int64_t row, int64_t first, int64_t count) {
    const uint32_t* key = draws.keys + 2 * row;
    const uint32_t start = draws.offsets[row] + static_cast<uint32_t>(first);
    fill(task.shape, row, first, count, a);
    for (int64_t i = 0; i < count; i += WIDTH) {
      const Vector x = load(a + i);
      const Vector valid = positive(x) ? x : constant(1);
      store(shape + i, valid < 1.0f ? valid + 1.0f : valid);
    }
    gammas(key, start, count, shape, g);
    for (int64_t i = 0; i < count; i += WIDTH) {
      const Vector x = load(a + i);
      Vector value = logarithm(load(g + i));
      if (any(x < 1.0f)) {
        Words one, two;
        words(key, 0, lanes() + static_cast<uint32_t>(start + i), one, two);
        value -= x < 1.0f ? exponential(one) / x : constant(0);
      }
      store(g + i, positive(x) ? value : constant(std::nanf("")));
    }
    std::memcpy(draws.values + row * draws.size + first, g, count * sizeof(float));
  });
}

void cir(const Cir& task) {
  constexpr float kMostRate = 7.9e28f;  // whose square root has room
  constexpr float kLargeRate = 64.0f;
  alignas(64) float a[kBlock], theta[kBlock], h[kBlock], scale[kBlock], growth[kBlock],
      decay[kBlock], shape[kBlock], g[kBlock], rates[kBlock], firsts[kBlock];
  alignas(64) uint32_t seconds[kBlock];
  const Draws& draws = task.draws;
  for_blocks(draws, [&](int64_t row, int64_t first_column, int64_t count) {
    const uint32_t* key = draws.keys + 2 * row;
    const uint32_t start = draws.offsets[row] + static_cast<uint32_t>(first_column);
    fill(task.log_theta, row, first_column, count, theta);
    fill(task.shape, row, first_column, count, a);
    fill(task.step, row, first_column, count, h);
    fill(task.scale, row, first_column, count, scale);
    fill(task.growth, row, first_column, count, growth);
    fill(task.decay, row, first_column, count, decay);
    for (int64_t i = 0; i < count; i += WIDTH) {
      Words one, two;
      words(key, 0, lanes() + static_cast<uint32_t>(start + i), one, two);
      const Vector first = exponential(one), log_theta = load(theta + i), x = load(a + i);
      const Vector known = log_theta <= kMost ? log_theta : constant(0);
      const Vector valid = positive(x) ? x : constant(1);
      const Vector rate =
          smaller(exponential_of(known - load(decay + i)) / load(growth + i), kMostRate);
      store(rates + i, rate);
      store(firsts + i, first);
      std::memcpy(seconds + i, &two, sizeof(Words));
      store(shape + i, valid + (rate - first < 0.0f ? constant(1.0f) : constant(0.5f)));
    }
    gammas(key, start, count, shape, g);
    for (int64_t i = 0; i < count; i += WIDTH) {
      const Vector log_theta = load(theta + i), x = load(a + i), step = load(h + i);
      const Integers given = (log_theta <= kMost) & positive(x) & positive(step);
      const Vector rate = load(rates + i), first = load(firsts + i);
      const Vector gamma = load(g + i), rest = rate - first, factor = load(scale + i);
      const Integers empty = rest < 0.0f;
      // With a long step nearly all vectors are empty.
      Vector value = logarithm(factor * gamma) + rest / x;
      if (any(~empty)) {
        Words two;
        std::memcpy(&two, seconds + i, sizeof(Words));
        const Vector z = normal(two), twice = root(2.0f * larger(rest, 0.0f));
        const Vector noise = z * (twice + z / 2.0f);
        const Vector direct = logarithm(factor * ((z + twice) * (z + twice) / 2.0f + gamma));
        const Vector moved = log_theta - step;
        const Vector back = moved - log_theta;
        const Vector lost = (log_theta - (moved - back)) - (step + back);
        const Vector relative = moved + (logarithm_1p((noise + (gamma - first)) / rate) + lost);
        const Integers drift = (rate > kLargeRate) & (rate > x);
        value = empty ? value : drift ? relative : direct;
      }
      store(g + i, given ? value : constant(std::nanf("")));
    }
    std::memcpy(draws.values + row * draws.size + first_column, g, count * sizeof(float));
  });
}

#include "poisson.inl"
#include "normalise.inl"
