// Gamma and Poisson variates and the transition of the Cox-Ingersoll-Ross process on NVIDIA GPUs,
// one thread per variate. They equal those of CPUs bit for bit, see formulas.inl.

#include <algorithm>
#include <string>

#include "simplex_jax/_src/native/scalars.cuh"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace simplex::cuda {

#include "formulas.inl"

namespace {

constexpr int kThreads = 256;

// A parameter of a row of variates: [rows, period], repeated along the row.
struct Parameter {
  const float* values;
  int64_t period;

  __device__ float at(int64_t row, uint64_t column) const {
    const float* of_row = values + row * period;
    if (period == 1) return of_row[0];
    return of_row[column < period ? column : column % period];
  }
};

// Rows of variates: [rows, size], each with the two words of its key and the number of variates
// before it in the whole array.
struct Draws {
  const uint32_t* keys;
  const uint32_t* offsets;
  int64_t rows;
  int64_t size;
  float* values;
};

// A variate of a shape of at least 1/2, from proposals with the words of this column.
__device__ float gamma_of(const uint32_t* key, uint32_t column, float shape) {
  for (int round = 0; round < kRounds; ++round) {
    const float value = propose_gamma(key, 2 * (round + 1), column, shape);
    if (!(value < 0.0f)) return value;
  }
  return nanf("");
}

// The log of a variate of small shape, and whether it is accepted; if not, `ratio` is for a fresh
// exponential.
__device__ bool small_of(const uint32_t* key, uint32_t column, float shape, float& ratio,
                         uint32_t second, float& value) {
  const float y = kInverseE - ratio;
  if (any(surely_small(y, second))) {
    value = y;
    return true;
  }
  Mask taken;
  value = propose_small(shape, ratio, second, taken);
  if (any(taken)) return true;
  Words one, two;
  words(key, 1, column, one, two);
  ratio = exponential(one) / shape;
  return false;
}

struct Gamma {
  Parameter shape;

  __device__ float operator()(const uint32_t* key, uint32_t word, int64_t row, int64_t column) const {
    const float x = shape.at(row, column);
    const bool given = any(positive(x));
    const float valid = given ? x : 1.0f;
    float ratio = given ? 0.0f : nanf(""), value;
    if (valid < 1.0f) {
      Words one, two;
      words(key, 0, word, one, two);
      ratio = exponential(one) / valid;
      if (valid <= kMostSmall && small_of(key, word, valid, ratio, two, value)) return value;
    }
    return logarithm(gamma_of(key, word, valid < 1.0f ? valid + 1.0f : valid)) - ratio;
  }
};

struct Cir {
  Parameter log_theta, shape, step, scale, log_scale, growth, decay;

  __device__ float operator()(const uint32_t* key, uint32_t word, int64_t row, int64_t column) const {
    const float theta = log_theta.at(row, column), x = shape.at(row, column);
    const float h = step.at(row, column), factor = scale.at(row, column);
    Words one, two;
    words(key, 0, word, one, two);
    const float first = exponential(one);
    const bool given = theta <= kMost && any(positive(x)) && any(positive(h));
    const float rate =
        given ? rate_of(theta, growth.at(row, column), decay.at(row, column)) : 0.0f;
    const float over = first - rate;
    const bool empty = over > 0.0f;
    float ratio = given ? over / x : nanf(""), value;
    if (given && empty && x <= kMostSmall && small_of(key, word, x, ratio, two, value)) {
      return value + log_scale.at(row, column);
    }
    const float of_gamma = (given ? x : 1.0f) + (empty ? 1.0f : 0.5f);
    const float gamma = gamma_of(key, word, of_gamma);
    return transition(of_gamma, gamma, rate, first, ratio, factor, theta, h, two);
  }
};

struct Poisson {
  Parameter rate;

  __device__ float operator()(const uint32_t* key, uint32_t word, int64_t row, int64_t column) const {
    const float x = rate.at(row, column);
    if (!(x >= 0.0f && x <= kMost)) return nanf("");
    if (x < kInversionLimit) {
      Words one, two;
      words(key, 0, word, one, two);
      return by_inversion(one, x);
    }
    for (int round = 0; round < kRounds; ++round) {
      const float value = propose_count(key, 2 * (round + 1), word, x);
      if (!(value < 0.0f)) return value;
    }
    return nanf("");
  }
};

template <typename Variate>
__global__ void __launch_bounds__(kThreads) draw(Draws draws, Variate variate) {
  const int64_t step = int64_t(gridDim.x) * kThreads, all = draws.rows * draws.size;
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < all; i += step) {
    const int64_t row = draws.rows == 1 ? 0 : i / draws.size, column = i - row * draws.size;
    const uint32_t word = draws.offsets[row] + static_cast<uint32_t>(column);
    draws.values[i] = variate(draws.keys + 2 * row, word, row, column);
  }
}

int64_t last(const ffi::AnyBuffer::Dimensions& dimensions) {
  return dimensions.size() ? dimensions.back() : 1;
}

Parameter parameter(const ffi::Buffer<ffi::F32>& values) {
  return {values.typed_data(), last(values.dimensions())};
}

template <typename Variate>
ffi::Error run(cudaStream_t stream, ffi::Buffer<ffi::U32>& keys, ffi::Buffer<ffi::U32>& offsets,
               ffi::ResultBuffer<ffi::F32>& values, Variate variate) {
  const int64_t size = last(values->dimensions()), all = values->element_count();
  if (all == 0) return ffi::Error::Success();
  const Draws draws{keys.typed_data(), offsets.typed_data(), all / size, size,
                    values->typed_data()};
  const int64_t blocks = std::min<int64_t>((all + kThreads - 1) / kThreads, 1 << 20);
  const cudaError_t error =
      launch(stream, draw<Variate>, static_cast<unsigned>(blocks), kThreads, 0, draws, variate);
  if (error == cudaSuccess) return ffi::Error::Success();
  return ffi::Error::Internal(std::string("draws: ") + cudaGetErrorString(error));
}

ffi::Error log_gamma(cudaStream_t stream, ffi::Buffer<ffi::U32> keys,
                     ffi::Buffer<ffi::U32> offsets, ffi::Buffer<ffi::F32> shape,
                     ffi::ResultBuffer<ffi::F32> values, int64_t) {
  return run(stream, keys, offsets, values, Gamma{parameter(shape)});
}

ffi::Error poisson(cudaStream_t stream, ffi::Buffer<ffi::U32> keys, ffi::Buffer<ffi::U32> offsets,
                   ffi::Buffer<ffi::F32> rate, ffi::ResultBuffer<ffi::F32> values, int64_t) {
  return run(stream, keys, offsets, values, Poisson{parameter(rate)});
}

ffi::Error cir(cudaStream_t stream, ffi::Buffer<ffi::U32> keys, ffi::Buffer<ffi::U32> offsets,
               ffi::Buffer<ffi::F32> log_theta, ffi::Buffer<ffi::F32> shape,
               ffi::Buffer<ffi::F32> step, ffi::Buffer<ffi::F32> scale,
               ffi::Buffer<ffi::F32> log_scale, ffi::Buffer<ffi::F32> growth,
               ffi::Buffer<ffi::F32> decay, ffi::ResultBuffer<ffi::F32> values, int64_t) {
  return run(stream, keys, offsets, values,
             Cir{parameter(log_theta), parameter(shape), parameter(step), parameter(scale),
                 parameter(log_scale), parameter(growth), parameter(decay)});
}

}  // namespace
}  // namespace simplex::cuda

extern "C" int SimplexProbe() {
  return simplex::cuda::probe(simplex::cuda::draw<simplex::cuda::Gamma>);
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexLogGamma, simplex::cuda::log_gamma,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<int64_t>("width"),
                              {ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexPoisson, simplex::cuda::poisson,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<int64_t>("width"),
                              {ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexCir, simplex::cuda::cir,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<int64_t>("width"),
                              {ffi::Traits::kCmdBufferCompatible});
