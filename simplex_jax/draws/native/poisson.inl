// Poisson variates, as in `simplex_jax.draws.poisson`.

constexpr float kInversionLimit = 10.0f;
constexpr int kLargestSmall = 50;

// ((1 + t) log1p(t) - t) / t^2 for |t| <= 1/4.
ALWAYS_INLINE Vector deviance(Vector t) {
  constexpr float kDeviance[] = {-9.332190984423505e-07f, 4.720336164609762e-06f,
                                 -2.3184027668321505e-05f, 0.0001299782161368057f,
                                 -0.0007812696858309209f, 0.005208380054682493f,
                                 -0.0416666641831398f,    0.5f};
  const Vector near = t * t * polynomial(kDeviance, t / 0.25f);
  return absolute(t) < 0.25f ? near : (1.0f + t) * logarithm_1p(t) - t;
}

// The log probability of counts at rates of at least 10, in Loader's form.
ALWAYS_INLINE Vector log_mass(Vector count, Vector rate) {
  constexpr int kFew = 10;
  constexpr float kLogFactorial[kFew] = {0.0f,
                                         0.0f,
                                         0.6931471805599453f,
                                         1.791759469228055f,
                                         3.1780538303479458f,
                                         4.787491742782046f,
                                         6.579251212010101f,
                                         8.525161361065415f,
                                         10.60460290274525f,
                                         12.801827480081469f};
  constexpr float kLogRootTwoPi = 0.9189385332046727f;
  const Vector k = larger(count, kFew);
  const Vector inverse = 1.0f / (k * k);
  const Vector stirling =
      (1.0f / 12 - inverse * (1.0f / 360 - inverse * (1.0f / 1260 - inverse / 1680.0f))) / k;
  const Vector many = -rate * deviance((k - rate) / rate) - stirling - 0.5f * logarithm(k) -
                      kLogRootTwoPi;
  const Integers place = __builtin_convertvector(smaller(larger(count, 0), kFew - 1), Integers);
  Vector log_factorial;
  for (int j = 0; j < WIDTH; ++j) log_factorial[j] = kLogFactorial[place[j]];
  return count < kFew ? count * logarithm(rate) - rate - log_factorial : many;
}

ALWAYS_INLINE Vector floor_of(Vector x) {
  for (int j = 0; j < WIDTH; ++j) x[j] = __builtin_floorf(x[j]);
  return x;
}

// Hoermann's proposal, or -1 where it is rejected.
ALWAYS_INLINE Vector propose_count(const uint32_t* key, uint32_t row, Words columns, Vector rate) {
  Words one, two;
  words(key, row, columns, one, two);
  const Vector us = magnitude(one), v = uniform(two);
  const Vector u = side(one) ? us - 0.5f : 0.5f - us;
  const Vector b = 0.931f + 2.53f * root(rate);
  const Vector a = -0.059f + 0.02483f * b;
  const Vector inverse_alpha = 1.1239f + 1.1328f / (b - 3.4f);
  const Vector whole = floor_of(rate);
  const Vector k = whole + floor_of((2.0f * a / us + b) * u + 0.43f + (rate - whole));
  const Integers surely = (us >= 0.07f) & (v <= 0.9277f - 3.6224f / (b - 2.0f));
  const Integers never = (k < 0.0f) | ((us < 0.013f) & (v > us));
  const Integers below =
      logarithm(v * inverse_alpha / (a / (us * us) + b)) <= log_mass(k, rate);
  return surely | (~never & below) ? k : constant(-1);
}

// 1 - exp(-x) for x >= 0, to rounding of itself (Kahan).
ALWAYS_INLINE Vector complement(Vector x) {
  const Vector u = exponential_of(-x);
  const Vector rest = (1.0f - u) * x / -logarithm(u);
  return u == 1.0f ? x : rest;
}

// Counts at rates up to 10: how many of the tail probabilities exceed a uniform.
ALWAYS_INLINE Vector by_inversion(Words bits, Vector rate) {
  const Vector v = (__builtin_convertvector(bits, Vector) + 0.5f) * 0x1p-32f;
  Vector mass = exponential_of(-rate), tail = complement(rate), count = constant(0);
  for (int number = 0; number < kLargestSmall && any(v < tail); ++number) {
    count += v < tail ? constant(1) : constant(0);
    mass = mass * rate / (number + 1.0f);
    const Vector ratio = rate / (number + 3.0f);
    const Vector bound = mass * rate / (number + 2.0f) / (1.0f - ratio);
    const Vector left = larger(tail - mass, 0), most = ratio < 1.0f ? bound : constant(1);
    tail = left < most ? left : most;
  }
  return count;
}

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
      const Integers many = (rate >= kInversionLimit) & (rate <= kMost);
      store(large + i, many ? rate : constant(-1));
      const Words here = lanes() + static_cast<uint32_t>(start + i);
      std::memcpy(columns + i, &here, sizeof(Words));
    }
    const auto propose = [=](uint32_t row, Words columns, Vector rate) {
      const Integers needed = rate > 0.0f;
      if (!any(needed)) return constant(0);
      return needed ? propose_count(key, row, columns, rate) : constant(0);
    };
    accepted(count, columns, large, counts, propose, 1, propose);
    for (int64_t i = 0; i < count; i += WIDTH) {
      const Vector rate = load(rates + i);
      const Integers valid = (rate >= 0.0f) & (rate <= kMost);
      Words one, two;
      words(key, 0, lanes() + static_cast<uint32_t>(start + i), one, two);
      const Vector few = by_inversion(one, valid & (rate < kInversionLimit) ? rate : constant(0));
      const Vector value = rate < kInversionLimit ? few : load(counts + i);
      store(counts + i, valid ? value : constant(std::nanf("")));
    }
    std::memcpy(draws.values + row * draws.size + first, counts, count * sizeof(float));
  });
}
