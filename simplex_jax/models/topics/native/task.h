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
  float most_alpha;   // the largest
  float total_alpha;  // their sum
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
  bool shared;    // there is more than one thread
  // Where each thread counts for itself and adds its counts up in the end: one after the other.
  std::mutex* adding_up;  // or null
};

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

// Changes of the counts of topics and words, made some time after their memory was asked for.
class Log {
 public:
  explicit Log(const Task& task)
      : task_(task),
        words_(task.num_words),
        cells_(task.num_topics * task.num_words),
        own_(task.adding_up ? new (std::nothrow) int32_t[cells_]() : nullptr),
        counts_(own_ ? own_.get() : task.words),
        size_(0) {}

  // Notes that a token of a word went from one topic, K for none, to another in a sweep.
  inline __attribute__((always_inline)) void record(uint32_t from, uint32_t to, size_t word, int64_t sweep) {
    if (task_.count == Count::kChanges) {
      const size_t left = from * words_ + word, come = to * words_ + word;
      left_[size_] = left;
      come_[size_] = come;
      __builtin_prefetch(counts_ + (left < cells_ ? left : come), 1);
      __builtin_prefetch(counts_ + come, 1);
      size_ += from != to;
    } else if (task_.count == Count::kLabels && sweep >= task_.burn_in) {
      left_[size_] = cells_;
      come_[size_] = to * words_ + word;
      __builtin_prefetch(counts_ + come_[size_], 1);
      ++size_;
    }
    if (size_ == kSize) flush();
  }

  // Makes all changes that are noted; nothing may be noted after it.
  void close() {
    flush();
    if (!own_) return;
    std::lock_guard<std::mutex> lock(*task_.adding_up);
    for (size_t cell = 0; cell < cells_; ++cell) task_.words[cell] += own_[cell];
  }

 private:
  static constexpr int kSize = 128;

  __attribute__((noinline)) void flush() {
    for (int i = 0; i < size_; ++i) {
      if (left_[i] < cells_) add(left_[i], -1);
      add(come_[i], 1);
    }
    size_ = 0;
  }

  void add(size_t cell, int32_t change) {
    if (task_.shared && !own_) {
      __atomic_fetch_add(counts_ + cell, change, __ATOMIC_RELAXED);
    } else {
      counts_[cell] += change;
    }
  }

  const Task& task_;
  const size_t words_;
  const size_t cells_;
  const std::unique_ptr<int32_t[]> own_;  // counts of this thread, or none
  int32_t* const counts_;
  int size_;
  size_t left_[kSize];
  size_t come_[kSize];
};

}  // namespace simplex
