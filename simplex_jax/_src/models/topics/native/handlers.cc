// XLA's calls of the sweeps over documents.

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "simplex_jax/_src/native/threads.h"
#include "simplex_jax/_src/native/widest.h"
#include "task.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace simplex {

namespace plain {
void lay_out(const Layout&);
void tables(const Seating&);
void word_tables(const Bursts&);
void dense(const Task&);
void integer(const Task&);
void sparse(const Task&);
}
namespace avx2 {
void lay_out(const Layout&);
void tables(const Seating&);
void word_tables(const Bursts&);
void dense(const Task&);
void integer(const Task&);
void sparse(const Task&);
}
namespace avx512 {
void lay_out(const Layout&);
void tables(const Seating&);
void word_tables(const Bursts&);
void dense(const Task&);
void integer(const Task&);
void sparse(const Task&);
}

namespace {

enum Kind : int64_t { kDense = 1, kSparse = 2, kInteger = 3 };

using Kernel = void (*)(const Task&);

// The kernel for documents that are too long for whole numbers. Like all choices of a kernel it must
// not depend on the other documents, which differ with the number of devices: kernels draw different
// labels.
Kind kind_of_long(int64_t topics) { return topics >= 768 ? kSparse : kDense; }

Kernel kernel_for(Kind kind, int64_t width) {
  switch (kind) {
    case kInteger:
      return for_width(width, EACH_WIDTH(integer));
    case kSparse:
      return for_width(width, EACH_WIDTH(sparse));
    default:
      return for_width(width, EACH_WIDTH(dense));
  }
}

// Which words the documents have; empty, for all words, if there are so many tokens that few words
// would be absent.
std::vector<uint8_t> words_of(const Task& task, int64_t total) {
  constexpr int64_t kTokens = 8;  // a word, most of them in copies of a document
  std::vector<uint8_t> present;
  if (total >= kTokens * task.num_words) return present;
  present.resize(task.num_words);
  for (int64_t d = 0; d < task.num_documents; ++d) {
    const int32_t* tokens = task.tokens + task.starts[d];
    for (int64_t i = 0; i < task.lengths[d]; ++i) present[tokens[i]] = 1;
  }
  return present;
}

// Running sums of alpha * weights over the rows of each word present, and bounds of the weights.
void prepare(ffi::ThreadPool& pool, const Task& task, const std::vector<uint8_t>& present,
             float* priors, uint8_t* bounds) {
  std::atomic<int64_t> next{0};
  together(pool, threads_for(pool, task.num_words * task.num_topics), [&] {
    constexpr int64_t kBlock = 64;
    for (int64_t v; (v = next.fetch_add(kBlock, std::memory_order_relaxed)) < task.num_words;) {
      for (int64_t w = v; w < std::min(v + kBlock, task.num_words); ++w) {
        if (!present.empty() && !present[w]) continue;
        const float* weights = task.weights + w * task.rows * kLanes;
        uint8_t* bound = bounds + w * task.rows * kLanes;
        for (int64_t k = 0; k < task.rows * kLanes; ++k) bound[k] = bound_of(weights[k]);
        float sum = 0;
        for (int64_t k = 0; k < task.num_topics; ++k) {
          sum += task.alpha[k] * weights[k];
          if (k % kLanes == kLanes - 1 || k == task.num_topics - 1) {
            priors[w * task.rows + k / kLanes] = sum;
          }
        }
      }
    }
  });
}

// Levels of the weights of each word present.
void prepare(ffi::ThreadPool& pool, const Task& task, const std::vector<uint8_t>& present,
             int16_t* levels) {
  std::atomic<int64_t> next{0};
  together(pool, threads_for(pool, task.num_words * task.num_topics), [&] {
    for (int64_t v; (v = next.fetch_add(1, std::memory_order_relaxed)) < task.num_words;) {
      if (!present.empty() && !present[v]) continue;
      const float* weights = task.weights + v * task.rows * kLanes;
      int16_t* row = levels + v * task.groups * kGroup;
      std::transform(weights, weights + task.num_topics, row, level_of);
      std::fill(row + task.num_topics, row + task.groups * kGroup, 0);
    }
  });
}

ffi::Error wrong(const std::string& what) {
  return ffi::Error(ffi::ErrorCode::kInvalidArgument, "LDA: " + what);
}

// Checks that documents lie within the tokens and their words within the topics. Sets the `total` of
// tokens and the `longest` document.
ffi::Error check(ffi::Buffer<ffi::S32>& tokens, ffi::Buffer<ffi::S32>& starts,
                 ffi::Buffer<ffi::S32>& lengths, int64_t num_words, int64_t* total,
                 int64_t* longest) {
  const int64_t size = tokens.element_count();
  *total = *longest = 0;
  for (size_t d = 0; d < lengths.element_count(); ++d) {
    const int64_t start = starts.typed_data()[d], length = lengths.typed_data()[d];
    if (length <= 0) continue;
    if (start < 0 || start + length > size) {
      return wrong("a document lies outside of the tokens");
    }
    // One pass over memory that the sweep reads next; a wild read would end the process.
    const int32_t* words = tokens.typed_data() + start;
    uint32_t largest = 0;
    for (int64_t i = 0; i < length; ++i) {
      largest = std::max(largest, static_cast<uint32_t>(words[i]));
    }
    if (largest >= num_words) return wrong("a token is not a word of the topics");
    *total += length;
    *longest = std::max(*longest, length);
  }
  return ffi::Error::Success();
}

template <ffi::DataType T>
void carry(ffi::Buffer<T>& from, ffi::ResultBuffer<T>& to) {
  if (to->typed_data() != from.typed_data()) {
    std::memcpy(to->untyped_data(), from.untyped_data(), from.size_bytes());
  }
}

// Cells of a table that the caches hold, more or less.
constexpr int64_t kSmallTable = 1 << 21;

// Parts fit into a core's cache, unless that makes too many of them.
constexpr int kLeastPart = 17;
constexpr size_t kMostParts = 256;

int part_for(size_t cells) {
  int part = kLeastPart;
  while (parts_of(cells, part) > kMostParts) ++part;
  return part;
}

// Whether threads count for themselves. Where they change the counts of the same words, they wait
// for each other's caches longer than they draw; but counts of their own have to fit into these
// caches, and to be added up, by one thread after the other, in less time than the sweeps take.
bool apart(const Task& task, int64_t threads, int64_t tokens) {
  constexpr int64_t kEffort = 16;
  const int64_t cells = task.num_topics * task.num_words;
  return threads > 1 && cells <= kSmallTable &&
         cells * threads * threads <= kEffort * tokens * task.sweeps;
}

// How many documents a thread takes at a time.
int64_t claim_for(int64_t documents, int64_t threads) {
  return std::clamp<int64_t>(documents / (threads * 64), 1, 32);
}

// Sweeps by one kernel, after its tables.
void run(ffi::ThreadPool& pool, int64_t threads, Task task, int64_t total, Kind kind,
         int64_t width) {
  std::atomic<int64_t> taken{0};
  task.taken = &taken;
  std::unique_ptr<float[]> priors;
  std::unique_ptr<uint8_t[]> bounds;
  std::unique_ptr<int16_t[]> levels;
  if (kind == kSparse) {
    priors.reset(new float[task.num_words * task.rows]);
    task.priors = priors.get();
    bounds.reset(new uint8_t[task.num_words * task.rows * kLanes]);
    task.bounds = bounds.get();
    prepare(pool, task, words_of(task, total), priors.get(), bounds.get());
  } else if (kind == kInteger) {
    levels.reset(new int16_t[task.num_words * task.groups * kGroup]);
    task.levels = levels.get();
    prepare(pool, task, words_of(task, total), levels.get());
  }
  const Kernel kernel = kernel_for(kind, width);
  together(pool, threads, [&] { kernel(task); });
}

// Where `scales` [V] are given, with bursts of concentration `own`; see dense.inl.
ffi::Error sweep_of(const float* scales, float own, ffi::ThreadPool& pool,
                    ffi::Buffer<ffi::U32> keys, ffi::Buffer<ffi::F32> weights,
                    ffi::Buffer<ffi::F32> alpha, ffi::Buffer<ffi::S32> tokens,
                    ffi::Buffer<ffi::S32> starts, ffi::Buffer<ffi::S32> lengths,
                    ffi::Buffer<ffi::U32> ids, ffi::AnyBuffer labels, ffi::Buffer<ffi::S32> words,
                    ffi::Result<ffi::AnyBuffer> new_labels, ffi::ResultBuffer<ffi::S32> new_words,
                    ffi::ResultBuffer<ffi::S32> tally, int64_t burn_in, int64_t count,
                    int64_t kind, int64_t width) {
  const int64_t num_words = weights.dimensions()[0];
  int64_t total, longest;
  ffi::Error error = check(tokens, starts, lengths, num_words, &total, &longest);
  if (error.failure()) return error;
  if (new_labels->untyped_data() != labels.untyped_data()) {
    std::memcpy(new_labels->untyped_data(), labels.untyped_data(), labels.size_bytes());
  }
  if (words.element_count()) {
    carry(words, new_words);
  } else {
    std::memset(new_words->untyped_data(), 0, new_words->size_bytes());
  }
  std::memset(tally->untyped_data(), 0, tally->size_bytes());

  const int64_t threads = threads_for(pool, 8 * total * keys.dimensions()[0]);
  Task task;
  task.tokens = tokens.typed_data();
  task.starts = starts.typed_data();
  task.lengths = lengths.typed_data();
  task.ids = ids.typed_data();
  task.num_documents = lengths.element_count();
  task.weights = weights.typed_data();
  task.alpha = alpha.typed_data();
  task.num_topics = alpha.element_count();
  task.num_words = num_words;
  task.rows = weights.dimensions()[1] / kLanes;
  task.groups = (task.num_topics + kGroup - 1) / kGroup;
  task.most_alpha = *std::max_element(task.alpha, task.alpha + task.num_topics);
  task.scales = scales;
  task.own = own;
  task.total_alpha = std::accumulate(task.alpha, task.alpha + task.num_topics, 0.0f);
  task.keys = keys.typed_data();
  task.sweeps = keys.dimensions()[0];
  task.burn_in = burn_in;
  task.labels = new_labels->untyped_data();
  task.label_bytes = labels.element_type() == ffi::U8 ? 1 : 2;
  task.words = count ? new_words->typed_data() : nullptr;
  task.count = static_cast<Count>(count);
  task.tally = tally->element_count() ? tally->typed_data() : nullptr;
  task.claim = claim_for(task.num_documents, threads);
  const int64_t cells = task.num_topics * num_words;
  task.apart = task.words && apart(task, threads, total);
  task.part = task.apart || (threads == 1 && cells <= kSmallTable) ? 0 : part_for(cells);
  std::unique_ptr<std::mutex[]> locks(new std::mutex[kMostParts]);
  task.locks = locks.get();
  const Kind chosen = static_cast<Kind>(kind);
  task.shortest = 1;
  task.longest = longest;
  if (chosen == kInteger && longest > longest_scaled(task)) {
    Task rest = task;
    task.longest = longest_scaled(task);
    rest.shortest = task.longest + 1;
    run(pool, threads, rest, total, kind_of_long(task.num_topics), width);
  }
  run(pool, threads, task, total, chosen, width);
  return ffi::Error::Success();
}

ffi::Error sweep(ffi::ThreadPool pool, ffi::Buffer<ffi::U32> keys, ffi::Buffer<ffi::F32> weights,
                 ffi::Buffer<ffi::F32> alpha, ffi::Buffer<ffi::S32> tokens,
                 ffi::Buffer<ffi::S32> starts, ffi::Buffer<ffi::S32> lengths,
                 ffi::Buffer<ffi::U32> ids, ffi::AnyBuffer labels, ffi::Buffer<ffi::S32> words,
                 ffi::Result<ffi::AnyBuffer> new_labels, ffi::ResultBuffer<ffi::S32> new_words,
                 ffi::ResultBuffer<ffi::S32> tally, int64_t burn_in, int64_t count,
                 int64_t kind, int64_t width) {
  return sweep_of(nullptr, 0, pool, keys, weights, alpha, tokens, starts, lengths, ids, labels, words,
                  new_labels, new_words, tally, burn_in, count, kind, width);
}

ffi::Error sweep_bursts(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> scales,
                        ffi::Buffer<ffi::F32> own, ffi::Buffer<ffi::U32> keys, ffi::Buffer<ffi::F32> weights,
                        ffi::Buffer<ffi::F32> alpha, ffi::Buffer<ffi::S32> tokens,
                        ffi::Buffer<ffi::S32> starts, ffi::Buffer<ffi::S32> lengths,
                        ffi::Buffer<ffi::U32> ids, ffi::AnyBuffer labels, ffi::Buffer<ffi::S32> words,
                        ffi::Result<ffi::AnyBuffer> new_labels, ffi::ResultBuffer<ffi::S32> new_words,
                        ffi::ResultBuffer<ffi::S32> tally, int64_t burn_in, int64_t count,
                        int64_t width) {
  if (scales.element_count() != static_cast<size_t>(weights.dimensions()[0])) {
    return wrong("there is a scale for each word");
  }
  return sweep_of(scales.typed_data(), *own.typed_data(), pool, keys, weights, alpha, tokens, starts, lengths, ids, labels, words,
                  new_labels, new_words, tally, burn_in, count,
                  kDense, width);
}

// Rows of weights [V, rows * 16] from the logarithms of topics [K, V].
ffi::Error lay_out(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> log_topics,
                   ffi::ResultBuffer<ffi::F32> weights, int64_t width) {
  std::atomic<int64_t> taken{0};
  const Layout task{log_topics.typed_data(),   weights->typed_data(),    log_topics.dimensions()[0],
                    log_topics.dimensions()[1], weights->dimensions()[1], &taken};
  const auto kernel = for_width(width, EACH_WIDTH(lay_out));
  together(pool, threads_for(pool, task.num_topics * task.num_words), [&] { kernel(task); });
  return ffi::Error::Success();
}

// Tokens of each topic, [..., K], from those of each topic and word, [..., K, V].
ffi::Error totals(ffi::ThreadPool pool, ffi::Buffer<ffi::S32> counts,
                  ffi::ResultBuffer<ffi::F32> sums) {
  const int64_t rows = sums->element_count(), words = counts.dimensions().back();
  const int32_t* from = counts.typed_data();
  float* to = sums->typed_data();
  std::atomic<int64_t> next{0};
  together(pool, threads_for(pool, rows * words), [&] {
    for (int64_t k; (k = next.fetch_add(1, std::memory_order_relaxed)) < rows;) {
      const int32_t* row = from + k * words;
      to[k] = static_cast<float>(std::accumulate(row, row + words, int64_t{0}));
    }
  });
  return ffi::Error::Success();
}

// Tables of each topic in all documents, [K].
ffi::Error tables(ffi::ThreadPool pool, ffi::Buffer<ffi::U32> key,
                  ffi::Buffer<ffi::F32> concentration, ffi::AnyBuffer labels,
                  ffi::Buffer<ffi::S32> starts, ffi::Buffer<ffi::S32> lengths,
                  ffi::Buffer<ffi::U32> ids, ffi::ResultBuffer<ffi::S32> result,
                  int64_t width) {
  const int64_t size = labels.element_count(), topics = concentration.element_count();
  int64_t total = 0;
  for (size_t d = 0; d < lengths.element_count(); ++d) {
    const int64_t start = starts.typed_data()[d], length = lengths.typed_data()[d];
    if (length <= 0) continue;
    if (start < 0 || start + length > size) return wrong("a document lies outside of the tokens");
    total += length;
  }
  const int64_t threads = threads_for(pool, total);
  std::vector<int64_t> sums(topics);
  std::atomic<int64_t> taken{0};
  std::mutex lock;
  const Seating task{key.typed_data(),
                     concentration.typed_data(),
                     topics,
                     labels.untyped_data(),
                     labels.element_type() == ffi::U8 ? 1 : 2,
                     starts.typed_data(),
                     lengths.typed_data(),
                     ids.typed_data(),
                     static_cast<int64_t>(lengths.element_count()),
                     sums.data(),
                     &taken,
                     claim_for(lengths.element_count(), threads),
                     &lock};
  const auto kernel = for_width(width, EACH_WIDTH(tables));
  together(pool, threads, [&] { kernel(task); });
  std::copy(sums.begin(), sums.end(), result->typed_data());
  return ffi::Error::Success();
}

// Tables of each word in each topic in all documents of a slice, [K, slices, V].
ffi::Error word_tables(ffi::ThreadPool pool, ffi::Buffer<ffi::U32> key,
                       ffi::Buffer<ffi::F32> log_topics, ffi::Buffer<ffi::F32> own,
                       ffi::Buffer<ffi::S32> tokens, ffi::Buffer<ffi::S32> starts,
                       ffi::Buffer<ffi::S32> lengths, ffi::Buffer<ffi::U32> ids,
                       ffi::AnyBuffer labels, ffi::ResultBuffer<ffi::S32> result,
                       ffi::ResultBuffer<ffi::S32> ranks, int64_t width) {
  const auto shape = log_topics.dimensions();
  int64_t total, longest;
  ffi::Error error = check(tokens, starts, lengths, shape[2], &total, &longest);
  if (error.failure()) return error;
  const int64_t num_ranks = ranks->element_count();
  if (longest > num_ranks) return wrong("a document is longer than there are ranks");
  std::memset(result->untyped_data(), 0, result->size_bytes());
  std::vector<int64_t> sums(num_ranks);
  const int64_t threads = threads_for(pool, total);
  std::atomic<int64_t> taken{0};
  std::mutex lock;
  const Bursts task{key.typed_data(),
                    log_topics.typed_data(),
                    *own.typed_data(),
                    shape[0],
                    shape[1],
                    shape[2],
                    tokens.typed_data(),
                    labels.untyped_data(),
                    labels.element_type() == ffi::U8 ? 1 : 2,
                    starts.typed_data(),
                    lengths.typed_data(),
                    ids.typed_data(),
                    static_cast<int64_t>(lengths.element_count()),
                    result->typed_data(),
                    sums.data(),
                    num_ranks,
                    &taken,
                    claim_for(lengths.element_count(), threads),
                    &lock};
  const auto kernel = for_width(width, EACH_WIDTH(word_tables));
  together(pool, threads, [&] { kernel(task); });
  std::copy(sums.begin(), sums.end(), ranks->typed_data());
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexSweep, sweep,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::Buffer<ffi::S32>>()
                                  .Attr<int64_t>("burn_in")
                                  .Attr<int64_t>("count")
                                  .Attr<int64_t>("kind")
                                  .Attr<int64_t>("width"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexSweepBursts, sweep_bursts,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::Buffer<ffi::S32>>()
                                  .Attr<int64_t>("burn_in")
                                  .Attr<int64_t>("count")
                                  .Attr<int64_t>("width"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexLayOut, lay_out,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<int64_t>("width"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexTotals, totals,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexTables, tables,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Ret<ffi::Buffer<ffi::S32>>()
                                  .Attr<int64_t>("width"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexWordTables, word_tables,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::Buffer<ffi::S32>>()
                                  .Attr<int64_t>("width"));

}  // namespace simplex
