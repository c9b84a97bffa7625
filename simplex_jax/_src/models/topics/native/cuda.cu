// Collapsed Gibbs sweeps on GPUs of NVIDIA, and what else the local step needs of the labels. With up to
// 192 topics labels are those of the kernel of CPUs that weighs all topics as floats, bit for bit.

#include <algorithm>
#include <string>

#include "simplex_jax/_src/native/scalars.cuh"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace simplex::cuda {
namespace {

constexpr int kLanes = 16;     // topics of a row, as in task.h
constexpr int kMostRows = 12;  // of topics that threads keep in registers
constexpr int kWarp = 32;
constexpr int kThreads = 128;
constexpr int kMostWarps = 8;  // of a block that keeps counts in shared memory
constexpr unsigned kAll = 0xffffffffu;

enum Count : int64_t { kNothing = 0, kChanges = 1, kLabels = 2 };  // as in task.h

struct Documents {
  const int32_t* tokens;  // null where only labels are looked at
  const int32_t* starts;
  const int32_t* lengths;
  const uint32_t* ids;
  int64_t number;
  int64_t size;  // of the tokens

  // The one that the i-th group of threads takes: the last ones come first, which are the longest.
  __device__ int64_t at(int64_t i) const { return number - 1 - i; }

  // Its length; one outside of the tokens ends the program, as its labels would be those of others.
  __device__ int length(int64_t document) const {
    const int start = starts[document], length = lengths[document];
    if (length <= 0) return 0;
    if (start < 0 || int64_t(start) + length > size) __trap();
    return length;
  }
};

struct Task {
  Documents documents;
  const float* weights;  // [V, rows * 16], zeros from K on
  const float* alpha;    // [K]
  int topics;
  int64_t words;
  int rows;
  const uint32_t* keys;  // two words for each sweep
  int64_t sweeps;
  int64_t burn_in;
  void* labels;     // [T], K or more where there is none yet
  int32_t* counts;  // of topics and words, [K, V]
  Count count;
  int32_t* tally;  // [B, K], or null: counts in each document, summed over sweeps from `burn_in` on
};

ALWAYS_INLINE float uniform_at(const uint32_t* key, uint32_t position, uint32_t id) {
  uint32_t one = 2 * position, two = id;
  threefry(key, one, two);
  return uniform(one);
}

// The word of a token; one that is none ends the program.
ALWAYS_INLINE int word_at(const Task& task, int64_t place) {
  const int word = task.documents.tokens[place];
  if (static_cast<uint32_t>(word) >= task.words) __trap();
  return word;
}

// Counts that a token of a word went from a topic, K or more for none, to another.
ALWAYS_INLINE void record(const Task& task, int from, int to, int word, int64_t sweep) {
  if (task.count == kNothing) return;
  const bool all = task.count == kLabels;
  if (all ? sweep < task.burn_in : from == to) return;
  if (!all && from < task.topics) atomicAdd(task.counts + from * task.words + word, -1);
  atomicAdd(task.counts + to * task.words + word, 1);
}

// A number a little below a positive one.
ALWAYS_INLINE float below(float x) { return __int_as_float(__float_as_int(x) - 1); }

// Where rounding, or weights that are NaN, left no topic to choose, see dense.inl: one topic after the
// other, of 16 threads that have a lane each.
template <int kRows>
__device__ __noinline__ int careful(const double (&masses)[kRows], float u, int fallback) {
  double total = 0, sum = 0;
  for (int b = 0; b < kRows; ++b) {
    for (int j = 0; j < kLanes; ++j) total += __shfl_sync(kAll, masses[b], j, kLanes);
  }
  int topic = -1;
  for (int j = 0; j < kLanes; ++j) {
    for (int b = 0; b < kRows; ++b) {
      const double mass = __shfl_sync(kAll, masses[b], j, kLanes);
      sum += mass;
      if (topic < 0 && mass > 0 && sum > u * total) topic = b * kLanes + j;
    }
  }
  return topic < 0 ? fallback : topic;
}

// Sweeps with few topics: 16 threads take a document and keep counts and concentrations in registers.
// The two documents of a warp go on side by side.
template <typename Label, int kRows>
__global__ void __launch_bounds__(kThreads) narrow(Task task) {
  const Documents& documents = task.documents;
  const int lane = threadIdx.x % kLanes;
  const int64_t taken = int64_t(blockIdx.x) * (kThreads / kLanes) + threadIdx.x / kLanes;
  const bool some = taken < documents.number;
  const int64_t document = some ? documents.at(taken) : 0;
  const int length = some ? documents.length(document) : 0;
  const int longer = max(length, __shfl_xor_sync(kAll, length, kLanes));
  const int64_t start = length ? documents.starts[document] : 0;
  const uint32_t id = length ? documents.ids[document] : 0;
  Label* const labels = static_cast<Label*>(task.labels) + start;
  const int none = kRows * kLanes;

  float alpha[kRows];
  int counts[kRows] = {};
#pragma unroll
  for (int b = 0; b < kRows; ++b) {
    const int topic = b * kLanes + lane;
    alpha[b] = topic < task.topics ? task.alpha[topic] : 0.0f;
  }
  const auto add = [&](int topic, int change) {
#pragma unroll
    for (int b = 0; b < kRows; ++b) counts[b] += topic == b * kLanes + lane ? change : 0;
  };
  for (int first = 0; first < longer; first += kLanes) {
    int own = first + lane < length ? labels[first + lane] : none;
    own = own < task.topics ? own : none;
#pragma unroll
    for (int j = 0; j < kLanes; ++j) add(__shfl_sync(kAll, own, j, kLanes), 1);
  }

  const auto word_of = [&](int position) {
    return position < length ? word_at(task, start + position) : 0;
  };
  const auto fetch = [&](int word, float (&weights)[kRows]) {
    const float* of_word = task.weights + int64_t(word) * (kRows * kLanes) + lane;
#pragma unroll
    for (int b = 0; b < kRows; ++b) weights[b] = __ldg(of_word + b * kLanes);
  };
  for (int64_t sweep = 0; sweep < task.sweeps; ++sweep) {
    const uint32_t key[2] = {task.keys[2 * sweep], task.keys[2 * sweep + 1]};
    int soon = word_of(lane);
    float weights[kRows], ahead[kRows];
    fetch(__shfl_sync(kAll, soon, 0, kLanes), ahead);
    for (int first = 0; first < longer; first += kLanes) {
      const int position = first + lane, own_word = soon;
      const int before = position < length ? labels[position] : none;
      const int own_old = before < task.topics ? before : none;
      const float own_u = uniform_at(key, position, id);
      soon = word_of(position + kLanes);
      int own_new = own_old;
      const int some_more = min(kLanes, longer - first);
      for (int j = 0; j < some_more; ++j) {
        const int old = __shfl_sync(kAll, own_old, j, kLanes);
        const float u = __shfl_sync(kAll, own_u, j, kLanes);
        const int this_word = __shfl_sync(kAll, own_word, j + 1, kLanes);
        const int first_soon = __shfl_sync(kAll, soon, 0, kLanes);
#pragma unroll
        for (int b = 0; b < kRows; ++b) weights[b] = ahead[b];
        fetch(j + 1 < kLanes ? this_word : first_soon, ahead);
        const bool inside = first + j < length;
        add(old, -1);
        float sum = 0, partial[kRows];
#pragma unroll
        for (int b = 0; b < kRows; ++b) {
          const float mass = (static_cast<float>(counts[b]) + alpha[b]) * weights[b];
          sum = b ? sum + mass : mass;
          partial[b] = sum;
        }
        // Running sums of lanes, added up in the order of `search` in search.inl.
        float running = sum;
        float other = __shfl_sync(kAll, running, lane - 1, kLanes);
        running += lane % 4 >= 1 ? other : 0.0f;
        other = __shfl_sync(kAll, running, lane - 2, kLanes);
        running += lane % 4 >= 2 ? other : 0.0f;
        other = __shfl_sync(kAll, running, lane / 8 * 8 + 3, kLanes);
        running += lane % 8 >= 4 ? other : 0.0f;
        other = __shfl_sync(kAll, running, 7, kLanes);
        running += lane >= 8 ? other : 0.0f;
        const float threshold = __shfl_sync(kAll, running, kLanes - 1, kLanes) * u;
        const unsigned passed = __ballot_sync(kAll, running <= threshold);
        const unsigned passed_here = passed >> (threadIdx.x & kLanes) & 0xffffu;
        const int chosen = min(__popc(passed_here), kLanes - 1);
        other = __shfl_sync(kAll, running, chosen - 1, kLanes);
        float left = threshold - (chosen ? other : 0.0f);
        const float most = __shfl_sync(kAll, sum, chosen, kLanes);
        // Rounding must not lead beyond the lane, nor to a topic without mass.
        left = left < below(most) ? left : below(most);
        left = left > 0 ? left : 0;
        int row = 0;
#pragma unroll
        for (int b = 0; b < kRows - 1; ++b) row += partial[b] <= left;
        int topic = __shfl_sync(kAll, row, chosen, kLanes) * kLanes + chosen;
        const bool lost = inside && !(most > 0);
        if (__any_sync(kAll, lost)) {
          double masses[kRows];
#pragma unroll
          for (int b = 0; b < kRows; ++b) {
            masses[b] = double(static_cast<float>(counts[b]) + alpha[b]) * weights[b];
          }
          const int careful_topic = careful(masses, u, old < task.topics ? old : 0);
          topic = lost ? careful_topic : topic;
        }
        add(inside ? topic : none, 1);
        own_new = lane == j ? topic : own_new;
      }
      if (position < length) {
        labels[position] = static_cast<Label>(own_new);
        record(task, own_old, own_new, own_word, sweep);
      }
    }
    if (task.tally && sweep >= task.burn_in && length) {
#pragma unroll
      for (int b = 0; b < kRows; ++b) {
        const int topic = b * kLanes + lane;
        if (topic < task.topics) task.tally[document * task.topics + topic] += counts[b];
      }
    }
  }
}

// Running sums over the threads of a warp.
ALWAYS_INLINE float running_sum(float x, int lane) {
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const float other = __shfl_up_sync(kAll, x, step);
    x += lane >= step ? other : 0.0f;
  }
  return x;
}

ALWAYS_INLINE float4 masses_of(int4 counts, float4 alpha, float4 weights) {
  return {(static_cast<float>(counts.x) + alpha.x) * weights.x,
          (static_cast<float>(counts.y) + alpha.y) * weights.y,
          (static_cast<float>(counts.z) + alpha.z) * weights.z,
          (static_cast<float>(counts.w) + alpha.w) * weights.w};
}

ALWAYS_INLINE float sum_of(float4 x) { return (x.x + x.y) + (x.z + x.w); }

// As `careful`, for the topics in shared memory: one after the other.
__device__ __noinline__ int careful(const int* counts, const float* alpha, const float* weights,
                                    int topics, float u, int fallback) {
  double total = 0, sum = 0;
  for (int k = 0; k < topics; ++k) {
    total += double(static_cast<float>(counts[k]) + alpha[k]) * weights[k];
  }
  for (int k = 0; k < topics; ++k) {
    const double mass = double(static_cast<float>(counts[k]) + alpha[k]) * weights[k];
    sum += mass;
    if (mass > 0 && sum > u * total) return k;
  }
  return fallback;
}

// Sweeps with many topics: a warp takes a document and keeps its counts in shared memory. A topic is
// drawn in three steps: the thread that has it, its four of the thread's topics, and which of them.
template <typename Label, int kAtOnce>
__global__ void __launch_bounds__(kWarp* kMostWarps, kAtOnce > 4 ? 1 : 4) wide(Task task) {
  int4* const shared = shared_memory();
  const Documents& documents = task.documents;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int quads = task.rows * (kLanes / 4);
  float* const alpha = reinterpret_cast<float*>(shared);
  int* const counts = reinterpret_cast<int*>(shared + (1 + warp) * quads);
  for (int k = threadIdx.x; k < 4 * quads; k += blockDim.x) {
    alpha[k] = k < task.topics ? task.alpha[k] : 0.0f;
  }
  __syncthreads();
  const int64_t taken = int64_t(blockIdx.x) * (blockDim.x / kWarp) + warp;
  if (taken >= documents.number) return;
  const int64_t document = documents.at(taken);
  const int length = documents.length(document);
  if (length == 0) return;
  const int64_t start = documents.starts[document];
  const uint32_t id = documents.ids[document];
  Label* const labels = static_cast<Label*>(task.labels) + start;

  for (int k = lane; k < 4 * quads; k += kWarp) counts[k] = 0;
  __syncwarp();
  for (int i = lane; i < length; i += kWarp) {
    if (labels[i] < task.topics) atomicAdd(counts + labels[i], 1);
  }
  __syncwarp();

  const int4* const count4 = reinterpret_cast<const int4*>(counts);
  const float4* const alpha4 = reinterpret_cast<const float4*>(alpha);
  for (int64_t sweep = 0; sweep < task.sweeps; ++sweep) {
    const uint32_t key[2] = {task.keys[2 * sweep], task.keys[2 * sweep + 1]};
    for (int first = 0; first < length; first += kWarp) {
      const int position = first + lane;
      const bool inside = position < length;
      const int own_word = inside ? word_at(task, start + position) : 0;
      const int own_old = inside ? labels[position] : 0;
      const float own_u = uniform_at(key, position, id);
      int own_new = own_old;
      const int some = min(kWarp, length - first);
      for (int j = 0; j < some; ++j) {
        const int old = __shfl_sync(kAll, own_old, j);
        const float u = __shfl_sync(kAll, own_u, j);
        const int word = __shfl_sync(kAll, own_word, j);
        const float4* const weights =
            reinterpret_cast<const float4*>(task.weights) + int64_t(word) * quads;
        if (lane == 0 && old < task.topics) --counts[old];
        __syncwarp();
        float sum = 0;
        int next = lane;
        for (; next + (kAtOnce - 1) * kWarp < quads; next += kAtOnce * kWarp) {
          float4 loaded[kAtOnce];  // all asked for before the first is waited for
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) loaded[i] = __ldg(weights + next + i * kWarp);
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) {
            const int q = next + i * kWarp;
            sum += sum_of(masses_of(count4[q], alpha4[q], loaded[i]));
          }
        }
        for (; next < quads; next += kWarp) {
          sum += sum_of(masses_of(count4[next], alpha4[next], __ldg(weights + next)));
        }
        const float running = running_sum(sum, lane);
        const float threshold = __shfl_sync(kAll, running, kWarp - 1) * u;
        const int chosen =
            min(__popc(__ballot_sync(kAll, running <= threshold)), kWarp - 1);
        const float before = __shfl_sync(kAll, running, max(chosen - 1, 0));
        const float most = __shfl_sync(kAll, sum, chosen);
        float left = threshold - (chosen ? before : 0.0f);
        left = left < below(most) ? left : below(most);
        left = left > 0 ? left : 0;
        int topic = -1;
        if (most > 0) {
          // The last four with a mass are chosen where rounding leads beyond them.
          float passed = 0, inner = 0;
          int quad = 0;
          for (int q = chosen; q < quads; q += kWarp * kWarp) {
            const int here = q + kWarp * lane;
            const bool some_here = here < quads;
            const float4 masses =
                some_here ? masses_of(count4[here], alpha4[here], __ldg(weights + here))
                          : float4{0, 0, 0, 0};
            const float four = sum_of(masses);
            const float up_to = running_sum(four, lane);
            const unsigned hit = __ballot_sync(kAll, four > 0 && passed + up_to > left);
            const unsigned with_mass = __ballot_sync(kAll, four > 0);
            if (with_mass) {
              const int at = hit ? __ffs(hit) - 1 : kWarp - 1 - __clz(with_mass);
              quad = q + kWarp * at;
              const float up_to_it = __shfl_up_sync(kAll, up_to, 1);
              inner = left - (passed + (at ? __shfl_sync(kAll, up_to_it, at) : 0.0f));
            }
            if (hit) break;
            passed += __shfl_sync(kAll, up_to, kWarp - 1);
          }
          const float4 masses = masses_of(count4[quad], alpha4[quad], __ldg(weights + quad));
          const float each[4] = {masses.x, masses.y, masses.z, masses.w};
          float up_to = 0;
          bool found = false;
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            up_to += each[c];
            if (!found && each[c] > 0) {
              topic = 4 * quad + c;
              found = up_to > inner;
            }
          }
        } else {
          const float* of_word = task.weights + int64_t(word) * 4 * quads;
          topic = careful(counts, alpha, of_word, task.topics, u, old < task.topics ? old : 0);
        }
        __syncwarp();
        if (lane == 0) ++counts[topic];
        own_new = lane == j ? topic : own_new;
        __syncwarp();
      }
      if (inside) {
        labels[position] = static_cast<Label>(own_new);
        record(task, own_old, own_new, own_word, sweep);
      }
    }
    if (task.tally && sweep >= task.burn_in) {
      for (int k = lane; k < task.topics; k += kWarp) {
        task.tally[document * task.topics + k] += counts[k];
      }
      __syncwarp();
    }
  }
}

// Tables of each topic in documents, see tables.inl: a warp takes a document.
template <typename Label>
__global__ void __launch_bounds__(kWarp* kMostWarps)
    seat(Documents documents, const uint32_t* key, const float* concentration, int topics,
         const void* all_labels, int32_t* tables) {
  int4* const shared = shared_memory();
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  int* const own = reinterpret_cast<int*>(shared);
  int* const seen = own + (1 + warp) * topics;
  for (int k = threadIdx.x; k < topics; k += blockDim.x) own[k] = 0;
  for (int k = lane; k < topics; k += kWarp) seen[k] = 0;
  __syncthreads();
  const int64_t taken = int64_t(blockIdx.x) * (blockDim.x / kWarp) + warp;
  if (taken < documents.number) {
    const int64_t document = documents.at(taken);
    const int length = documents.length(document);
    const uint32_t id = documents.ids[document];
    const Label* const labels =
        static_cast<const Label*>(all_labels) + (length ? documents.starts[document] : 0);
    for (int first = 0; first < length; first += kWarp) {
      const int position = first + lane;
      const int label = position < length ? labels[position] : topics;
      const bool inside = label < topics;
      const unsigned peers = __match_any_sync(kAll, inside ? label : topics + lane);
      const int earlier = inside ? seen[label] + __popc(peers & ((1u << lane) - 1)) : 0;
      __syncwarp();
      if (inside) {
        if (peers >> lane == 1) seen[label] = earlier + 1;
        const float c = concentration[label], n = static_cast<float>(earlier);
        if (earlier == 0 || uniform_at(key, position, id) * (c + n) < c) atomicAdd(own + label, 1);
      }
      __syncwarp();
    }
  }
  __syncthreads();
  for (int k = threadIdx.x; k < topics; k += blockDim.x) {
    if (own[k]) atomicAdd(tables + k, own[k]);
  }
}

// Rows of words from topics, see layout.inl: a block takes 32 words.
constexpr int kTile = 32, kTileRows = 8;

__global__ void __launch_bounds__(kTile* kTileRows)
    weigh(const float* log_topics, float* weights, int64_t topics, int64_t words, int64_t width) {
  __shared__ float tile[kTile][kTile + 1], peaks[kTileRows][kTile];
  const int x = threadIdx.x, y = threadIdx.y;
  const int64_t first = int64_t(blockIdx.x) * kTile, word = min(first + x, words - 1);
  float peak = -std::numeric_limits<float>::infinity();
  for (int64_t k = y; k < topics; k += kTileRows) {
    const float value = log_topics[k * words + word];
    peak = peak < value ? value : peak;
  }
  peaks[y][x] = peak;
  __syncthreads();
  for (int i = 0; i < kTileRows; ++i) peak = peak < peaks[i][x] ? peaks[i][x] : peak;
  const bool impossible = peak == -std::numeric_limits<float>::infinity();
  for (int64_t k = 0; k < width; k += kTile) {
    for (int i = y; i < kTile; i += kTileRows) {
      const float value = k + i < topics ? log_topics[(k + i) * words + word] : 0.0f;
      const float weight = impossible ? 1.0f : exponential_of(value - peak);
      tile[i][x] = k + i < topics ? (value == value ? weight : value) : 0.0f;
    }
    __syncthreads();
    for (int i = y; i < kTile; i += kTileRows) {
      if (first + i < words && k + x < width) weights[(first + i) * width + k + x] = tile[x][i];
    }
    __syncthreads();
  }
}

// Sums of rows, [rows, size]: a block takes a row.
__global__ void __launch_bounds__(kThreads)
    add_up(const int32_t* counts, float* sums, int64_t rows, int64_t size) {
  __shared__ long long parts[kThreads / kWarp];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    long long sum = 0;
    for (int64_t i = threadIdx.x; i < size; i += kThreads) sum += counts[row * size + i];
    for (int step = kWarp / 2; step; step /= 2) sum += __shfl_xor_sync(kAll, sum, step);
    if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int i = 1; i < kThreads / kWarp; ++i) sum += parts[i];
      sums[row] = static_cast<float>(sum);
    }
    __syncthreads();
  }
}

ffi::Error wrong(const std::string& what) {
  return ffi::Error(ffi::ErrorCode::kInvalidArgument, "LDA: " + what);
}

ffi::Error success_or(cudaError_t error) {
  if (error == cudaSuccess) return ffi::Error::Success();
  return ffi::Error::Internal(std::string("LDA: ") + cudaGetErrorString(error));
}

unsigned blocks_for(int64_t items, int64_t each) {
  return static_cast<unsigned>((items + each - 1) / each);
}

// Bytes of shared memory that a block may have on this GPU.
int64_t most_shared() {
  int device = 0, most = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return most;
}

// Lets a kernel use all shared memory of a block, since other launches of it may need more. Returns the
// warps of a block, 0 or less where not even one fits: each needs so many bytes, and so does the block.
template <typename Kernel>
int warps_for(Kernel kernel, int64_t bytes) {
  const int64_t most = most_shared();
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(most));
  return static_cast<int>(std::min<int64_t>(kMostWarps, most / bytes - 1));
}

// With very many topics few documents fit into shared memory, and each has to ask for more at a time.
constexpr int kManyRows = 256;

template <typename Label, int kAtOnce>
ffi::Error sweep_wide(cudaStream_t stream, const Task& task) {
  const int64_t bytes = sizeof(float) * kLanes * task.rows;
  const int warps = warps_for(wide<Label, kAtOnce>, bytes);
  if (warps < 1) return wrong("there are too many topics for this GPU; take the engine 'xla'");
  const unsigned blocks = blocks_for(task.documents.number, warps);
  return success_or(launch(stream, wide<Label, kAtOnce>, blocks, warps * kWarp, (1 + warps) * bytes, task));
}

template <typename Label, int kRows = 1>
ffi::Error sweep_by(cudaStream_t stream, const Task& task) {
  if constexpr (kRows > kMostRows) {
    return task.rows < kManyRows ? sweep_wide<Label, 4>(stream, task)
                                 : sweep_wide<Label, 16>(stream, task);
  } else {
    if (task.rows != kRows) return sweep_by<Label, kRows + 1>(stream, task);
    const unsigned blocks = blocks_for(task.documents.number, kThreads / kLanes);
    return success_or(launch(stream, narrow<Label, kRows>, blocks, kThreads, 0, task));
  }
}

void carry(cudaStream_t stream, const void* from, void* to, size_t bytes) {
  if (to != from && bytes) cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

void clear(cudaStream_t stream, void* to, size_t bytes) {
  if (bytes) cudaMemsetAsync(to, 0, bytes, stream);
}

ffi::Error sweep(cudaStream_t stream, ffi::Buffer<ffi::U32> keys, ffi::Buffer<ffi::F32> weights,
                 ffi::Buffer<ffi::F32> alpha, ffi::Buffer<ffi::S32> tokens,
                 ffi::Buffer<ffi::S32> starts, ffi::Buffer<ffi::S32> lengths,
                 ffi::Buffer<ffi::U32> ids, ffi::AnyBuffer labels, ffi::Buffer<ffi::S32> words,
                 ffi::Result<ffi::AnyBuffer> new_labels, ffi::ResultBuffer<ffi::S32> new_words,
                 ffi::ResultBuffer<ffi::S32> tally, int64_t burn_in, int64_t count, int64_t,
                 int64_t) {
  carry(stream, labels.untyped_data(), new_labels->untyped_data(), labels.size_bytes());
  if (words.element_count()) {
    carry(stream, words.untyped_data(), new_words->untyped_data(), words.size_bytes());
  } else {
    clear(stream, new_words->untyped_data(), new_words->size_bytes());
  }
  clear(stream, tally->untyped_data(), tally->size_bytes());
  const Documents documents{tokens.typed_data(),
                            starts.typed_data(),
                            lengths.typed_data(),
                            ids.typed_data(),
                            static_cast<int64_t>(lengths.element_count()),
                            static_cast<int64_t>(tokens.element_count())};
  if (documents.number == 0) return ffi::Error::Success();
  const Task task{documents,
                  weights.typed_data(),
                  alpha.typed_data(),
                  static_cast<int>(alpha.element_count()),
                  weights.dimensions()[0],
                  static_cast<int>(weights.dimensions()[1] / kLanes),
                  keys.typed_data(),
                  keys.dimensions()[0],
                  burn_in,
                  new_labels->untyped_data(),
                  new_words->typed_data(),
                  static_cast<Count>(count),
                  tally->element_count() ? tally->typed_data() : nullptr};
  return labels.element_type() == ffi::U8 ? sweep_by<uint8_t>(stream, task)
                                          : sweep_by<uint16_t>(stream, task);
}

ffi::Error lay_out(cudaStream_t stream, ffi::Buffer<ffi::F32> log_topics,
                   ffi::ResultBuffer<ffi::F32> weights, int64_t) {
  const int64_t topics = log_topics.dimensions()[0], words = log_topics.dimensions()[1];
  return success_or(launch(stream, weigh, blocks_for(words, kTile), dim3(kTile, kTileRows), 0,
                           log_topics.typed_data(), weights->typed_data(), topics, words,
                           weights->dimensions()[1]));
}

ffi::Error totals(cudaStream_t stream, ffi::Buffer<ffi::S32> counts,
                  ffi::ResultBuffer<ffi::F32> sums) {
  const int64_t rows = sums->element_count();
  if (rows == 0) return ffi::Error::Success();
  const unsigned blocks = static_cast<unsigned>(std::min<int64_t>(rows, 1 << 16));
  return success_or(launch(stream, add_up, blocks, kThreads, 0, counts.typed_data(),
                           sums->typed_data(), rows, counts.dimensions().back()));
}

Documents labelled(ffi::AnyBuffer& labels, ffi::Buffer<ffi::S32>& starts,
                   ffi::Buffer<ffi::S32>& lengths, const uint32_t* ids) {
  return {nullptr,
          starts.typed_data(),
          lengths.typed_data(),
          ids,
          static_cast<int64_t>(lengths.element_count()),
          static_cast<int64_t>(labels.element_count())};
}

template <typename Label>
ffi::Error seat_by(cudaStream_t stream, const Documents& documents, const uint32_t* key,
                   const float* concentration, int topics, const void* labels, int32_t* result) {
  const int64_t bytes = sizeof(int32_t) * topics;
  const int warps = warps_for(seat<Label>, bytes);
  if (warps < 1) return wrong("there are too many topics for this GPU; take the engine 'xla'");
  return success_or(launch(stream, seat<Label>, blocks_for(documents.number, warps), warps * kWarp,
                           (1 + warps) * bytes, documents, key, concentration, topics, labels,
                           result));
}

ffi::Error tables(cudaStream_t stream, ffi::Buffer<ffi::U32> key,
                  ffi::Buffer<ffi::F32> concentration, ffi::AnyBuffer labels,
                  ffi::Buffer<ffi::S32> starts, ffi::Buffer<ffi::S32> lengths,
                  ffi::Buffer<ffi::U32> ids, ffi::ResultBuffer<ffi::S32> result, int64_t) {
  const Documents documents = labelled(labels, starts, lengths, ids.typed_data());
  clear(stream, result->untyped_data(), result->size_bytes());
  if (documents.number == 0) return ffi::Error::Success();
  const auto by = labels.element_type() == ffi::U8 ? seat_by<uint8_t> : seat_by<uint16_t>;
  return by(stream, documents, key.typed_data(), concentration.typed_data(),
            static_cast<int>(concentration.element_count()), labels.untyped_data(),
            result->typed_data());
}

}  // namespace
}  // namespace simplex::cuda

// Topics whose counts fit into shared memory twice, in full rows.
extern "C" int SimplexMostTopics() {
  const int64_t most = simplex::cuda::most_shared() / (2 * sizeof(int32_t));
  return static_cast<int>(most / simplex::cuda::kLanes * simplex::cuda::kLanes);
}

extern "C" int SimplexProbe() { return simplex::cuda::probe(simplex::cuda::add_up); }

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexSweep, simplex::cuda::sweep,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
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
                                  .Attr<int64_t>("width"),
                              {ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexLayOut, simplex::cuda::lay_out,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<int64_t>("width"),
                              {ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexTotals, simplex::cuda::totals,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>(),
                              {ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexTables, simplex::cuda::tables,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Ret<ffi::Buffer<ffi::S32>>()
                                  .Attr<int64_t>("width"),
                              {ffi::Traits::kCmdBufferCompatible});
