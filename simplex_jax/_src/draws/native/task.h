// Tasks of the draws, shared by the kernels for all instruction sets.
#pragma once

#include <atomic>
#include <cstdint>

namespace simplex {

constexpr int64_t kBlock = 256;  // variates drawn together

// A parameter of a row of variates: [rows, period], repeated along the row.
struct Parameter {
  const float* values;
  int64_t period;
};

// Rows of variates: [rows, size], each with the two words of its key and the number of variates
// before it in the whole array.
struct Draws {
  const uint32_t* keys;
  const uint32_t* offsets;
  int64_t rows;
  int64_t size;
  float* values;
  std::atomic<int64_t>* taken;  // blocks that threads have begun
};

// Rows of pairs of words, [rows, size, 2]: the hashes, by the key of a row, of the counters (0,
// first), (0, first + 1), and so on.
struct Hashes {
  const uint32_t* keys;
  const uint32_t* firsts;
  int64_t rows;
  int64_t size;
  uint32_t* pairs;
  std::atomic<int64_t>* taken;  // blocks that threads have begun
};

struct Gamma {
  Draws draws;
  Parameter shape;
};

struct Poisson {
  Draws draws;
  Parameter rate;
};

struct Cir {
  Draws draws;
  Parameter log_theta;
  Parameter shape;
  // The step h, 1 - exp(-h) and its log; for the rest, exp(-h) / (1 - exp(-h)) = exp(-decay) /
  // growth.
  Parameter step, scale, log_scale, growth, decay;
};

// Tables of weights, [rows, categories, size], and uniforms, [rows, size], that choose a category in
// each column.
struct Choices {
  const float* weights;
  const float* uniforms;
  int64_t rows, categories, size;
  int32_t* chosen;
  std::atomic<int64_t>* taken;  // blocks that threads have begun
};

// Rows of log weights, [rows, size], their log probabilities and the logs of their totals, [rows].
struct Weights {
  const float* values;
  int64_t rows, size;
  float* normalised;
  float* totals;
  std::atomic<int64_t>* taken;  // rows that threads have begun
};

}  // namespace simplex
