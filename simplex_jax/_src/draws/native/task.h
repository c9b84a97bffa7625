// Tasks of the draws, shared by the kernels for all instruction sets.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

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

// Forests of probability vectors: `batches` of `forests` each, which share gaps, parents, keys and
// priors, of `times` vectors of `size` categories.
struct Forests {
  int64_t batches, forests, times, size;
  const float* base;        // log probabilities, [batches, forests, size]
  const int32_t* parents;   // of each vector, below its own place, or -1 for none: [batches, times]
  std::atomic<int64_t>* taken;  // pieces that threads have begun

  int64_t number() const { return batches * forests; }
};

// The sizes of the Dirichlet steps of forests, [batches, forests, times]: r gap of each vector, which
// is infinite without a parent, and c w.
struct Steps {
  const float* time;
  const float* total;
};

// Tables of the customers of each vector, which its parent and the base get as customers.
struct Tables {
  Forests forests;
  Steps steps;
  const uint32_t* keys;    // for tables, rare kinds and frequent ones, [batches, times, 3, 2]
  const float* counts;     // [batches, forests, times, size], as are:
  const float* position;   // log probabilities
  float* customers;        // counts, and tables of the children
  float* base_tables;      // [batches, forests, size]
  std::atomic<int64_t>* sums;  // tables, those of the parent, customers: [batches, forests, times, 3]
  std::atomic<bool>* strange;  // whether a count is not a number, [batches, forests]
};

// Vectors of forests, given their customers.
struct Vectors {
  Forests forests;
  Steps steps;
  const uint32_t* keys;    // [batches, times, 2]
  const float* customers;  // [batches, forests, times, size]
  float* position;         // the same
};

// Metropolis moves of c and r given the vectors.
struct Moves {
  Forests forests;
  const float* counts;    // [batches, forests, times, size], as are:
  const float* position;  // log probabilities
  const float* gaps;      // [batches, times]
  const float* priors;    // the scale of c^-1/2, mean and deviation of log r, [batches, 3]
  const float* factors;   // of c and r, [batches, forests, moves, 2]
  const float* limits;    // a move is accepted if these are below its ratio, [batches, forests, moves]
  int64_t moves;
  const float* before[2];  // c and r, [batches, forests]
  float* after[2];
  float* accepted;  // number of moves, [batches, forests]
};

}  // namespace simplex
