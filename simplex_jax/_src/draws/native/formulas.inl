// Proposals of variates and their acceptance, for vectors on CPUs and for threads of one number on
// GPUs. They use the same random words and formulas as `simplex_jax.draws.gamma`, `.poisson` and
// `.cir`, whose comments explain them.

constexpr int kRounds = 66;
constexpr float kRounding = 1e-5f;  // allowance for rounding in bounds that are tried first
constexpr float kMostSmall = 0.25f;  // as in gamma.py
constexpr float kInverseE = 0.36787944117144233f;
constexpr float kLeast = std::numeric_limits<float>::min();
constexpr float kMost = std::numeric_limits<float>::max();

ALWAYS_INLINE Mask positive(Vector x) { return (x >= kLeast) & (x <= kMost); }

// Two words for each variate, of some columns of a row.
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
  const Mask small = absolute(y) < 0.25f;
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
  const Mask inside = y > -1.0f;
  const Vector log_acceptance = d * (3.0f * remainder(inside ? y : constant(0)));
  const Mask taken = inside & (uniform(two) < exponential_of(log_acceptance));
  const Vector cube = (1.0f + y) * (1.0f + y) * (1.0f + y);
  return taken ? d * cube : constant(-1);
}

// The same proposal where simple bounds show that it is accepted, or -1 where they do not. R(y) =
// log1p(y) - y + y^2/2 - y^3/3 is the integral of -t^3 / (1 + t) from 0 to y: at least -y^4/4 for y
// above 0, and -y^4/4 / (1 + y) below; and exp(x) >= 1 + x. No draw depends on which of the two is
// tried first. For |y| < 1/4, kRounding is a hundred times the rounding error of the acceptance
// above; beyond, R(y) is above these bounds by at least |y|^5/20, some 500 times the rounding error
// of its logarithm.
ALWAYS_INLINE Vector surely_gamma(const uint32_t* key, uint32_t row, Words columns, Vector shape) {
  Words one, two;
  words(key, row, columns, one, two);
  const Vector d = shape - (1.0f / 3.0f);
  const Vector y = normal(one) * (1.0f / root(d)) / 3.0f;
  const Vector square = y * y, sum = 1.0f + y;
  const Vector least = -0.75f * d * square * square * (y < 0.0f ? 1.0f / sum : constant(1));
  const Mask taken = (y > -1.0f) & (uniform(two) < 1.0f - kRounding + least);
  return taken ? d * (sum * sum * sum) : constant(-1);
}

// Ahrens and Dieter's proposal for the log of a variate of small shape, given the ratio of an
// exponential and the shape, and whether it is accepted.
ALWAYS_INLINE Vector propose_small(Vector shape, Vector ratio, Words two, Mask& taken) {
  const Vector y = kInverseE - ratio;
  const Mask below = y <= 0.0f;
  const Vector x = below ? exponential_of(y) : -logarithm(ratio);
  const Vector log_x = below ? y : logarithm(x);
  const Vector log_acceptance = below ? -x : (shape - 1.0f) * log_x - shape * y;
  taken = uniform(two) < exponential_of(log_acceptance);
  return log_x;
}

// Where simple bounds show that this proposal is accepted. For y <= 0 the sum, the first terms of a
// series of positive numbers, is at most exp(-y) = 1 / x, and exp(-x) is at least 1 - x. For y > 0,
// where the sum is below 1, they show nothing. Again no draw depends on this: all rounding errors
// here are below a tenth of kRounding.
ALWAYS_INLINE Mask surely_small(Vector y, Words two) {
  const Vector sum = 1.0f - y * (1.0f - y * (0.5f - y / 6.0f));
  return (1.0f - kRounding - uniform(two)) * sum > 1.0f;
}

// The rate of a transition's Poisson variate.
ALWAYS_INLINE Vector rate_of(Vector log_theta, Vector growth, Vector decay) {
  constexpr float kMostRate = 7.9e28f;  // its root cannot overflow
  return smaller(exponential_of(log_theta - decay) / growth, kMostRate);
}

// The log of the new value of a transition, from a gamma variate of this shape; `first` is the
// exponential of the first word, and the second word is for the normal.
ALWAYS_INLINE Vector transition(Vector shape, Vector gamma, Vector rate, Vector first, Vector ratio,
                                Vector factor, Vector log_theta, Vector step, Words second) {
  constexpr float kLargeRate = 64.0f;
  const Vector rest = rate - first;
  const Mask empty = rest < 0.0f;
  // With a long step nearly all are empty.
  Vector value = logarithm(factor * gamma) - ratio;
  if (any(~empty)) {
    const Vector z = normal(second), twice = root(2.0f * larger(rest, 0.0f));
    const Vector noise = z * (twice + z / 2.0f);
    const Vector direct = logarithm(factor * ((z + twice) * (z + twice) / 2.0f + gamma));
    value = empty ? value : direct;
    const Mask drift = ~empty & (rate > kLargeRate) & (rate > shape);
    if (any(drift)) {
      const Vector moved = log_theta - step;
      const Vector back = moved - log_theta;
      const Vector lost = (log_theta - (moved - back)) - (step + back);
      const Vector relative = moved + (logarithm_1p((noise + (gamma - first)) / rate) + lost);
      value = drift ? relative : value;
    }
  }
  return value;
}

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
  const Vector log_factorial =
      chosen(kLogFactorial, integer_of(smaller(larger(count, 0), kFew - 1)));
  return count < kFew ? count * logarithm(rate) - rate - log_factorial : many;
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
  const Mask surely = (us >= 0.07f) & (v <= 0.9277f - 3.6224f / (b - 2.0f));
  const Mask never = (k < 0.0f) | ((us < 0.013f) & (v > us));
  const Mask below =
      logarithm(v * inverse_alpha / (a / (us * us) + b)) <= log_mass(k, rate);
  return surely | (~never & below) ? k : constant(-1);
}

// 1 - exp(-x) for x >= 0, to relative rounding error (Kahan).
ALWAYS_INLINE Vector complement(Vector x) {
  const Vector u = exponential_of(-x);
  const Vector rest = (1.0f - u) * x / -logarithm(u);
  return u == 1.0f ? x : rest;
}

// Counts for rates up to 10: the number of tail probabilities above a uniform.
ALWAYS_INLINE Vector by_inversion(Words bits, Vector rate) {
  const Vector v = (float_of(bits) + 0.5f) * 0x1p-32f;
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
