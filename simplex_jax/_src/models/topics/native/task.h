// What a sweep over documents needs, shared by the kernels for each instruction set.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace simplex {

// Topics lie in rows of 16 lanes. A topic is drawn in two steps: its lane by the sums over the rows,
// which takes no number from lane to lane, and then its row.
constexpr int kLanes = 16;

// What is added to the counts of topics and words.
enum class Count : int64_t {
  kNothing = 0,
  kChanges = 1,  // what the labels changed
  kLabels = 2,   // all labels, after each sweep from `burn_in` on
};

// Topics [K, V] and the rows of words that are made of them.
struct Layout {
  const float* log_topics;
  float* weights;  // [V, width], zeros from K on
  int64_t num_topics;
  int64_t num_words;
  int64_t width;
  std::atomic<int64_t>* taken;  // words that threads have begun
};

// Documents whose tokens sit down at tables, see tables.inl.
struct Seating {
  const uint32_t* key;
  const float* concentration;  // [K]
  int64_t num_topics;
  const void* labels;  // K or more: of no topic
  int label_bytes;     // 1 or 2
  const int32_t* starts;
  const int32_t* lengths;
  const uint32_t* ids;
  int64_t num_documents;
  int64_t* tables;              // [K], the result
  std::atomic<int64_t>* taken;  // documents that threads have begun
  int64_t claim;                // documents at a time
  std::mutex* lock;             // of the result
};

// Documents, by slice, whose tokens of a word in a topic sit down at tables, see tables.inl.
struct Bursts {
  const uint32_t* key;
  const float* log_topics;  // [K, slices, V]
  float own;                // concentration of a document's own topics
  int64_t num_topics;
  int64_t num_slices;
  int64_t num_words;
  const int32_t* tokens;  // of a document in the order of the words
  const void* labels;     // K or more: of no topic
  int label_bytes;        // 1 or 2
  const int32_t* starts;  // [slices, B]
  const int32_t* lengths;
  const uint32_t* ids;
  int64_t num_documents;        // in all slices
  int32_t* tables;              // [K, slices, V], the result
  int64_t* ranks;               // [num_ranks], how many tokens found so many of their topic
  int64_t num_ranks;            // the longest document
  std::atomic<int64_t>* taken;  // documents that threads have begun
  int64_t claim;                // documents at a time
  std::mutex* lock;             // of the ranks
};

struct Task {
  // The documents. The words of tokens are below `num_words`.
  const int32_t* tokens;
  const int32_t* starts;
  const int32_t* lengths;
  const uint32_t* ids;
  int64_t num_documents;
  int64_t shortest;  // the lengths of those that are to be taken
  int64_t longest;
  // The topics: weights [V, rows * 16] and concentrations [K].
  const float* weights;
  const float* priors;  // for the sparse kernel: running sums of alpha * weights over rows, [V, rows]
  const float* alpha;
  int64_t num_topics;
  int64_t num_words;
  int64_t rows;
  const uint8_t* bounds;  // for the sparse kernel: not below the weights, see `bound_of`
  const int16_t* levels;  // for the integer kernel: weights rounded up, [V, groups * 64]
  int64_t groups;
  const float* scales;  // with bursts, for the dense kernel: see dense.inl, [V]; or null
  float own;            // and the concentration m of a document's own topics
  float most_alpha;     // the largest
  float total_alpha;    // their sum
  // The sweeps, and the two words of the key of each.
  const uint32_t* keys;
  int64_t sweeps;
  int64_t burn_in;
  // The results.
  void* labels;     // [T], K or more where there is none yet
  int label_bytes;  // 1 or 2
  int32_t* words;   // [K, V], or null
  Count count;
  int32_t* tally;  // [B, K], or null: counts in each document, summed over sweeps from `burn_in` on
  // Threads that work on it take documents from here.
  std::atomic<int64_t>* taken;
  int64_t claim;  // documents at a time
  bool apart;     // each thread counts for itself, and adds its counts up in the end
  // Otherwise `words` lies in parts of 2^part cells, of which one thread at a time changes each; 0
  // where there is one thread, and the table is small.
  int part;
  std::mutex* locks;  // one for each part, or for the adding up
};

inline size_t parts_of(size_t cells, int part) { return (cells + (size_t(1) << part) - 1) >> part; }

// Bounds are floats of five bits of exponent and three of fraction, from 2^-31 to above 1. Their bits
// within those of a float32:
constexpr int kFraction = 20;
constexpr uint32_t kLeast = 96u << 23;

// The least of them that is not below a weight of at most 1.
inline uint8_t bound_of(float weight) {
  uint32_t bits;
  std::memcpy(&bits, &weight, 4);
  const uint32_t up = bits + (1u << kFraction) - 1;
  return up <= kLeast ? 0 : std::min((up - kLeast) >> kFraction, 255u);
}

// Levels are whole numbers of parts of the largest weight, 1. Topics lie in groups of so many.
constexpr float kUnits = 32767;
constexpr int kGroup = 64;

inline int32_t rounded_up(float x) {
  const int32_t whole = static_cast<int32_t>(x);
  return whole + (static_cast<float>(whole) < x);
}

inline int16_t level_of(float weight) {
  const float level = std::min(weight, 1.0f) * kUnits;
  return level > 0 ? rounded_up(level) : 0;
}

// By what the integer kernel multiplies the masses (count + alpha) of a document: each, rounded up,
// has to fit into 16 bits, and the sum of all, times the largest level, into 32.
inline int32_t scale_of(const Task& task, int64_t length) {
  const float each = 32766.0f / (length + task.most_alpha + 1);
  const float all = (65000.0f - task.num_topics) / (length + task.total_alpha);
  return static_cast<int32_t>(std::min(each, all));
}

// The longest document of a scale of 1 or more; below 1 where there is none.
inline int64_t longest_scaled(const Task& task) {
  const float each = 32764.0f - task.most_alpha;
  const float all = 64998.0f - task.num_topics - task.total_alpha;
  const float length = std::min(each, all);
  return length >= 1 ? static_cast<int64_t>(length) : 0;
}

// The documents of one thread. The last ones come first: a corpus is ordered by length, and a long
// document that is begun late would keep all others waiting.
class Queue {
 public:
  explicit Queue(const Task& task) : task_(task), next_(0), end_(0) {}

  // Returns the next document of a length that is to be taken, or -1.
  int64_t pop() {
    for (;;) {
      if (next_ == end_) {
        next_ = task_.taken->fetch_add(task_.claim, std::memory_order_relaxed);
        end_ = std::min(next_ + task_.claim, task_.num_documents);
        if (next_ >= task_.num_documents) {
          next_ = end_ = 0;
          return -1;
        }
      }
      const int64_t document = task_.num_documents - 1 - next_++;
      const int64_t length = task_.lengths[document];
      if (length >= task_.shortest && length <= task_.longest) return document;
    }
  }

 private:
  const Task& task_;
  int64_t next_;
  int64_t end_;
};

// Memory of one thread, cut into aligned pieces.
class Workspace {
 public:
  explicit Workspace(size_t bytes)
      : start_(static_cast<char*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64))), used_(0) {
    if (!start_) throw std::bad_alloc();
  }
  ~Workspace() { std::free(start_); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  static constexpr size_t room(size_t bytes) { return (bytes + 63) / 64 * 64; }

  template <typename T>
  T* take(size_t count) {
    char* piece = start_ + used_;
    used_ += room(count * sizeof(T));
    return reinterpret_cast<T*>(piece);
  }

 private:
  char* start_;
  size_t used_;
};

// Changes of the counts of topics and words, made some time after they are noted. In a small table
// their memory is asked for meanwhile. Those of a large one, which are all over the memory, are noted
// apart for each part of it, and made when a part has many.
class Log {
 public:
  explicit Log(const Task& task)
      : task_(task),
        words_(task.num_words),
        cells_(task.num_topics * task.num_words),
        own_(task.apart ? new int32_t[cells_]() : nullptr),
        counts_(own_ ? own_.get() : task.words),
        size_(0),
        parts_(task.words && task.part ? parts_of(cells_, task.part) : 0),
        sizes_(new uint32_t[parts_]()),
        notes_(new uint32_t[parts_ * kRoom]) {}

  // Notes that a token of a word went from one topic, K for none, to another in a sweep.
  inline __attribute__((always_inline)) void record(uint32_t from, uint32_t to, size_t word,
                                                    int64_t sweep) {
    const bool all = task_.count == Count::kLabels;
    if (task_.count == Count::kNothing || (all && sweep < task_.burn_in)) return;
    const size_t left = all ? cells_ : from * words_ + word, come = to * words_ + word;
    const bool moved = all | (from != to);
    if (parts_) {
      if (left < cells_) note(left, kLeft, moved);
      note(come, kCame, moved);
      return;
    }
    left_[size_] = left;
    come_[size_] = come;
    __builtin_prefetch(counts_ + (left < cells_ ? left : come), 1);
    __builtin_prefetch(counts_ + come, 1);
    size_ += moved;
    if (size_ == kSize) flush();
  }

  // Makes all changes that are noted; nothing may be noted after it.
  void close() {
    flush();
    for (size_t part = 0; part < parts_; ++part) make(part);
    if (!own_) return;
    std::lock_guard<std::mutex> lock(task_.locks[0]);
    for (size_t cell = 0; cell < cells_; ++cell) task_.words[cell] += own_[cell];
  }

 private:
  static constexpr int kSize = 128;
  static constexpr uint32_t kRoom = 1 << 15;  // notes of a part
  static constexpr uint32_t kSoon = 48;       // by how many notes their memory is asked for early
  static constexpr uint32_t kCame = 0, kLeft = 1;

  __attribute__((noinline)) void flush() {
    for (int i = 0; i < size_; ++i) {
      if (left_[i] < cells_) --counts_[left_[i]];
      ++counts_[come_[i]];
    }
    size_ = 0;
  }

  // Without a jump that depends on whether it counts.
  inline __attribute__((always_inline)) void note(size_t cell, uint32_t kind, bool counts) {
    const size_t part = cell >> task_.part;
    uint32_t& size = sizes_[part];
    notes_[part * kRoom + size] = static_cast<uint32_t>(cell - (part << task_.part)) << 1 | kind;
    size += counts;
    if (size == kRoom) make(part);
  }

  __attribute__((noinline)) void make(size_t part) {
    std::lock_guard<std::mutex> lock(task_.locks[part]);
    int32_t* counts = counts_ + (part << task_.part);
    const uint32_t* notes = notes_.get() + part * kRoom;
    const uint32_t size = sizes_[part];
    for (uint32_t i = 0; i < size; ++i) {
      __builtin_prefetch(counts + (notes[std::min(i + kSoon, size - 1)] >> 1), 1);
      counts[notes[i] >> 1] += 1 - 2 * static_cast<int32_t>(notes[i] & 1);
    }
    sizes_[part] = 0;
  }

  const Task& task_;
  const size_t words_;
  const size_t cells_;
  const std::unique_ptr<int32_t[]> own_;  // counts of this thread, or none
  int32_t* const counts_;
  int size_;
  size_t left_[kSize];
  size_t come_[kSize];
  const size_t parts_;
  const std::unique_ptr<uint32_t[]> sizes_;
  const std::unique_ptr<uint32_t[]> notes_;
};

}  // namespace simplex
