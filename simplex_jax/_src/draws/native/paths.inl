// Tables, vectors and moves of forests of probability vectors, as in
// `simplex_jax.samplers.seating` and `.dirichlet_paths`, whose comments explain them.

constexpr float kLeastShape = 1e-12f;
constexpr float kLowest = -1e12f;
constexpr float kHalfLogTwoPi = 0.9189385332046727f;

// log Gamma(a) - (a - 1/2) log a + a - log(2 pi) / 2, given log a.
ALWAYS_INLINE Vector stirling(Vector a, Vector log_a) {
  const Mask small = a < 4.0f;
  const Vector z = small ? a + 4.0f : a;
  const Vector x = 1.0f / (z * z);
  const Vector series = (1.0f / 12 - x * (1.0f / 360 - x * (1.0f / 1260 - x / 1680.0f))) / z;
  if (!any(small)) return series;
  const Vector low = small ? a : constant(1);
  const Vector product = logarithm((low + 1.0f) * (low + 2.0f) * (low + 3.0f));
  const Vector moved = (z - 0.5f) * logarithm(z) - 4.0f - product - (low + 0.5f) * log_a;
  return small ? series + moved : series;
}

// The log of k! over k log k - k.
ALWAYS_INLINE Vector log_excess(Vector k) {
  const Vector one = larger(k, 1), log_one = logarithm(one);
  return k > 0.0f ? kHalfLogTwoPi + 0.5f * log_one + stirling(one, log_one) : constant(0);
}

ALWAYS_INLINE Vector deviance_from(Vector mean, Vector k) {
  const Vector t = (k - mean) / mean;
  const Mask some = t > -1.0f;  // of k = 0, t log t is 0
  return mean * (some ? deviance(some ? t : constant(0)) : constant(1));
}

// The log of the probability of k successes in n trials, but for a constant.
ALWAYS_INLINE Vector log_binomial(Vector k, Vector n, Vector p) {
  return -log_excess(k) - log_excess(n - k) - deviance_from(n * p, k) -
         deviance_from(n * (1.0f - p), n - k);
}

// Numbers of tables whose variance is at least 256, and where it is.
inline Vector many_tables(const uint32_t* key, Words columns, Vector n, Vector a, Mask& many) {
  const Vector s = n / (a + n), y = logarithm_1p(n / a), rest = 1.0f - s;
  const Vector series = s * s * (0.5f + s / 3.0f) - remainder(s < 0.25f ? -s : constant(0));
  const Vector excess = s < 0.25f ? series : y - s;
  const Mask up = n > 2.5f * a;
  const Vector ends = s * (1.0f + rest) / (12.0f * a);
  const Vector cubes = 1.0f - rest * rest * rest;
  const Vector mean = up ? a * y + (0.5f * s + ends)
                         : a * (s * s / rest - excess) - (0.5f * s + ends);
  const Vector variance =
      a * excess - 0.5f * s * rest + (s * (1.0f + rest) - 2.0f * cubes) / (12.0f * a);
  many = variance >= 256.0f;
  if (!any(many)) return constant(0);
  const Vector third = a * (excess - s * s);
  const Vector fourth = a * (y - 7.0f * s + 6.0f * s * (1.0f + rest) - 2.0f * cubes);
  const Vector square = many ? variance - 1.0f / 12 : constant(1), deviation = root(square);
  const Vector skew = (up ? third : -third) / (square * deviation);
  Words one, two;
  words(key, 0, columns, one, two);
  const Vector z = normal(one);
  const Vector bent = z + skew * (z * z - 1.0f) / 6.0f +
                      fourth / (square * square) * z * (z * z - 3.0f) / 24.0f -
                      skew * skew * z * (2.0f * z * z - 5.0f) / 36.0f;
  const Vector drawn = floor_of(mean + deviation * bent + 0.5f);
  const Vector least = up ? constant(1) : constant(0);
  const Vector most = up ? n : n - 1.0f;
  const Vector above = drawn > least ? drawn : least;
  const Vector inside = above < most ? above : most;
  return up ? inside : n - inside;
}

// Numbers of tables of n customers at concentration a.
inline Vector tables_of(const uint32_t* key, Words columns, Vector n, Vector a) {
  const Mask up = n > 2.5f * a;
  Mask many = {};
  Vector drawn = constant(0);
  if (any(n >= 1024.0f)) drawn = many_tables(key, columns, n, a, many);
  Vector i = up ? constant(0) : n, found = constant(0);
  for (uint32_t row = 0;; ++row) {
    const Mask going = ~many & ((up & (i < n - 1.0f)) | (~up & (i > 1.0f)));
    if (!any(going)) break;
    Words gap, word;
    words(key, row, columns, gap, word);
    const Vector last = up ? i + 1.0f : larger(i - 1.0f, 1);
    const Vector ratio = up ? a / last : last / a;
    const Vector steps = floor_of(exponential(gap) / logarithm_1p(ratio));
    const Vector j = up ? last + steps : last - steps;
    const Vector u = uniform(word);
    const Mask taken = (up & (u * (a + j) < a + last) & (j < n)) |
                       (~up & (u * last * (a + j) < j * (a + last)) & (j >= 1.0f));
    i = going ? j : i;
    found += (taken & going) ? constant(1) : constant(0);
  }
  const Vector counted = up ? found + (n > 0.0f ? constant(1) : constant(0)) : n - found;
  return many ? drawn : counted;
}

// Binomial variates by the times from one success to the next.
inline Vector wait(const uint32_t* key, Words columns, Vector trials, Vector p) {
  const Vector times = absolute(logarithm_1p(-p));  // of p = 0 not -0: the time is infinite
  Vector i = constant(0), found = constant(0);
  for (uint32_t row = 0; any(i < trials); ++row) {
    Words one, two;
    words(key, row, columns, one, two);
    i = i + 1.0f + floor_of(exponential(one) / times);
    found += i <= trials ? constant(1) : constant(0);
  }
  return found;
}

// Binomial variates of mean 10 or more, where they are needed, by transformed rejection.
inline Vector reject(const uint32_t* key, Words columns, Vector trials, Vector rare, Mask needed) {
  const Vector n = needed ? trials : constant(40), p = needed ? rare : constant(0.5f);
  const Vector deviation = root(n * p * (1.0f - p));
  const Vector b = 1.15f + 2.53f * deviation;
  const Vector a = -0.0873f + 0.0248f * b + 0.01f * p;
  const Vector alpha = (2.83f + 5.1f / b) * deviation;
  const Vector at_mode = log_binomial(floor_of((n + 1.0f) * p), n, p);
  Vector drawn = needed ? constant(-1) : constant(0);
  for (uint32_t row = 0; row < kRounds && any(drawn < 0.0f); ++row) {
    Words one, two;
    words(key, row, columns, one, two);
    const Vector us = magnitude(one), v = uniform(two);
    const Vector u = side(one) ? us - 0.5f : 0.5f - us;
    const Vector k = floor_of((2.0f * a / us + b) * u + n * p + 0.5f);
    const Mask inside = (k >= 0.0f) & (k <= n);
    const Vector ratio = log_binomial(inside ? k : constant(0), n, p) - at_mode;
    const Mask below = logarithm(v * alpha / (a / (us * us) + b)) <= ratio;
    const Mask taken = inside & (((us >= 0.07f) & (v <= 0.92f - 4.2f / b)) | below);
    drawn = ((drawn < 0.0f) & taken) ? k : drawn;
  }
  return drawn < 0.0f ? constant(std::nanf("")) : drawn;
}

// Of some numbers of tables, those of the first kind, which has these log odds.
inline Vector first_kind(const uint32_t* keys, Words columns, Vector tables, Vector odds) {
  const Vector rare = 1.0f / (1.0f + exponential_of(absolute(odds)));
  const Mask by_waiting = tables * rare < 10.0f;
  Vector drawn = wait(keys, columns, by_waiting ? tables : constant(0), rare);
  if (any(~by_waiting)) {
    const Vector frequent = reject(keys + 2, columns, tables, rare, ~by_waiting);
    drawn = by_waiting ? drawn : frequent;
  }
  return odds > 0.0f ? tables - drawn : drawn;
}

// Numbers of a row from column `first` on, padded with zeros.
ALWAYS_INLINE void fetch(const float* row, int64_t count, float* block) {
  std::memcpy(block, row, count * sizeof(float));
  if (count < kBlock) std::memset(block + count, 0, (kBlock - count) * sizeof(float));
}

void pass_tables(const Tables& task) {
  const Forests& forests = task.forests;
  const int64_t size = forests.size, blocks = (size + kBlock - 1) / kBlock;
  alignas(64) float x[kBlock];
  for (int64_t k;
       (k = forests.taken->fetch_add(1, std::memory_order_relaxed)) < forests.number() * blocks;) {
    const int64_t path = k / blocks, first = k % blocks * kBlock;
    const int64_t count = std::min(kBlock, size - first), batch = path / forests.forests;
    const int32_t* parents = forests.parents + batch * forests.times;
    const uint32_t start = static_cast<uint32_t>(path % forests.forests * size + first);
    const auto row = [&](int64_t t) { return (path * forests.times + t) * size + first; };
    const float* base = forests.base + path * size + first;
    float* base_tables = task.base_tables + path * size + first;
    std::fill(base_tables, base_tables + count, 0.0f);
    for (int64_t t = 0; t < forests.times; ++t) {
      std::memcpy(task.customers + row(t), task.counts + row(t), count * sizeof(float));
    }
    for (int64_t t = forests.times - 1; t >= 0; --t) {
      fetch(task.customers + row(t), count, x);
      Lanes busy;
      for (int64_t i = 0; i < count; i += WIDTH) {
        const Mask some = load(x + i) != 0.0f;
        if (any(some)) busy.add(some, lanes() + static_cast<uint32_t>(i));
      }
      if (!busy.number) continue;
      busy.end(count);
      const int64_t at = path * forests.times + t;
      const float time = task.steps.time[at];
      const float log_total = std::log(task.steps.total[at]);
      const float log_from_base = std::log(-std::expm1(-time));
      const float* parent = parents[t] < 0 ? base : task.position + row(parents[t]);
      float* above = parents[t] < 0 ? nullptr : task.customers + row(parents[t]);
      const uint32_t* keys = task.keys + 6 * (batch * forests.times + t);
      double sums[3] = {0, 0, 0};
      for (int64_t i = 0; i < busy.number; i += WIDTH) {
        const Words places = load(busy.places + i);
        Vector n, log_base, log_parent;
        for (int j = 0; j < WIDTH; ++j) {
          n[j] = x[places[j]];
          log_base[j] = base[places[j]];
          log_parent[j] = parent[places[j]];
        }
        const Vector from_base = log_base + log_from_base, from_parent = log_parent - time;
        const Vector odds = from_parent - from_base;
        const Vector log_q = (odds > 0.0f ? from_parent : from_base) +
                             logarithm_1p(exponential_of(-absolute(odds)));
        const Vector shape = exponential_of(log_q + log_total);
        const Vector a = shape < kLeastShape ? constant(kLeastShape) : shape;
        const Words columns = places + start;
        const Vector tables = tables_of(keys, columns, n, a);
        const Vector inherited = first_kind(keys + 2, columns, tables, odds);
        const int64_t here = std::min<int64_t>(WIDTH, busy.number - i);
        for (int64_t j = 0; j < here; ++j) {
          base_tables[places[j]] += tables[j] - inherited[j];
          if (above) above[places[j]] += inherited[j];
          sums[0] += tables[j];
          sums[1] += inherited[j];
          sums[2] += n[j];
        }
      }
      // Whole numbers, so that their order does not matter.
      for (int j = 0; j < 3; ++j) {
        if (std::isfinite(sums[j])) {
          task.sums[3 * at + j].fetch_add(static_cast<int64_t>(sums[j]), std::memory_order_relaxed);
        } else {
          task.strange[path].store(true, std::memory_order_relaxed);
        }
      }
    }
  }
}

void draw_vectors(const Vectors& task) {
  const Forests& forests = task.forests;
  const int64_t size = forests.size;
  alignas(64) float a[kBlock], x[kBlock], room[kBlock];
  const std::unique_ptr<float[]> base(new float[size + kBlock]);  // probabilities
  for (int64_t path;
       (path = forests.taken->fetch_add(1, std::memory_order_relaxed)) < forests.number();) {
    const int64_t batch = path / forests.forests;
    const int32_t* parents = forests.parents + batch * forests.times;
    const auto row = [&](int64_t t) { return (path * forests.times + t) * size; };
    for (int64_t first = 0; first < size; first += kBlock) {
      fetch(forests.base + path * size + first, std::min(kBlock, size - first), x);
      for (int64_t i = 0; i < kBlock; i += WIDTH) {
        store(base.get() + first + i, exponential_of(load(x + i)));
      }
    }
    for (int64_t t = 0; t < forests.times; ++t) {
      const int64_t at = path * forests.times + t;
      const float time = task.steps.time[at], total = task.steps.total[at];
      const float from_base = total * -std::expm1(-time), from_parent = total * std::exp(-time);
      float* values = task.position + row(t);
      for (int64_t first = 0; first < size; first += kBlock) {
        const int64_t count = std::min(kBlock, size - first);
        fetch(task.customers + row(t) + first, count, x);
        if (parents[t] >= 0) fetch(task.position + row(parents[t]) + first, count, room);
        for (int64_t i = 0; i < kBlock; i += WIDTH) {
          Vector shape = from_base * load(base.get() + first + i);
          if (parents[t] >= 0) shape += from_parent * exponential_of(load(room + i));
          store(a + i, (shape < kLeastShape ? constant(kLeastShape) : shape) + load(x + i));
        }
        const auto start = static_cast<uint32_t>(path % forests.forests * size + first);
        log_gamma_block(task.keys + 2 * (batch * forests.times + t), start, count, a,
                        values + first);
      }
      normalise_row(values, size, values);
      for (int64_t v = 0; v < size; ++v) values[v] = values[v] < kLowest ? kLowest : values[v];
    }
  }
}

// What categories add to the log density of Dirichlet(total q) at p, where `mean` is q.
ALWAYS_INLINE Vector log_density(Vector log_p, Vector p, Vector mean, float total) {
  // (exp(-d) - 1 + d) / d^2 for |d| < 1: a Taylor series.
  constexpr float kDivergence[] = {-1.0f / 39916800, 1.0f / 3628800, -1.0f / 362880, 1.0f / 40320,
                                   -1.0f / 5040,     1.0f / 720,     -1.0f / 120,    1.0f / 24,
                                   -1.0f / 6,        0.5f};
  const float least = kLeastShape / total;
  const Vector q = mean < least ? constant(least) : mean;
  const Vector log_q = logarithm(q), a = total * q, log_a = logarithm(a), d = log_q - log_p;
  const Mask near = absolute(d) < 1.0f;
  const Vector close = near ? d : constant(0);
  const Vector divergence =
      near ? a * (close * close * polynomial(kDivergence, close)) : a * (d - 1.0f) + total * p;
  return 0.5f * log_a - stirling(a, log_a) - divergence;
}

// The categories of a forest that are counted anywhere. Of each vector those are kept that it or one
// of its descendants counts; the others are one, the rest.
struct Counted {
  const int64_t times;
  const int32_t* parents;
  // Of the kept categories of all vectors, one vector after the other, each from `begin` on, a
  // multiple of 16: probabilities of base, parent and vector. `here` is 0 for padding.
  std::unique_ptr<int64_t[]> begin;
  std::unique_ptr<float[]> base, before, log_p, p, here;
  // Of the rest of each vector its log probability and the probabilities of parent and base, [times].
  std::unique_ptr<float[]> log_rest, parent_rest, base_rest;

  Counted(const Moves& task, const int32_t* parents, int64_t path)
      : times(task.forests.times),
        parents(parents),
        begin(new int64_t[times + 1]()),
        log_rest(new float[times]),
        parent_rest(new float[times]),
        base_rest(new float[times]) {
    const int64_t size = task.forests.size, blocks = (size + kBlock - 1) / kBlock;
    const float* counts = task.counts + path * times * size;
    const float* position = task.position + path * times * size;
    const float* log_base = task.forests.base + path * size;
    int64_t number = 0;
    std::unique_ptr<uint32_t[]> places(new uint32_t[size]);
    std::unique_ptr<float[]> totals(new float[blocks * kBlock]());
    std::fill(totals.get() + size, totals.get() + blocks * kBlock, 1.0f);
    for (int64_t t = 0; t < times; ++t) {
      for (int64_t v = 0; v < size; ++v) totals[v] += counts[t * size + v];
    }
    for (int64_t v = 0; v < size; ++v) {
      places[number] = static_cast<uint32_t>(v);
      number += totals[v] != 0;
    }
    const int64_t room = (number + 15) / 16 * 16;
    std::unique_ptr<float[]> of_base(new float[room]), kept(new float[times * room]());
    std::unique_ptr<float[]> logs(new float[times * room]), raised(new float[times * room]);
    const auto gather = [&](const float* from, float* logs, float* raised) {
      for (int64_t i = 0; i < number; ++i) logs[i] = from[places[i]];
      std::fill(logs + number, logs + room, kLowest);
      for (int64_t i = 0; i < room; i += WIDTH) store(raised + i, exponential_of(load(logs + i)));
    };
    gather(log_base, of_base.get(), of_base.get());
    for (int64_t t = times - 1; t >= 0; --t) {
      float *here = kept.get() + t * room, *above = kept.get() + std::max(parents[t], 0) * room;
      for (int64_t i = 0; i < number; ++i) here[i] += counts[t * size + places[i]];
      for (int64_t i = 0; i < number; ++i) here[i] = here[i] != 0 ? 1.0f : 0.0f;
      for (int64_t i = 0; i < number && parents[t] >= 0; ++i) above[i] += here[i];
      gather(position + t * size, logs.get() + t * room, raised.get() + t * room);
    }
    // Of those that are counted nowhere, by vector; the last are of the base.
    std::unique_ptr<float[]> nowhere(new float[times + 1]);
    for (int64_t t = 0; t <= times; ++t) {
      nowhere[t] = log_sum(t < times ? position + t * size : log_base, totals.get(), size);
    }
    for (int64_t t = 0; t < times; ++t) {
      const float* here = kept.get() + t * room;
      const float of_row = log_sum(logs.get() + t * room, here, room);
      const float most = std::max(of_row, nowhere[t]);
      log_rest[t] = most + std::log1p(std::exp(std::min(of_row, nowhere[t]) - most));
      const auto sum = [&](float rest, const float* row) {
        double total = std::exp(rest);
        for (int64_t i = 0; i < number; ++i) total += here[i] == 0 ? row[i] : 0.0f;
        return static_cast<float>(total);
      };
      const float* above = raised.get() + std::max(parents[t], 0) * room;
      base_rest[t] = sum(nowhere[times], of_base.get());
      parent_rest[t] = parents[t] < 0 ? 0 : sum(nowhere[parents[t]], above);
      begin[t + 1] = begin[t] + (std::count(here, here + room, 1.0f) + 15) / 16 * 16;
    }
    for (auto* packed : {&base, &before, &log_p, &p, &this->here}) {
      packed->reset(new float[begin[times]]());
    }
    for (int64_t t = 0; t < times; ++t) {
      int64_t at = begin[t];
      for (int64_t i = 0; i < room; ++i) {
        if (kept[t * room + i] == 0) continue;
        base[at] = of_base[i];
        before[at] = raised[std::max(parents[t], 0) * room + i];  // of weight 0 without a parent
        log_p[at] = logs[t * room + i];
        p[at] = raised[t * room + i];
        here[at++] = 1;
      }
    }
  }

  // The log of a sum of exponentials of a row, where a mask is 0.
  static float log_sum(const float* row, const float* mask, int64_t size) {
    // The last numbers, which may not fill a vector.
    const int64_t last = size / 16 * 16;
    alignas(64) float ends[16], left_out[16];
    std::fill(std::copy(row + last, row + size, ends), ends + 16, 0.0f);
    std::fill(std::copy(mask + last, mask + size, left_out), left_out + 16, 1.0f);
    const auto at = [&](int64_t i) {
      const Vector value = load(i < last ? row + i : ends + (i - last));
      return load(i < last ? mask + i : left_out + (i - last)) == 0.0f ? value : constant(kLowest);
    };
    Vector peaks = constant(kLowest);
    for (int64_t i = 0; i < last + 16; i += WIDTH) {
      const Vector x = at(i);
      peaks = x > peaks ? x : peaks;
    }
    float peak = kLowest;
    for (int j = 0; j < WIDTH; ++j) peak = std::max(peak, static_cast<float>(peaks[j]));
    if (peak <= kLowest) return kLowest;
    double sum = 0;
    for (int64_t first = 0; first < last + 16; first += kBlock) {
      alignas(64) float sums[16] = {};
      for (int64_t i = first; i < std::min(first + kBlock, last + 16); i += WIDTH) {
        float* part = sums + i % 16;
        store(part, load(part) + exponential_of(at(i) - peak));
      }
      for (const float part : sums) sum += part;
    }
    return peak + std::log(static_cast<float>(sum));
  }

  // The log density of the vectors, but for what depends on neither c nor r.
  double density(const float* gaps, float c, float r) const {
    double sum = 0;
    for (int64_t t = 0; t < times; ++t) {
      const int32_t parent = parents[t];
      const double time = parent < 0 ? std::numeric_limits<double>::infinity()
                                     : static_cast<double>(r * gaps[t]);
      const auto total = static_cast<float>(-c / std::expm1(-2 * time));
      const auto from_base = static_cast<float>(-std::expm1(-time));
      const auto from_parent = static_cast<float>(std::exp(-time));
      for (int64_t first = begin[t]; first < begin[t + 1]; first += kBlock) {
        alignas(64) float sums[16] = {};
        for (int64_t i = first; i < std::min(first + kBlock, begin[t + 1]); i += WIDTH) {
          const Vector mean = from_base * load(base.get() + i) + from_parent * load(before.get() + i);
          const Vector value = log_density(load(log_p.get() + i), load(p.get() + i), mean, total);
          float* part = sums + i % 16;
          store(part, load(part) + (load(here.get() + i) != 0.0f ? value : constant(0)));
        }
        for (const float part : sums) sum += part;
      }
      if (log_rest[t] > kLowest) {
        const float mean = from_base * base_rest[t] + from_parent * parent_rest[t];
        const Vector log_p = constant(log_rest[t]);
        sum += log_density(log_p, exponential_of(log_p), constant(mean), total)[0];
      }
      const Vector log_total = logarithm(constant(total));
      sum += (stirling(constant(total), log_total) - 0.5f * log_total)[0];
    }
    return sum;
  }
};

void move_paths(const Moves& task) {
  const Forests& forests = task.forests;
  for (int64_t path;
       (path = forests.taken->fetch_add(1, std::memory_order_relaxed)) < forests.number();) {
    const int64_t batch = path / forests.forests;
    const float* gaps = task.gaps + batch * forests.times;
    const int32_t* parents = forests.parents + batch * forests.times;
    const float* prior = task.priors + 3 * batch;
    const Counted counted(task, parents, path);
    const auto density = [&](float c, float r) {
      const double deviation = prior[0], apart = (std::log(double(r)) - prior[1]) / prior[2];
      return counted.density(gaps, c, r) + 0.5 * std::log(double(c)) -
             std::log(c + 1 / (deviation * deviation)) - 0.5 * apart * apart;
    };
    float c = task.before[0][path], r = task.before[1][path], accepted = 0;
    double now = density(c, r);
    for (int64_t move = path * task.moves; move < (path + 1) * task.moves; ++move) {
      const float new_c = c * task.factors[2 * move], new_r = r * task.factors[2 * move + 1];
      const double then = density(new_c, new_r);
      if (task.limits[move] < then - now) c = new_c, r = new_r, now = then, ++accepted;
    }
    task.after[0][path] = c;
    task.after[1][path] = r;
    task.accepted[path] = accepted;
  }
}
