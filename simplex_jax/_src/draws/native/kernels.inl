// Gamma and Poisson variates and the transition of the Cox-Ingersoll-Ross process, as in
// `simplex_jax.draws.gamma`, `.poisson` and `.cir`.

#include "formulas.inl"

// Some lanes of a block.
struct Lanes {
  uint32_t places[kBlock + WIDTH];
  int64_t number = 0;

  // Adds the chosen ones of a vector of places.
  ALWAYS_INLINE void add(Mask chosen, Words from) {
#if WIDTH == 16 && defined(SIMPLEX_X86)
    const __mmask16 mask = _mm512_movepi32_mask(reinterpret_cast<__m512i>(chosen));
    const __m512i packed = _mm512_maskz_compress_epi32(mask, reinterpret_cast<__m512i>(from));
    _mm512_storeu_si512(places + number, packed);
    number += __builtin_popcount(mask);
#else
    for (int j = 0; j < WIDTH; ++j) {
      places[number] = from[j];
      number -= chosen[j];
    }
#endif
  }

  // Drops excess lanes of the block's last vector, and pads the last vector of places with a lane.
  inline void end(int64_t count) {
    while (number > 0 && places[number - 1] >= count) --number;
    std::fill(places + number, places + number + WIDTH, number > 0 ? places[number - 1] : 0u);
  }

  // The numbers of these lanes, one after the other.
  template <typename Number>
  inline const Number* packed(const Number* from, Number* room) const {
    for (int64_t i = 0; i < number; i += WIDTH) {
#pragma GCC unroll 16
      for (int64_t j = i; j < i + WIDTH; ++j) room[j] = from[places[j]];
    }
    return room;
  }
};

ALWAYS_INLINE Words load(const uint32_t* from) {
  Words x;
  std::memcpy(&x, from, sizeof(Words));
  return x;
}

ALWAYS_INLINE void store(uint32_t* to, Words x) { std::memcpy(to, &x, sizeof(Words)); }

// Variates by rejection for some columns, with parameters [kBlock]: the first nonnegative result of
// `propose(row, columns, parameters)`. `surely` is tried first: `again` is 1 if it is the same as
// `propose`, and 0 if it only saves most calls.
template <typename Surely, typename Propose>
inline void accepted(int64_t count, const uint32_t* columns, const float* parameters, float* values,
                     Surely surely, int again, Propose propose) {
  Lanes left;
  for (int64_t i = 0; i < count; i += WIDTH) {
    const Vector value = surely(2, load(columns + i), load(parameters + i));
    store(values + i, value);
    left.add(value < 0.0f, lanes() + static_cast<uint32_t>(i));
  }
  left.end(count);
  for (int round = again; left.number > 0; ++round) {
    if (round == kRounds) {
      for (int64_t i = 0; i < left.number; ++i) values[left.places[i]] = std::nanf("");
      return;
    }
    int64_t still = 0;
    for (int64_t i = 0; i < left.number; i += WIDTH) {
      Words at, column;
      Vector parameter;
      for (int j = 0; j < WIDTH; ++j) {
        at[j] = left.places[std::min(i + j, left.number - 1)];
        column[j] = columns[at[j]];
        parameter[j] = parameters[at[j]];
      }
      const Vector value = propose(2 * (round + 1), column, parameter);
      const int64_t here = std::min<int64_t>(WIDTH, left.number - i);
      for (int64_t j = 0; j < here; ++j) {
        values[at[j]] = value[j];
        left.places[still] = at[j];
        still += value[j] < 0;
      }
    }
    left.number = still;
  }
}

// A block of log gamma variates. `take` draws those of small shape that bounds accept, in place.
// The few others of small shape, and all that need Marsaglia and Tsang's proposal, are packed, so
// that each lane costs only its own draw.
struct GammaBlock {
  const uint32_t* key;
  uint32_t start;  // its first column
  int64_t count;
  alignas(64) float values[kBlock];
  alignas(64) float ratios[kBlock];      // of exponentials and shapes
  alignas(64) uint32_t seconds[kBlock];  // word two of row 0
  Lanes doubtful;                        // of small shape, not surely accepted
  Lanes left;                            // for Marsaglia and Tsang
  bool whole;                            // whether these are all lanes, in order

  GammaBlock(const uint32_t* key, uint32_t start, int64_t count)
      : key(key), start(start), count(count) {}

  // Takes a vector of lanes, some of small shape.
  ALWAYS_INLINE void take(int64_t i, Mask small, Vector ratio, Words two) {
    const Words here = lanes() + static_cast<uint32_t>(i);
    const Vector y = kInverseE - ratio;
    store(values + i, y);
    store(ratios + i, ratio);
    store(seconds + i, two);
    if (any(small)) doubtful.add(small & ~surely_small(y, two), here);
    left.add(~small, here);
  }

  // Tests the doubtful lanes. Rejected ones are left to be drawn afresh, with ratios from
  // exponentials of a row of words that nothing else uses.
  inline void ask(const float* shapes) {
    alignas(64) float room[2][kBlock];
    alignas(64) uint32_t word_room[kBlock];
    doubtful.end(count);
    left.end(count);
    whole = left.number == count;
    const float* asked = doubtful.packed(shapes, room[0]);
    const float* asked_ratios = doubtful.packed(ratios, room[1]);
    const uint32_t* asked_seconds = doubtful.packed(seconds, word_room);
    for (int64_t i = 0; i < doubtful.number; i += WIDTH) {
      const Words at = load(doubtful.places + i);
      const Vector shape = load(asked + i);
      Mask taken;
      const Vector log_x =
          propose_small(shape, load(asked_ratios + i), load(asked_seconds + i), taken);
      Words one, two;
      words(key, 1, at + start, one, two);
      const Vector fresh = exponential(one) / shape;
      const int64_t here = std::min<int64_t>(WIDTH, doubtful.number - i);
      for (int64_t j = 0; j < here; ++j) {
        values[at[j]] = log_x[j];
        ratios[at[j]] = fresh[j];
        left.places[left.number] = at[j];
        left.number += !taken[j];
      }
    }
    left.end(count);
  }

  // The numbers [kBlock] of the lanes that are left.
  template <typename Number>
  inline const Number* packed(const Number* from, Number* room) const {
    return whole ? from : left.packed(from, room);
  }

  // Draws gamma variates for the lanes that are left, with shapes [kBlock] of at least 1/2, and
  // calls `finish(i, shapes, variates)`, which returns values, on vectors of them.
  template <typename Finish>
  inline void draw_left(const float* shapes, Finish finish) {
    alignas(64) uint32_t columns[kBlock];
    alignas(64) float room[kBlock], g[kBlock];
    for (int64_t i = 0; i < left.number; i += WIDTH) {
      store(columns + i, load(left.places + i) + start);
    }
    shapes = packed(shapes, room);
    accepted(
        left.number, columns, shapes, g,
        [=](uint32_t row, Words columns, Vector shape) {
          return surely_gamma(key, row, columns, shape);
        },
        0,
        [=](uint32_t row, Words columns, Vector shape) {
          return propose_gamma(key, row, columns, shape);
        });
    float* to = whole ? values : g;
    for (int64_t i = 0; i < left.number; i += WIDTH) {
      store(to + i, finish(i, load(shapes + i), load(g + i)));
    }
    if (!whole) {
      for (int64_t i = 0; i < left.number; ++i) values[left.places[i]] = g[i];
    }
  }
};

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

// Calls `block(row, first, count)` for the blocks of some rows that this thread takes.
template <typename Rows, typename Block>
inline void for_blocks(const Rows& rows, Block block) {
  const int64_t blocks = (rows.size + kBlock - 1) / kBlock;
  for (int64_t i; (i = rows.taken->fetch_add(1, std::memory_order_relaxed)) < rows.rows * blocks;) {
    const int64_t row = i / blocks, first = i % blocks * kBlock;
    block(row, first, std::min(kBlock, rows.size - first));
  }
}

void hash(const Hashes& task) {
  // All rows as one: many are as short as a key, so a vector spans several rows.
  const Hashes flat{task.keys, task.firsts, 1, task.rows * task.size, task.pairs, task.taken};
  for_blocks(flat, [&](int64_t, int64_t first, int64_t count) {
    int64_t row = first / task.size, column = first % task.size;
    uint32_t* pairs = task.pairs + 2 * first;
    for (int64_t i = 0; i < count; i += WIDTH) {
      const int64_t here = std::min<int64_t>(WIDTH, count - i);
      Words keys[2] = {}, one = {}, two = {};
      if (column + WIDTH <= task.size) {
        keys[0] += task.keys[2 * row];
        keys[1] += task.keys[2 * row + 1];
        two = lanes() + static_cast<uint32_t>(task.firsts[row] + column);
        column += here;
      } else {
        for (int64_t j = 0; j < here; ++j) {
          if (column == task.size) ++row, column = 0;
          keys[0][j] = task.keys[2 * row];
          keys[1][j] = task.keys[2 * row + 1];
          two[j] = static_cast<uint32_t>(task.firsts[row] + column++);
        }
      }
      threefry(keys, one, two);
      for (int64_t j = 0; j < here; ++j) {
        pairs[2 * (i + j)] = one[j];
        pairs[2 * (i + j) + 1] = two[j];
      }
    }
  });
}

void choose(const Choices& task) {
  alignas(64) float total[kBlock], threshold[kBlock];
  for_blocks(task, [&](int64_t row, int64_t first, int64_t count) {
    const float* weights = task.weights + row * task.categories * task.size + first;
    const float* uniforms = task.uniforms + row * task.size + first;
    int32_t* chosen = task.chosen + row * task.size + first;
    std::fill(total, total + count, 0.0f);
    for (int64_t k = 0; k < task.categories; ++k) {
      const float* of_category = weights + k * task.size;
      for (int64_t j = 0; j < count; ++j) total[j] += of_category[j];
    }
    for (int64_t j = 0; j < count; ++j) threshold[j] = uniforms[j] * total[j];
    std::fill(total, total + count, 0.0f);
    std::fill(chosen, chosen + count, 0);
    // Only rounding could pass the last category.
    for (int64_t k = 0; k < task.categories - 1; ++k) {
      const float* of_category = weights + k * task.size;
      for (int64_t j = 0; j < count; ++j) {
        total[j] += of_category[j];
        chosen[j] += total[j] <= threshold[j];
      }
    }
  });
}

// Draws a block of log gamma variates of some shapes, [kBlock] both, of which the first `count` count.
inline void log_gamma_block(const uint32_t* key, uint32_t start, int64_t count, const float* a,
                            float* values) {
  alignas(64) float shape[kBlock], room[kBlock];
  GammaBlock block(key, start, count);
  for (int64_t i = 0; i < count; i += WIDTH) {
    const Vector x = load(a + i);
    const Vector valid = positive(x) ? x : constant(1);
    const Mask boosted = valid < 1.0f;
    store(shape + i, boosted ? valid + 1.0f : valid);
    Vector ratio = positive(x) ? constant(0) : constant(std::nanf(""));
    Words one, two = {};
    if (any(boosted)) {
      words(key, 0, lanes() + static_cast<uint32_t>(start + i), one, two);
      ratio = boosted ? exponential(one) / valid : ratio;
    }
    block.take(i, valid <= kMostSmall, ratio, two);
  }
  block.ask(a);
  const float* ratios = block.packed(block.ratios, room);
  block.draw_left(shape,
                  [=](int64_t i, Vector, Vector g) { return logarithm(g) - load(ratios + i); });
  std::memcpy(values, block.values, count * sizeof(float));
}

void log_gamma(const Gamma& task) {
  alignas(64) float a[kBlock];
  const Draws& draws = task.draws;
  for_blocks(draws, [&](int64_t row, int64_t first, int64_t count) {
    fill(task.shape, row, first, count, a);
    log_gamma_block(draws.keys + 2 * row, draws.offsets[row] + static_cast<uint32_t>(first), count,
                    a, draws.values + row * draws.size + first);
  });
}

void cir(const Cir& task) {
  alignas(64) float a[kBlock], theta[kBlock], h[kBlock], scale[kBlock], log_scale[kBlock],
      growth[kBlock], decay[kBlock], shape[kBlock], rates[kBlock], firsts[kBlock],
      room[6][kBlock];
  alignas(64) uint32_t word_room[kBlock];
  const Draws& draws = task.draws;
  for_blocks(draws, [&](int64_t row, int64_t first_column, int64_t count) {
    const uint32_t* key = draws.keys + 2 * row;
    const uint32_t start = draws.offsets[row] + static_cast<uint32_t>(first_column);
    fill(task.log_theta, row, first_column, count, theta);
    fill(task.shape, row, first_column, count, a);
    fill(task.step, row, first_column, count, h);
    fill(task.scale, row, first_column, count, scale);
    fill(task.log_scale, row, first_column, count, log_scale);
    fill(task.growth, row, first_column, count, growth);
    fill(task.decay, row, first_column, count, decay);
    GammaBlock block(key, start, count);
    for (int64_t i = 0; i < count; i += WIDTH) {
      Words one, two;
      words(key, 0, lanes() + static_cast<uint32_t>(start + i), one, two);
      const Vector first = exponential(one), log_theta = load(theta + i), x = load(a + i);
      const Mask given = (log_theta <= kMost) & positive(x) & positive(load(h + i));
      const Vector rate =
          given ? rate_of(log_theta, load(growth + i), load(decay + i)) : constant(0);
      const Vector over = first - rate;
      const Mask empty = over > 0.0f;
      store(rates + i, rate);
      store(firsts + i, first);
      store(shape + i, (given ? x : constant(1)) + (empty ? constant(1.0f) : constant(0.5f)));
      const Vector ratio = given ? over / x : constant(std::nanf(""));
      block.take(i, given & empty & (x <= kMostSmall), ratio, two);
      // If it knew i, GCC would split this loop in two and compute the words in each.
      asm volatile("" : "+r"(i));
    }
    block.ask(a);
    // Not below: the log of a gamma of large shape and the log of the scale may cancel.
    for (int64_t i = 0; i < count; i += WIDTH) {
      store(block.values + i, load(block.values + i) + load(log_scale + i));
    }
    const float* some_ratios = block.packed(block.ratios, room[0]);
    const float* some_rates = block.packed(rates, room[1]);
    const float* some_firsts = block.packed(firsts, room[2]);
    const float* some_thetas = block.packed(theta, room[3]);
    const float* some_steps = task.step.period == 1 ? h : block.packed(h, room[4]);
    const float* some_scales = task.scale.period == 1 ? scale : block.packed(scale, room[5]);
    const uint32_t* some_seconds = block.packed(block.seconds, word_room);
    block.draw_left(shape, [=](int64_t i, Vector shape, Vector gamma) {
      return transition(shape, gamma, load(some_rates + i), load(some_firsts + i),
                   load(some_ratios + i), load(some_scales + i), load(some_thetas + i),
                   load(some_steps + i), load(some_seconds + i));
    });
    std::memcpy(draws.values + row * draws.size + first_column, block.values,
                count * sizeof(float));
  });
}

#include "poisson.inl"
#include "normalise.inl"
#include "paths.inl"
