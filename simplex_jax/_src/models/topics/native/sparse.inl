// Collapsed Gibbs sweeps that weigh the topics of the document for every token. The mass of a topic,
// (count + alpha) * weight, is split: counts are of the few topics that the document has, and
// alpha * weight of all topics was summed up beforehand.
//
// The weights of a document's topics are far apart in memory. So a topic is drawn from bounds of
// eight bits, a quarter of that memory, and accepted with the weight's share of its bound; a token
// that is refused is drawn from the weights themselves. Either way its law is the exact one.

constexpr int kSparseCursors = 4;

template <typename Label>
struct SparseCursor {
  const int32_t* tokens;
  Label* labels;
  // The topics of the document, without the token at the position; zeros fill the last 16.
  int32_t* topics;  // [K + 16]
  float* counts;    // [K + 16]
  uint32_t size;
  int32_t* slots;   // where a topic is among them, [K + 1]; meaningless where it is not
  float* partial;   // running sums of each lane, [K + 16]
  int32_t* tally;
  uint32_t id;
  uint32_t length;
  uint32_t position;
  uint32_t old;  // label of the token at the position
  uint32_t lane;
  uint32_t topic;
  bool own;  // whether the topic is one of the document's
  float threshold;
  int64_t sweep;
  alignas(64) float u[kChunk];
  alignas(64) float v[kChunk];
  alignas(64) float running[24];  // sums of lanes, from 8 on, after a zero
};

// One by one: there is no gather of bytes, and that of AVX2 is slow.
inline Vector gathered(const uint8_t* from, const int32_t* places) {
  Words x;
  for (int j = 0; j < WIDTH; ++j) x[j] = from[places[j]];
  return reinterpret_cast<Vector>((x << kFraction) + kLeast);
}

inline Vector gathered(const float* from, const int32_t* places) {
  Vector x;
  for (int j = 0; j < WIDTH; ++j) x[j] = from[places[j]];
  return x;
}

template <typename Label>
inline bool has(const SparseCursor<Label>& cursor, uint32_t topic) {
  const uint32_t slot = cursor.slots[topic];
  return slot < cursor.size && cursor.topics[slot] == static_cast<int32_t>(topic);
}

template <typename Label>
inline void enter(SparseCursor<Label>& cursor, uint32_t topic) {
  if (has(cursor, topic)) {
    cursor.counts[cursor.slots[topic]] += 1;
  } else {
    cursor.topics[cursor.size] = topic;
    cursor.counts[cursor.size] = 1;
    cursor.slots[topic] = cursor.size++;
  }
}

template <typename Label>
inline void leave(const Task& task, SparseCursor<Label>& cursor) {
  const uint32_t topic = cursor.labels[cursor.position];
  cursor.old = topic;
  if (topic >= task.num_topics) {
    cursor.old = task.num_topics;
    return;
  }
  const uint32_t slot = cursor.slots[topic];
  if ((cursor.counts[slot] -= 1) > 0) return;
  const uint32_t last = --cursor.size;
  cursor.topics[slot] = cursor.topics[last];
  cursor.counts[slot] = cursor.counts[last];
  cursor.slots[cursor.topics[slot]] = slot;
  cursor.topics[last] = 0;
  cursor.counts[last] = 0;
}

// A topic in proportion to alpha times weight.
inline uint32_t draw_prior(const Task& task, size_t word, float v) {
  const float* sums = task.priors + word * task.rows;
  const float threshold = v * sums[task.rows - 1];
  size_t first = 0;
  for (size_t left = task.rows - 1; left > 0;) {  // the first sum that is above
    const size_t half = left / 2;
    const bool above = sums[first + half] > threshold;
    first = above ? first : first + half + 1;
    left = above ? half : left - half - 1;
  }
  const float* weights = task.weights + word * task.rows * kLanes + first * kLanes;
  const float* alpha = task.alpha + first * kLanes;
  const uint32_t count = std::min<int64_t>(kLanes, task.num_topics - first * kLanes);
  float sum = first ? sums[first - 1] : 0.0f;
  uint32_t chosen = 0;
  for (uint32_t j = 0; j < count; ++j) {  // the last with a mass, of those begun in time
    const float mass = alpha[j] * weights[j];
    if (sum <= threshold && mass > 0) chosen = j;
    sum += mass;
  }
  return first * kLanes + chosen;
}

// The lane of a topic in proportion to counts times weights or their bounds, 16 for one in
// proportion to alpha times weights.
template <typename Label, typename Number>
ALWAYS_INLINE uint32_t lane_of(const Number* weights, float prior, float u,
                               SparseCursor<Label>& cursor) {
  Vector sums[kParts] = {};
  const uint32_t size = cursor.size ? cursor.size : 1;
  for (uint32_t b = 0; b < size; b += kLanes) {
    for (int p = 0; p < kParts; ++p) {
      const size_t at = b + p * WIDTH;
      sums[p] += *reinterpret_cast<const Loose*>(cursor.counts + at) *
                 gathered(weights, cursor.topics + at);
      *reinterpret_cast<Loose*>(cursor.partial + at) = sums[p];
    }
  }
  return search(cursor.partial + (size - 1) / kLanes * kLanes, prior, u, cursor.running + 8,
                &cursor.threshold);
}

// A topic of the document in that lane; of all topics in proportion to alpha where there is none.
template <typename Label>
ALWAYS_INLINE uint32_t topic_of(const Task& task, size_t word, uint32_t lane, float v,
                                SparseCursor<Label>& cursor) {
  const uint32_t end = cursor.size ? (cursor.size - 1) / kLanes * kLanes : 0;
  const float* partial = cursor.partial;
  cursor.own = lane < kLanes && partial[end + lane] > 0;
  if (!cursor.own) return draw_prior(task, word, v);
  float left = cursor.threshold - cursor.running[lane + 7];
  const float sum = partial[end + lane];
  // Rounding must not lead beyond the lane.
  int32_t bits;
  std::memcpy(&bits, &sum, 4);
  bits -= 1;
  float below;
  std::memcpy(&below, &bits, 4);
  left = left < below ? left : below;
  left = left > 0 ? left : 0;  // as in the dense kernel
  uint32_t at = lane;
  for (uint32_t b = 0; b < end; b += kLanes) at += partial[b + lane] <= left ? kLanes : 0;
  return cursor.topics[at];
}

// The first third of a draw: sums.
template <typename Label>
ALWAYS_INLINE void sum(const Task& task, SparseCursor<Label>& cursor) {
  const uint32_t i = cursor.position;
  const size_t word = cursor.tokens[i], width = task.rows * kLanes;
  const size_t soon = cursor.tokens[i + 1 < cursor.length ? i + 1 : i];
  for (size_t j = 0; j < width; j += 64) __builtin_prefetch(task.bounds + soon * width + j);
  __builtin_prefetch(task.priors + (soon + 1) * task.rows - 1);
  const float prior = task.priors[(word + 1) * task.rows - 1];
  cursor.lane = lane_of(task.bounds + word * width, prior, cursor.u[i % kChunk], cursor);
}

// The second: a topic.
template <typename Label>
ALWAYS_INLINE void propose(const Task& task, SparseCursor<Label>& cursor) {
  const uint32_t i = cursor.position;
  const size_t word = cursor.tokens[i];
  cursor.topic = topic_of(task, word, cursor.lane, cursor.v[i % kChunk], cursor);
  __builtin_prefetch(task.weights + word * task.rows * kLanes + cursor.topic);
}

// A topic by the weights themselves, with random numbers of its own.
template <typename Label>
__attribute__((noinline)) uint32_t again(const Task& task, SparseCursor<Label>& cursor) {
  const uint32_t i = cursor.position;
  const size_t word = cursor.tokens[i];
  float u[kChunk], v[kChunk];
  uniforms(task.keys + 2 * cursor.sweep, cursor.id, i + (1u << 30), 1, u, v);
  const float prior = task.priors[(word + 1) * task.rows - 1];
  const float* weights = task.weights + word * task.rows * kLanes;
  return topic_of(task, word, lane_of(weights, prior, u[0], cursor), v[0], cursor);
}

// The third: whether it is accepted, and the counts of the document without the next token.
template <typename Label>
ALWAYS_INLINE void settle(const Task& task, SparseCursor<Label>& cursor, Log& log) {
  const uint32_t i = cursor.position;
  const size_t word = cursor.tokens[i];
  uint32_t topic = cursor.topic;
  if (cursor.own) {
    const size_t cell = word * task.rows * kLanes + topic;
    const uint32_t bits = (uint32_t(task.bounds[cell]) << kFraction) + kLeast;
    float bound;
    std::memcpy(&bound, &bits, 4);
    if (!(cursor.v[i % kChunk] * bound < task.weights[cell])) topic = again(task, cursor);
  }
  const uint32_t old = cursor.old;
  cursor.labels[i] = static_cast<Label>(topic);
  enter(cursor, topic);
  cursor.position = i + 1;
  if (cursor.position < cursor.length) leave(task, cursor);
  log.record(old, topic, word, cursor.sweep);
}

template <typename Label>
inline void fresh(const Task& task, SparseCursor<Label>& cursor) {
  const uint32_t left = cursor.length - cursor.position;
  uniforms(task.keys + 2 * cursor.sweep, cursor.id, cursor.position, std::min(left, kChunk),
           cursor.u, cursor.v);
}

// Takes a document; returns false when there is none left.
template <typename Label>
bool take(const Task& task, Queue& queue, SparseCursor<Label>& cursor) {
  const int64_t d = queue.pop();
  if (d < 0) return false;
  cursor.tokens = task.tokens + task.starts[d];
  cursor.labels = static_cast<Label*>(task.labels) + task.starts[d];
  cursor.length = task.lengths[d];
  cursor.id = task.ids[d];
  cursor.tally = task.tally ? task.tally + d * task.num_topics : nullptr;
  cursor.position = 0;
  cursor.sweep = 0;
  for (uint32_t j = 0; j < cursor.size; ++j) cursor.topics[j] = 0, cursor.counts[j] = 0;
  cursor.size = 0;
  for (uint32_t i = 0; i < cursor.length; ++i) {
    const uint32_t label = cursor.labels[i];
    if (label < task.num_topics) enter(cursor, label);
  }
  leave(task, cursor);
  fresh(task, cursor);
  return true;
}

// Gets ready for the next draw; returns false when no document is left.
template <typename Label>
inline bool next(const Task& task, Queue& queue, SparseCursor<Label>& cursor) {
  if (cursor.position < cursor.length) {
    if (cursor.position % kChunk == 0) fresh(task, cursor);
    return true;
  }
  if (cursor.tally && cursor.sweep >= task.burn_in) {
    for (uint32_t j = 0; j < cursor.size; ++j) cursor.tally[cursor.topics[j]] += cursor.counts[j];
  }
  cursor.position = 0;
  if (++cursor.sweep == task.sweeps) return take(task, queue, cursor);
  leave(task, cursor);
  fresh(task, cursor);
  return true;
}

template <typename Label>
void sparse_of(const Task& task) {
  const size_t numbers = task.num_topics + kLanes, room = Workspace::room(4 * numbers);
  Workspace memory(kSparseCursors * 4 * room);
  SparseCursor<Label> cursors[kSparseCursors];
  for (auto& cursor : cursors) {
    cursor.topics = memory.take<int32_t>(numbers);
    cursor.counts = memory.take<float>(numbers);
    cursor.slots = memory.take<int32_t>(numbers);
    cursor.partial = memory.take<float>(numbers);
    std::fill_n(cursor.topics, numbers, 0);
    std::fill_n(cursor.counts, numbers, 0.0f);
    std::fill_n(cursor.slots, numbers, 0);
    cursor.running[7] = 0;
    cursor.size = 0;
  }
  Queue queue(task);
  Log log(task);
  int count = 0;
  while (count < kSparseCursors && take(task, queue, cursors[count])) ++count;
  while (count) {
    for (int c = 0; c < count; ++c) sum(task, cursors[c]);
    for (int c = 0; c < count; ++c) propose(task, cursors[c]);
    for (int c = 0; c < count; ++c) settle(task, cursors[c], log);
    for (int c = 0; c < count; ++c) {
      if (next(task, queue, cursors[c])) continue;
      std::swap(cursors[c], cursors[--count]);
      --c;
    }
  }
  log.close();
}

void sparse(const Task& task) {
  task.label_bytes == 1 ? sparse_of<uint8_t>(task) : sparse_of<uint16_t>(task);
}
