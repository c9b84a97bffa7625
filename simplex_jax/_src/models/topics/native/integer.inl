// Collapsed Gibbs sweeps in whole numbers, which weigh all topics for every token.
//
// (count + alpha) * scale and the weights are rounded up to 16 bits, of which a machine multiplies
// twice as many at a time as floats, and adds them up exactly. A topic drawn from these is accepted
// with the share that its mass has of the rounded one, nearly always, or another one is drawn:
// rejection sampling, of the exact law.

constexpr int kIntegerCursors = 4;
constexpr uint32_t kTries = 16;  // draws of a token before all its masses are added up as floats
constexpr int kPair = 2 * kLanes;  // a lane holds two neighbouring topics of each row

template <typename Label>
struct IntegerCursor {
  const int32_t* tokens;
  Label* labels;
  int16_t* masses;   // without the token at the position, [groups * 64 + 1]; the last for none
  int32_t* partial;  // running sums of each lane over groups of topics, [groups * 16], after zeros
  int32_t* tally;
  uint32_t id;
  uint32_t length;
  uint32_t position;
  uint32_t old;  // label of the token at the position
  uint32_t lane;
  uint32_t topic;
  int32_t left;   // what is drawn of the masses, in their order
  int32_t scale;  // of this document
  int64_t sweep;
  alignas(64) uint32_t u[kChunk];
  alignas(64) float v[kChunk];
  alignas(64) int32_t running[24];  // sums of lanes, from 8 on, after a zero
};

// Products of 2 * WIDTH numbers, neighbours added up.
ALWAYS_INLINE Integers products(const int16_t* a, const int16_t* b) {
#if WIDTH == 16 && defined(SIMPLEX_X86)
  return reinterpret_cast<Integers>(_mm512_madd_epi16(_mm512_loadu_si512(a), _mm512_loadu_si512(b)));
#elif WIDTH == 8 && defined(SIMPLEX_X86)
  return reinterpret_cast<Integers>(
      _mm256_madd_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(a)),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b))));
#else
  Integers sums;
  for (int j = 0; j < WIDTH; ++j) sums[j] = a[2 * j] * b[2 * j] + a[2 * j + 1] * b[2 * j + 1];
  return sums;
#endif
}

// The first third of a draw: sums. The next word's numbers are fetched bit by bit meanwhile.
template <typename Label>
ALWAYS_INLINE void sum(const Task& task, IntegerCursor<Label>& cursor) {
  const uint32_t i = cursor.position;
  const size_t groups = task.groups, width = groups * kGroup;
  const int16_t* masses = cursor.masses;
  const int16_t* levels = task.levels + cursor.tokens[i] * width;
  int32_t* partial = cursor.partial;
  const int16_t* ahead = task.levels + cursor.tokens[i + 1 < cursor.length ? i + 1 : i] * width;
  Integers sums[kParts] = {};
  for (size_t g = 0; g < groups; ++g) {
    for (int row = 0; row < kGroup; row += kPair) {
      __builtin_prefetch(ahead + g * kGroup + row, 0, 2);
      for (int p = 0; p < kParts; ++p) {
        const size_t at = g * kGroup + row + 2 * p * WIDTH;
        sums[p] += products(masses + at, levels + at);
      }
    }
    for (int p = 0; p < kParts; ++p) {
      std::memcpy(partial + g * kLanes + p * WIDTH, &sums[p], sizeof(Integers));
    }
  }
  cursor.lane = search(partial + (groups - 1) * kLanes, cursor.u[i % kChunk], cursor.running + 8,
                       &cursor.left);
}

// The second: a topic of the lane.
template <typename Label>
ALWAYS_INLINE void propose(const Task& task, IntegerCursor<Label>& cursor) {
  const uint32_t lane = cursor.lane;
  const size_t word = cursor.tokens[cursor.position];
  const int32_t* partial = cursor.partial + lane;
  int32_t left = cursor.left - cursor.running[lane + 7];
  uint32_t group = 0;
  for (uint32_t n = task.groups; n > 1;) {  // without a jump that depends on the sums
    const uint32_t half = n / 2;
    group += half & -uint32_t(partial[(group + half - 1) * kLanes] <= left);
    n -= half;
  }
  left -= (partial - kLanes)[group * kLanes];
  const size_t first = group * kGroup + 2 * lane;
  const int16_t* masses = cursor.masses + first;
  const int16_t* levels = task.levels + word * task.groups * kGroup + first;
  // The lane's topics in a group are 0, 1, 32 and 33; which one takes no jump either.
  const int32_t one = masses[0] * levels[0], two = one + masses[1] * levels[1];
  const int32_t three = two + masses[kPair] * levels[kPair];
  const uint32_t half = two <= left, odd = (one <= left) ^ half ^ (three <= left);
  cursor.topic = first + kPair * half + odd;
}

// Whether a topic is accepted. What was rounded up lies above the whole number before it, which
// decides nearly always; the weights themselves are far away in memory.
template <typename Label>
ALWAYS_INLINE bool accepted(const Task& task, const IntegerCursor<Label>& cursor, float v) {
  const size_t word = cursor.tokens[cursor.position], topic = cursor.topic;
  const int32_t mass = cursor.masses[topic];
  const int32_t level = task.levels[word * task.groups * kGroup + topic];
  if (level == 0) return false;
  const float drawn = v * static_cast<float>(mass * level);
  if (__builtin_expect(drawn < static_cast<float>((mass - 1) * (level - 1)), 1)) return true;
  const float alpha = task.alpha[topic] * static_cast<float>(cursor.scale);
  const float exact = static_cast<float>(mass - rounded_up(alpha)) + alpha;
  if (drawn < exact * static_cast<float>(level - 1)) return true;
  return drawn < exact * (task.weights[word * task.rows * kLanes + topic] * kUnits);
}

// Draws until a topic is accepted, with random numbers of their own.
template <typename Label>
__attribute__((noinline)) void again(const Task& task, IntegerCursor<Label>& cursor,
                                     float* masses) {
  const uint32_t i = cursor.position;
  uint32_t u[kChunk];
  float v[kChunk];
  for (uint32_t t = 1; t <= kTries; ++t) {
    uniforms(task.keys + 2 * cursor.sweep, cursor.id, i + (t << 16), 1, u, v);
    cursor.lane = search(cursor.partial + (task.groups - 1) * kLanes, u[0], cursor.running + 8,
                         &cursor.left);
    propose(task, cursor);
    if (accepted(task, cursor, v[0])) return;
  }
  for (int64_t k = 0; k < task.num_topics; ++k) {
    const int32_t none = rounded_up(task.alpha[k] * static_cast<float>(cursor.scale));
    masses[k] = static_cast<float>((cursor.masses[k] - none) / cursor.scale) + task.alpha[k];
  }
  uniforms(task.keys + 2 * cursor.sweep, cursor.id, i + ((kTries + 1) << 16), 1, u, v);
  const float* weights = task.weights + cursor.tokens[i] * task.rows * kLanes;
  cursor.topic = careful(masses, weights, task.rows, v[0], 0);
}

// The third: whether it is accepted, and the masses without the next token.
template <typename Label>
ALWAYS_INLINE void settle(const Task& task, IntegerCursor<Label>& cursor, float* masses,
                          Log& log) {
  const uint32_t i = cursor.position;
  if (!accepted(task, cursor, cursor.v[i % kChunk])) again(task, cursor, masses);
  const uint32_t topic = cursor.topic, old = cursor.old, none = task.groups * kGroup;
  cursor.labels[i] = static_cast<Label>(topic);
  const bool more_tokens = i + 1 < cursor.length;
  const uint32_t next = cursor.labels[more_tokens ? i + 1 : i];
  cursor.old = (next < task.num_topics) & more_tokens ? next : none;
  cursor.position = i + 1;
  cursor.masses[topic] += cursor.scale;
  cursor.masses[cursor.old] -= cursor.scale;
  log.record(old < none ? old : task.num_topics, topic, cursor.tokens[i], cursor.sweep);
}

template <typename Label>
inline void leave(const Task& task, IntegerCursor<Label>& cursor) {
  const uint32_t old = cursor.labels[0];
  cursor.old = old < task.num_topics ? old : task.groups * kGroup;
  cursor.masses[cursor.old] -= cursor.scale;
}

template <typename Label>
inline void fresh(const Task& task, IntegerCursor<Label>& cursor) {
  const uint32_t left = cursor.length - cursor.position;
  uniforms(task.keys + 2 * cursor.sweep, cursor.id, cursor.position, std::min(left, kChunk),
           cursor.u, cursor.v);
}

// Takes a document; returns false when there is none left.
template <typename Label>
bool take(const Task& task, Queue& queue, IntegerCursor<Label>& cursor) {
  const int64_t d = queue.pop();
  if (d < 0) return false;
  cursor.tokens = task.tokens + task.starts[d];
  cursor.labels = static_cast<Label*>(task.labels) + task.starts[d];
  cursor.length = task.lengths[d];
  cursor.id = task.ids[d];
  cursor.tally = task.tally ? task.tally + d * task.num_topics : nullptr;
  cursor.position = 0;
  cursor.sweep = 0;
  cursor.scale = scale_of(task, cursor.length);
  const uint32_t none = task.groups * kGroup;
  for (int64_t k = 0; k < task.num_topics; ++k) {
    cursor.masses[k] = rounded_up(task.alpha[k] * static_cast<float>(cursor.scale));
  }
  std::fill(cursor.masses + task.num_topics, cursor.masses + none + 1, 0);
  for (uint32_t i = 0; i < cursor.length; ++i) {
    const uint32_t label = cursor.labels[i];
    cursor.masses[label < task.num_topics ? label : none] += cursor.scale;
  }
  leave(task, cursor);
  fresh(task, cursor);
  return true;
}

// Gets ready for the next draw; returns false when no document is left.
template <typename Label>
inline bool next(const Task& task, Queue& queue, IntegerCursor<Label>& cursor) {
  if (cursor.position < cursor.length) {
    if (cursor.position % kChunk == 0) fresh(task, cursor);
    return true;
  }
  if (cursor.tally && cursor.sweep >= task.burn_in) {
    for (int64_t k = 0; k < task.num_topics; ++k) {
      const int32_t none = rounded_up(task.alpha[k] * static_cast<float>(cursor.scale));
      // A multiple of the scale: the quotient is exact, and vectors of floats are divided at once.
      cursor.tally[k] += static_cast<float>(cursor.masses[k] - none) / cursor.scale;
    }
  }
  cursor.position = 0;
  if (++cursor.sweep == task.sweeps) return take(task, queue, cursor);
  leave(task, cursor);
  fresh(task, cursor);
  return true;
}

template <typename Label>
void integer_of(const Task& task) {
  const size_t width = task.groups * kGroup, sums = task.groups * kLanes;
  const size_t floats = task.rows * kLanes;
  Workspace memory(Workspace::room(4 * floats) +
                   kIntegerCursors *
                       (Workspace::room(2 * (width + 1)) + Workspace::room(4 * (kLanes + sums))));
  float* masses = memory.take<float>(floats);
  std::fill_n(masses, floats, 0.0f);
  IntegerCursor<Label> cursors[kIntegerCursors];
  for (auto& cursor : cursors) {
    cursor.masses = memory.take<int16_t>(width + 1);
    cursor.partial = memory.take<int32_t>(kLanes + sums) + kLanes;
    std::fill_n(cursor.partial - kLanes, kLanes, 0);
    cursor.running[7] = 0;
  }
  Queue queue(task);
  Log log(task);
  int count = 0;
  while (count < kIntegerCursors && take(task, queue, cursors[count])) ++count;
  while (count) {
    if (count == kIntegerCursors) {
#pragma GCC unroll 8
      for (int c = 0; c < kIntegerCursors; ++c) sum(task, cursors[c]);
#pragma GCC unroll 8
      for (int c = 0; c < kIntegerCursors; ++c) propose(task, cursors[c]);
#pragma GCC unroll 8
      for (int c = 0; c < kIntegerCursors; ++c) settle(task, cursors[c], masses, log);
    } else {
      for (int c = 0; c < count; ++c) sum(task, cursors[c]);
      for (int c = 0; c < count; ++c) propose(task, cursors[c]);
      for (int c = 0; c < count; ++c) settle(task, cursors[c], masses, log);
    }
    for (int c = 0; c < count; ++c) {
      if (next(task, queue, cursors[c])) continue;
      std::swap(cursors[c], cursors[--count]);
      --c;
    }
  }
  log.close();
}

void integer(const Task& task) {
  task.label_bytes == 1 ? integer_of<uint8_t>(task) : integer_of<uint16_t>(task);
}
