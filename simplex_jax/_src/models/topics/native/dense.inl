// Collapsed Gibbs sweeps that weigh all topics for every token.
//
// With bursts, a document has topics of its own, Dirichlet(m topic), which are integrated out: with n
// tokens of a topic in the document, r of them of the word, the word's probability under the topic is
// (m weight + r) / (m + n). So `masses` are (n + alpha) / (n + m) there, and r / m, relative to the
// likeliest topic of the word, is added to the weights. The tokens of a document are in the order of
// the words then, and r belongs to the run of one word.

constexpr int kParts = kLanes / WIDTH;
// A draw waits for what the one before it in its document wrote, so several documents take turns.
constexpr int kCursors = 5;
constexpr uint32_t kAhead = 2;  // tokens of a document whose weights are fetched early

// A document at work.
template <typename Label>
struct Cursor {
  const int32_t* tokens;
  Label* labels;
  int32_t* counts;  // of labels, without the token at the position; the last for none
  float* masses;    // counts + alpha, [rows * 16 + 1] like the counts
  float* partial;   // running sums of each lane, [rows * 16]
  float* repeats;   // with bursts: of the word, as `counts`, zeros outside of a run
  uint32_t begun;   // where its run begins
  int32_t* tally;
  uint32_t id;
  uint32_t length;
  uint32_t position;
  uint32_t old;  // label of the token at the position
  uint32_t lane;
  float threshold;
  int64_t sweep;
  alignas(64) float u[kChunk];
  alignas(64) float running[24];  // sums of lanes, from 8 on, after a zero
};

// What every draw reads, apart from what it writes.
struct Plan {
  const float* weights;
  const float* alpha;  // zero beyond the topics, [rows * 16 + 1]
  uint32_t topics;
  uint32_t rows;
  uint32_t none;  // where tokens without a label are counted, rows * 16
  const float* scales;  // with bursts: 1 / m relative to the weights of each word, [V]
  float own;            // and m
};

// The mass of a topic with n tokens.
template <bool kBursts>
ALWAYS_INLINE float mass_of(const Plan& plan, int32_t n, uint32_t topic) {
  const float mass = static_cast<float>(n) + plan.alpha[topic];
  return kBursts ? mass / (static_cast<float>(n) + plan.own) : mass;
}

// Where rounding, or weights that are NaN, left no topic to choose: one after the other.
inline __attribute__((noinline)) int64_t careful(const float* masses, const float* weights,
                                                 int64_t rows, float u, int64_t fallback,
                                                 const float* repeats = nullptr, double scale = 0) {
  const auto mass_at = [&](int64_t k) {
    return double(masses[k]) * (repeats ? weights[k] + scale * repeats[k] : weights[k]);
  };
  double total = 0;
  for (int64_t i = 0; i < rows * kLanes; ++i) total += mass_at(i);
  double sum = 0;
  for (int64_t j = 0; j < kLanes; ++j) {
    for (int64_t b = 0; b < rows; ++b) {
      const double mass = mass_at(b * kLanes + j);
      sum += mass;
      if (mass > 0 && sum > u * total) return b * kLanes + j;
    }
  }
  return fallback;
}

// Adds the labels of the run of a word that begins with the next token.
template <typename Label>
inline void begin(const Plan& plan, Cursor<Label>& cursor, uint32_t first) {
  cursor.begun = first;
  const int32_t word = cursor.tokens[first];
  for (uint32_t i = first; i < cursor.length && cursor.tokens[i] == word; ++i) {
    const uint32_t label = cursor.labels[i];
    ++cursor.repeats[label < plan.topics ? label : plan.none];
  }
}

// Takes the label of the first token out of the counts of its document.
template <typename Label, bool kBursts>
inline void leave(const Plan& plan, Cursor<Label>& cursor) {
  uint32_t old = cursor.labels[0];
  old = old < plan.topics ? old : plan.none;
  cursor.old = old;
  const int32_t n = --cursor.counts[old];
  cursor.masses[old] = mass_of<kBursts>(plan, n, old);
  if (kBursts) {
    begin(plan, cursor, 0);
    --cursor.repeats[old];
  }
}

// The first half of a draw: running sums of the masses of topics.
template <typename Label, int kRows, bool kBursts>
ALWAYS_INLINE void sum(const Plan& plan, Cursor<Label>& cursor) {
  const uint32_t rows = kRows ? kRows : plan.rows;
  const size_t width = rows * kLanes;
  const uint32_t i = cursor.position;
  const size_t word = static_cast<uint32_t>(cursor.tokens[i]);
  const float* weights = plan.weights + word * width;
  const uint32_t ahead = i + kAhead < cursor.length ? i + kAhead : cursor.length - 1;
  const char* soon = reinterpret_cast<const char*>(
      plan.weights + static_cast<uint32_t>(cursor.tokens[ahead]) * width);
  for (size_t line = 0; line < 4 * width && line < 512; line += 64) __builtin_prefetch(soon + line);

  Vector sums[kParts] = {};
  const float* masses = cursor.masses;
  const float* repeats = cursor.repeats;
  const Vector scale = constant(kBursts ? plan.scales[word] : 0);
  float* partial = cursor.partial;
#pragma GCC unroll 8
  for (uint32_t b = 0; b < rows; ++b) {
    for (int p = 0; p < kParts; ++p) {
      const size_t at = b * kLanes + p * WIDTH;
      Vector weight = *reinterpret_cast<const Loose*>(weights + at);
      if (kBursts) weight += scale * *reinterpret_cast<const Loose*>(repeats + at);
      const Vector mass = *reinterpret_cast<const Loose*>(masses + at) * weight;
      sums[p] = b ? sums[p] + mass : mass;
      *reinterpret_cast<Loose*>(partial + at) = sums[p];
    }
  }
  cursor.lane = search(partial + (rows - 1) * kLanes, 0, cursor.u[i % kChunk], cursor.running + 8,
                       &cursor.threshold);
}

// The second half: the topic, and the counts of the document without the next token.
template <typename Label, int kRows, bool kBursts>
ALWAYS_INLINE void choose(const Plan& plan, Cursor<Label>& cursor, Log& log) {
  const uint32_t rows = kRows ? kRows : plan.rows;
  const uint32_t i = cursor.position;
  const float* partial = cursor.partial;
  uint32_t lane = cursor.lane;
  lane = lane < kLanes - 1 ? lane : kLanes - 1;
  const float left = cursor.threshold - cursor.running[lane + 7];
  const float sum = partial[(rows - 1) * kLanes + lane];
  uint32_t topic = row_of<kRows>(partial, rows, lane, left) * kLanes + lane;
  const size_t word = static_cast<uint32_t>(cursor.tokens[i]);
  const uint32_t old = cursor.old;
  if (__builtin_expect(!(sum > 0), 0)) {
    const float* weights = plan.weights + word * rows * kLanes;
    topic = careful(cursor.masses, weights, rows, cursor.u[i % kChunk], old < plan.topics ? old : 0,
                    kBursts ? cursor.repeats : nullptr, kBursts ? plan.scales[word] : 0);
  }
  // This token comes and the next one leaves, which may be the same topic.
  cursor.labels[i] = static_cast<Label>(topic);
  const bool more_tokens = i + 1 < cursor.length;
  uint32_t next = cursor.labels[more_tokens ? i + 1 : i];
  next = (next < plan.topics) & more_tokens ? next : plan.none;
  cursor.old = next;
  cursor.position = i + 1;
  const int32_t same = topic == next;
  const int32_t less = cursor.counts[next] - 1 + same;
  const int32_t more = cursor.counts[topic] + 1 - same;
  cursor.counts[topic] = more;
  cursor.counts[next] = less;
  cursor.masses[topic] = mass_of<kBursts>(plan, more, topic);
  cursor.masses[next] = mass_of<kBursts>(plan, less, next);
  if (kBursts) {
    if (more_tokens && cursor.tokens[i + 1] == cursor.tokens[i]) {
      ++cursor.repeats[topic];
    } else {
      for (uint32_t j = cursor.begun; j <= i; ++j) cursor.repeats[cursor.labels[j]] = 0;
      // Of tokens without a label all have left by now.
      if (more_tokens) begin(plan, cursor, i + 1);
    }
    if (more_tokens) --cursor.repeats[next];
  }
  log.record(old < plan.topics ? old : plan.topics, topic, word, cursor.sweep);
}

template <typename Label>
inline void fresh(const Task& task, Cursor<Label>& cursor) {
  const uint32_t left = cursor.length - cursor.position;
  float spare[kChunk];
  uniforms(task.keys + 2 * cursor.sweep, cursor.id, cursor.position, std::min(left, kChunk),
           cursor.u, spare);
}

// Takes a document; returns false when there is none left.
template <typename Label, bool kBursts>
bool take(const Task& task, const Plan& plan, Queue& queue, Cursor<Label>& cursor) {
  const int64_t d = queue.pop();
  if (d < 0) return false;
  cursor.tokens = task.tokens + task.starts[d];
  cursor.labels = static_cast<Label*>(task.labels) + task.starts[d];
  cursor.length = task.lengths[d];
  cursor.id = task.ids[d];
  cursor.tally = task.tally ? task.tally + d * task.num_topics : nullptr;
  cursor.position = 0;
  cursor.sweep = 0;
  std::fill_n(cursor.counts, plan.none + 1, 0);
  for (uint32_t i = 0; i < cursor.length; ++i) {
    const uint32_t label = cursor.labels[i];
    ++cursor.counts[label < plan.topics ? label : plan.none];
  }
  for (uint32_t k = 0; k <= plan.none; ++k) {
    cursor.masses[k] = mass_of<kBursts>(plan, cursor.counts[k], k);
  }
  leave<Label, kBursts>(plan, cursor);
  fresh(task, cursor);
  return true;
}

template <typename Label, bool kBursts>
bool after(const Task& task, const Plan& plan, Queue& queue, Cursor<Label>& cursor) {
  if (cursor.tally && cursor.sweep >= task.burn_in) {
    for (size_t k = 0; k < plan.topics; ++k) cursor.tally[k] += cursor.counts[k];
  }
  cursor.position = 0;
  if (++cursor.sweep == task.sweeps) return take<Label, kBursts>(task, plan, queue, cursor);
  leave<Label, kBursts>(plan, cursor);
  fresh(task, cursor);
  return true;
}

// Gets ready for the next draw; returns false when no document is left.
template <typename Label, bool kBursts>
ALWAYS_INLINE bool next(const Task& task, const Plan& plan, Queue& queue, Cursor<Label>& cursor) {
  if (cursor.position < cursor.length) {
    if (cursor.position % kChunk == 0) fresh(task, cursor);
    return true;
  }
  return after<Label, kBursts>(task, plan, queue, cursor);
}

template <typename Label, int kRows, bool kBursts = false>
void dense_of(const Task& task) {
  const size_t topics = task.num_topics, width = task.rows * kLanes;
  const size_t room = Workspace::room(4 * (width + 1));
  Workspace memory(room + kCursors * 4 * room);
  float* alpha = memory.take<float>(width + 1);
  std::fill_n(std::copy_n(task.alpha, topics, alpha), width + 1 - topics, 0.0f);
  const Plan plan{task.weights, alpha, uint32_t(topics), uint32_t(task.rows),
                  uint32_t(width), task.scales, task.own};
  Cursor<Label> cursors[kCursors];
  Queue queue(task);
  int count = 0;
  for (auto& cursor : cursors) {
    cursor.masses = memory.take<float>(width + 1);
    cursor.counts = memory.take<int32_t>(width + 1);
    cursor.partial = memory.take<float>(width + 1);
    cursor.repeats = memory.take<float>(width + 1);
    std::fill_n(cursor.repeats, width + 1, 0.0f);
    cursor.running[7] = 0;
  }
  while (count < kCursors && take<Label, kBursts>(task, plan, queue, cursors[count])) ++count;
  Log log(task);
  while (count) {
    if (count == kCursors) {
#pragma GCC unroll 8
      for (int c = 0; c < kCursors; ++c) sum<Label, kRows, kBursts>(plan, cursors[c]);
#pragma GCC unroll 8
      for (int c = 0; c < kCursors; ++c) choose<Label, kRows, kBursts>(plan, cursors[c], log);
    } else {
      for (int c = 0; c < count; ++c) sum<Label, kRows, kBursts>(plan, cursors[c]);
      for (int c = 0; c < count; ++c) choose<Label, kRows, kBursts>(plan, cursors[c], log);
    }
    for (int c = 0; c < count; ++c) {
      if (next<Label, kBursts>(task, plan, queue, cursors[c])) continue;
      std::swap(cursors[c], cursors[--count]);
      --c;
    }
  }
  log.close();
}

template <typename Label>
void dense_labels(const Task& task) {
  if (task.scales) return dense_of<Label, 0, true>(task);
  switch (task.rows) {
    case 1:
      return dense_of<Label, 1>(task);
    case 2:
      return dense_of<Label, 2>(task);
    case 3:
      return dense_of<Label, 3>(task);
    case 4:
      return dense_of<Label, 4>(task);
    default:
      return dense_of<Label, 0>(task);
  }
}

void dense(const Task& task) {
  task.label_bytes == 1 ? dense_labels<uint8_t>(task) : dense_labels<uint16_t>(task);
}
