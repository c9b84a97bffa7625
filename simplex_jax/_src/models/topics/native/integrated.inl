// Collapsed Gibbs sweeps with the topics integrated out too, by several threads and exact.
//
// Words are cut into blocks. Given the mass of every block in every topic, the composition of a
// block within a topic is a Dirichlet variate of its own (aggregation), and is integrated out: the
// probability of a word is mass * (n + beta) / sum over the block of (n + beta), by counts n without
// the token. Tokens of different blocks and different documents then do not depend on each other, and
// a thread works on a tile, a part of the documents and a block of words, while others work on tiles
// that share neither. Tokens of one tile are drawn one after the other; a draw waits for what the one
// before it wrote, so the tiles of a thread take turns.

constexpr int kTilesAtOnce = 4;
constexpr int kSoon = 3;  // documents whose memory is asked for early

// A tile at work.
template <typename Label>
struct Tile {
  int part;
  int block;
  int32_t member;  // the document at work, by its number in `members`
  const int32_t* tokens;
  Label* labels;
  float* counts;  // of the document
  double* sums;   // of the block, like the next two
  float* scales;
  const float* masses;
  float* partial;  // running sums of each lane, [rows * 16]
  float* words;    // counts of the word of the token
  uint32_t position;
  uint32_t end;    // of the document's tokens in the block
  uint32_t chunk;  // position of the first of the random numbers
  uint32_t old;    // label of the token before the draw
  uint32_t lane;
  float threshold;
  alignas(64) float u[kChunk];
  alignas(64) float running[24];  // sums of lanes, from 8 on, after a zero
};

// Adds a token to the counts of a topic, or takes it out.
template <typename Label>
ALWAYS_INLINE void count(Tile<Label>& tile, uint32_t topic, float change) {
  tile.counts[topic] += change;
  tile.words[topic] += change;
  tile.sums[topic] += change;
  tile.scales[topic] = tile.masses[topic] / static_cast<float>(tile.sums[topic]);
}

// Takes the token at the position out of the counts.
template <typename Label>
ALWAYS_INLINE void leave(const Integration& task, Tile<Label>& tile, size_t width) {
  if (tile.position - tile.chunk == kChunk) {
    float spare[kChunk];
    tile.chunk = tile.position;
    uniforms(task.key, task.members[tile.member].id, tile.chunk,
             std::min(tile.end - tile.chunk, kChunk), tile.u, spare);
  }
  tile.words = task.words + static_cast<uint32_t>(tile.tokens[tile.position]) * width;
  tile.old = tile.labels[tile.position];
  if (__builtin_expect(tile.old < task.num_topics, 1)) count(tile, tile.old, -1);
}

// Goes to the next document of the tile that has a token in the block; false where there is none.
template <typename Label>
bool turn(const Integration& task, Tile<Label>& tile, size_t width) {
  const int32_t end = task.bounds[tile.block + 1], members = task.first_of[tile.part + 1];
  Label* labels = static_cast<Label*>(task.labels);
  while (++tile.member < members) {
    if (tile.member + kSoon < members) {
      const Member& soon = task.members[tile.member + kSoon];
      __builtin_prefetch(task.tokens + soon.start + soon.next);
      __builtin_prefetch(labels + soon.start + soon.next, 1);
      const float* counts = task.documents + (tile.member + kSoon) * width;
      for (size_t k = 0; k < std::min<size_t>(width, 128); k += 16) {
        __builtin_prefetch(counts + k, 1);
      }
    }
    Member& member = task.members[tile.member];
    const int32_t* tokens = task.tokens + member.start;
    const uint32_t length = member.length, first = member.next;
    uint32_t last = first;
    while (last < length && tokens[last] < end) ++last;
    member.next = tile.block == kTiles - 1 ? 0 : last;
    if (last == first) continue;
    tile.tokens = tokens;
    tile.labels = labels + member.start;
    tile.counts = task.documents + tile.member * width;
    tile.position = first;
    tile.end = last;
    tile.chunk = first - kChunk;
    leave(task, tile, width);
    return true;
  }
  return false;
}

// Takes a tile that has a token; false where none is left in this round.
template <typename Label>
bool take(const Integration& task, Tile<Label>& tile, size_t width) {
  for (int64_t part; (part = task.taken->fetch_add(1, std::memory_order_relaxed)) < kTiles;) {
    tile.part = part;
    tile.block = (part + task.round) % kTiles;
    tile.sums = task.sums + tile.block * width;
    tile.scales = task.scales + tile.block * width;
    tile.masses = task.masses + tile.block * width;
    tile.member = task.first_of[part] - 1;
    if (turn(task, tile, width)) return true;
  }
  return false;
}

// The probabilities of a word in the topics as they were drawn, relative to the likeliest topic.
inline __attribute__((noinline)) void as_drawn(const Integration& task, size_t word, float* to) {
  const float* log_topics = task.log_topics + word;
  float peak = -std::numeric_limits<float>::infinity();
  for (int64_t k = 0; k < task.num_topics; ++k) {
    peak = std::max(peak, log_topics[k * task.num_words]);
  }
  for (int64_t k = 0; k < task.num_topics; ++k) {
    to[k] = std::isinf(peak) ? 1.0f : std::exp(log_topics[k * task.num_words] - peak);
  }
  std::fill(to + task.num_topics, to + task.rows * kLanes, 0.0f);
}

// Where rounding left no topic to choose: one after the other.
template <typename Label>
__attribute__((noinline)) uint32_t careful(const Integration& task, const Tile<Label>& tile,
                                           float u) {
  const size_t width = task.rows * kLanes;
  const size_t word = static_cast<uint32_t>(tile.tokens[tile.position]);
  const auto mass = [&](int64_t k) {
    const double beta = task.apart ? task.beta[word * width + k] : task.beta[word];
    return (double(tile.counts[k]) + task.alpha[k]) * (tile.words[k] + beta) * tile.masses[k] /
           tile.sums[k];
  };
  double total = 0, sum = 0;
  for (int64_t k = 0; k < task.num_topics; ++k) total += mass(k);
  for (int64_t k = 0; k < task.num_topics; ++k) {
    sum += mass(k);
    if (mass(k) > 0 && sum > u * total) return k;
  }
  return tile.old < task.num_topics ? tile.old : 0;
}

// The first half of a draw: running sums of the masses of topics.
template <typename Label, int kRows>
ALWAYS_INLINE void sum(const Integration& task, Tile<Label>& tile, float* drawn) {
  const uint32_t rows = kRows ? kRows : task.rows;
  const size_t width = rows * kLanes;
  const size_t word = static_cast<uint32_t>(tile.tokens[tile.position]);
  float* partial = tile.partial;
  Vector sums[kParts] = {};
  if (__builtin_expect(tile.old >= task.num_topics, 0)) {
    as_drawn(task, word, drawn);
    for (uint32_t b = 0; b < rows; ++b) {
      for (int p = 0; p < kParts; ++p) {
        const size_t at = b * kLanes + p * WIDTH;
        sums[p] += (load(tile.counts + at) + load(task.alpha + at)) * load(drawn + at);
        store(partial + at, sums[p]);
      }
    }
  } else {
    const float* beta = task.beta + (task.apart ? word * width : word);
    const Vector common = constant(*beta);
#pragma GCC unroll 8
    for (uint32_t b = 0; b < rows; ++b) {
      for (int p = 0; p < kParts; ++p) {
        const size_t at = b * kLanes + p * WIDTH;
        const Vector prior = task.apart ? load(beta + at) : common;
        const Vector mass = (load(tile.counts + at) + load(task.alpha + at)) *
                            (load(tile.words + at) + prior) * load(tile.scales + at);
        sums[p] = b ? sums[p] + mass : mass;
        store(partial + at, sums[p]);
      }
    }
  }
  tile.lane = search(partial + (rows - 1) * kLanes, 0, tile.u[tile.position - tile.chunk],
                     tile.running + 8, &tile.threshold);
}

// The second half: the topic, and the counts without the next token. False where the tile ends.
template <typename Label, int kRows>
ALWAYS_INLINE bool choose(const Integration& task, Tile<Label>& tile) {
  const uint32_t rows = kRows ? kRows : task.rows;
  const uint32_t lane = tile.lane < kLanes - 1 ? tile.lane : kLanes - 1;
  const float left = tile.threshold - tile.running[lane + 7];
  uint32_t topic = row_of<kRows>(tile.partial, rows, lane, left) * kLanes + lane;
  if (__builtin_expect(!(tile.partial[(rows - 1) * kLanes + lane] > 0), 0)) {
    topic = careful(task, tile, tile.u[tile.position - tile.chunk]);
  }
  tile.labels[tile.position] = static_cast<Label>(topic);
  count(tile, topic, 1);
  const size_t width = rows * kLanes;
  if (++tile.position == tile.end) return turn(task, tile, width);
  leave(task, tile, width);
  return true;
}

template <typename Label, int kRows>
void round_of(const Integration& task) {
  const size_t width = task.rows * kLanes;
  Workspace memory((kTilesAtOnce + 1) * Workspace::room(4 * width));
  float* drawn = memory.take<float>(width);
  Tile<Label> tiles[kTilesAtOnce];
  for (auto& tile : tiles) {
    tile.partial = memory.take<float>(width);
    tile.running[7] = 0;
  }
  int count = 0;
  while (count < kTilesAtOnce && take(task, tiles[count], width)) ++count;
  while (count) {
    for (int t = 0; t < count; ++t) sum<Label, kRows>(task, tiles[t], drawn);
    for (int t = 0; t < count; ++t) {
      if (choose<Label, kRows>(task, tiles[t]) || take(task, tiles[t], width)) continue;
      // The last one has not chosen yet: it takes this place, and its turn comes next.
      if (t < --count) {
        std::swap(tiles[t], tiles[count]);
        --t;
      }
    }
  }
}

template <typename Label>
void round_labels(const Integration& task) {
  switch (task.rows) {
    case 1:
      return round_of<Label, 1>(task);
    case 2:
      return round_of<Label, 2>(task);
    case 3:
      return round_of<Label, 3>(task);
    case 4:
      return round_of<Label, 4>(task);
    default:
      return round_of<Label, 0>(task);
  }
}

// One round of a sweep.
void integrated(const Integration& task) {
  task.label_bytes == 1 ? round_labels<uint8_t>(task) : round_labels<uint16_t>(task);
}
