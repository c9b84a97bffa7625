// The draws as XLA calls.

#include <limits>
#include <memory>
#include <string>

#include "simplex_jax/_src/native/threads.h"
#include "simplex_jax/_src/native/widest.h"
#include "task.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace simplex {

namespace plain {
void hash(const Hashes&);
void log_gamma(const Gamma&);
void poisson(const Poisson&);
void cir(const Cir&);
void choose(const Choices&);
void normalise(const Weights&);
void pass_tables(const Tables&);
void draw_vectors(const Vectors&);
void move_paths(const Moves&);
}
namespace avx2 {
void hash(const Hashes&);
void log_gamma(const Gamma&);
void poisson(const Poisson&);
void cir(const Cir&);
void choose(const Choices&);
void normalise(const Weights&);
void pass_tables(const Tables&);
void draw_vectors(const Vectors&);
void move_paths(const Moves&);
}
namespace avx512 {
void hash(const Hashes&);
void log_gamma(const Gamma&);
void poisson(const Poisson&);
void cir(const Cir&);
void choose(const Choices&);
void normalise(const Weights&);
void pass_tables(const Tables&);
void draw_vectors(const Vectors&);
void move_paths(const Moves&);
}

namespace {

// Cost of a variate, relative to the numbers that `kWork` counts.
constexpr int64_t kCost = 8;

template <typename Task>
void draw(ffi::ThreadPool& pool, Task& task, void (*kernel)(const Task&)) {
  std::atomic<int64_t> taken{0};
  task.draws.taken = &taken;
  together(pool, threads_for(pool, kCost * task.draws.rows * task.draws.size),
           [&] { kernel(task); });
}

int64_t last(const ffi::AnyBuffer::Dimensions& dimensions) {
  return dimensions.size() ? dimensions.back() : 1;
}

Draws variates(ffi::Buffer<ffi::U32>& keys, ffi::Buffer<ffi::U32>& offsets,
               ffi::ResultBuffer<ffi::F32>& values) {
  const int64_t size = last(values->dimensions());
  return {keys.typed_data(), offsets.typed_data(),
          size ? static_cast<int64_t>(values->element_count()) / size : 0, size,
          values->typed_data(), nullptr};
}

Parameter parameter(ffi::Buffer<ffi::F32>& values) {
  return {values.typed_data(), last(values.dimensions())};
}

ffi::Error hash(ffi::ThreadPool pool, ffi::Buffer<ffi::U32> keys, ffi::Buffer<ffi::U32> firsts,
                ffi::ResultBuffer<ffi::U32> pairs, int64_t width) {
  std::atomic<int64_t> taken{0};
  const auto rows = static_cast<int64_t>(keys.element_count()) / 2;
  const Hashes task{keys.typed_data(),
                    firsts.typed_data(),
                    rows,
                    rows ? static_cast<int64_t>(pairs->element_count()) / (2 * rows) : 0,
                    pairs->typed_data(),
                    &taken};
  const auto kernel = for_width(width, EACH_WIDTH(hash));
  together(pool, threads_for(pool, task.rows * task.size), [&] { kernel(task); });
  return ffi::Error::Success();
}

ffi::Error log_gamma(ffi::ThreadPool pool, ffi::Buffer<ffi::U32> keys,
                     ffi::Buffer<ffi::U32> offsets, ffi::Buffer<ffi::F32> shape,
                     ffi::ResultBuffer<ffi::F32> values, int64_t width) {
  Gamma task{variates(keys, offsets, values), parameter(shape)};
  draw(pool, task, for_width(width, EACH_WIDTH(log_gamma)));
  return ffi::Error::Success();
}

ffi::Error poisson(ffi::ThreadPool pool, ffi::Buffer<ffi::U32> keys, ffi::Buffer<ffi::U32> offsets,
                   ffi::Buffer<ffi::F32> rate, ffi::ResultBuffer<ffi::F32> values, int64_t width) {
  Poisson task{variates(keys, offsets, values), parameter(rate)};
  draw(pool, task, for_width(width, EACH_WIDTH(poisson)));
  return ffi::Error::Success();
}

ffi::Error cir(ffi::ThreadPool pool, ffi::Buffer<ffi::U32> keys, ffi::Buffer<ffi::U32> offsets,
               ffi::Buffer<ffi::F32> log_theta, ffi::Buffer<ffi::F32> shape, ffi::Buffer<ffi::F32> step,
               ffi::Buffer<ffi::F32> scale, ffi::Buffer<ffi::F32> log_scale,
               ffi::Buffer<ffi::F32> growth, ffi::Buffer<ffi::F32> decay,
               ffi::ResultBuffer<ffi::F32> values, int64_t width) {
  Cir task{variates(keys, offsets, values),
           parameter(log_theta),
           parameter(shape),
           parameter(step),
           parameter(scale),
           parameter(log_scale),
           parameter(growth),
           parameter(decay)};
  draw(pool, task, for_width(width, EACH_WIDTH(cir)));
  return ffi::Error::Success();
}

ffi::Error choose(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> weights,
                  ffi::Buffer<ffi::F32> uniforms, ffi::ResultBuffer<ffi::S32> chosen,
                  int64_t width) {
  std::atomic<int64_t> taken{0};
  const int64_t size = last(uniforms.dimensions());
  const int64_t rows = size ? static_cast<int64_t>(uniforms.element_count()) / size : 0;
  const Choices task{weights.typed_data(),
                     uniforms.typed_data(),
                     rows,
                     rows ? static_cast<int64_t>(weights.element_count()) / (rows * size) : 0,
                     size,
                     chosen->typed_data(),
                     &taken};
  const auto kernel = for_width(width, EACH_WIDTH(choose));
  together(pool, threads_for(pool, 2 * task.rows * task.categories * task.size),
           [&] { kernel(task); });
  return ffi::Error::Success();
}

ffi::Error normalise(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> values,
                     ffi::ResultBuffer<ffi::F32> normalised, ffi::ResultBuffer<ffi::F32> totals,
                     int64_t width) {
  std::atomic<int64_t> taken{0};
  const Weights task{values.typed_data(),
                     static_cast<int64_t>(totals->element_count()),
                     last(values.dimensions()),
                     normalised->typed_data(),
                     totals->typed_data(),
                     &taken};
  const auto kernel = for_width(width, EACH_WIDTH(normalise));
  together(pool, threads_for(pool, task.rows * task.size), [&] { kernel(task); });
  return ffi::Error::Success();
}

// Forests of which all vectors are `position`, [..., times, size].
template <typename Values>
Forests forests_of(const Values& position, ffi::Buffer<ffi::F32>& base,
                   ffi::Buffer<ffi::S32>& parents, std::atomic<int64_t>& taken) {
  const auto dimensions = position.dimensions();
  const int64_t size = last(dimensions), times = dimensions[dimensions.size() - 2];
  const auto batches = static_cast<int64_t>(parents.element_count()) / times;
  const auto vectors = static_cast<int64_t>(position.element_count()) / std::max<int64_t>(size, 1);
  return {batches, vectors / times / std::max<int64_t>(batches, 1), times, size,
          base.typed_data(), parents.typed_data(), &taken};
}

int64_t coordinates(const Forests& forests) {
  return forests.number() * forests.times * forests.size;
}

ffi::Error pass_tables(ffi::ThreadPool pool, ffi::Buffer<ffi::U32> keys,
                       ffi::Buffer<ffi::F32> counts, ffi::Buffer<ffi::F32> position,
                       ffi::Buffer<ffi::F32> base, ffi::Buffer<ffi::F32> time,
                       ffi::Buffer<ffi::F32> total, ffi::Buffer<ffi::S32> parents,
                       ffi::ResultBuffer<ffi::F32> customers,
                       ffi::ResultBuffer<ffi::F32> base_tables, ffi::ResultBuffer<ffi::F32> sums,
                       int64_t width) {
  std::atomic<int64_t> taken{0};
  const Forests forests = forests_of(position, base, parents, taken);
  const auto number = static_cast<int64_t>(sums->element_count());
  std::unique_ptr<std::atomic<int64_t>[]> totals(new std::atomic<int64_t>[number]());
  std::unique_ptr<std::atomic<bool>[]> strange(new std::atomic<bool>[forests.number()]());
  const Tables task{forests,
                    {time.typed_data(), total.typed_data()},
                    keys.typed_data(),
                    counts.typed_data(),
                    position.typed_data(),
                    customers->typed_data(),
                    base_tables->typed_data(),
                    totals.get(),
                    strange.get()};
  const auto kernel = for_width(width, EACH_WIDTH(pass_tables));
  together(pool, threads_for(pool, kCost * coordinates(forests)), [&] { kernel(task); });
  for (int64_t i = 0; i < number; ++i) {
    sums->typed_data()[i] = strange[i / (3 * forests.times)]
                                ? std::numeric_limits<float>::quiet_NaN()
                                : static_cast<float>(totals[i].load());
  }
  return ffi::Error::Success();
}

ffi::Error draw_vectors(ffi::ThreadPool pool, ffi::Buffer<ffi::U32> keys,
                        ffi::Buffer<ffi::F32> customers, ffi::Buffer<ffi::F32> base,
                        ffi::Buffer<ffi::F32> time, ffi::Buffer<ffi::F32> total,
                        ffi::Buffer<ffi::S32> parents, ffi::ResultBuffer<ffi::F32> position,
                        int64_t width) {
  std::atomic<int64_t> taken{0};
  const Vectors task{forests_of(customers, base, parents, taken),
                     {time.typed_data(), total.typed_data()},
                     keys.typed_data(),
                     customers.typed_data(),
                     position->typed_data()};
  const auto kernel = for_width(width, EACH_WIDTH(draw_vectors));
  together(pool, threads_for(pool, kCost * coordinates(task.forests)), [&] { kernel(task); });
  return ffi::Error::Success();
}

ffi::Error move_paths(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> counts,
                      ffi::Buffer<ffi::F32> position, ffi::Buffer<ffi::F32> base,
                      ffi::Buffer<ffi::F32> c, ffi::Buffer<ffi::F32> r,
                      ffi::Buffer<ffi::F32> factors, ffi::Buffer<ffi::F32> limits,
                      ffi::Buffer<ffi::F32> gaps, ffi::Buffer<ffi::S32> parents,
                      ffi::Buffer<ffi::F32> priors, ffi::ResultBuffer<ffi::F32> new_c,
                      ffi::ResultBuffer<ffi::F32> new_r, ffi::ResultBuffer<ffi::F32> accepted,
                      int64_t width) {
  std::atomic<int64_t> taken{0};
  const Moves task{forests_of(position, base, parents, taken),
                   counts.typed_data(),
                   position.typed_data(),
                   gaps.typed_data(),
                   priors.typed_data(),
                   factors.typed_data(),
                   limits.typed_data(),
                   last(limits.dimensions()),
                   {c.typed_data(), r.typed_data()},
                   {new_c->typed_data(), new_r->typed_data()},
                   accepted->typed_data()};
  const auto kernel = for_width(width, EACH_WIDTH(move_paths));
  together(pool, threads_for(pool, kCost * coordinates(task.forests)), [&] { kernel(task); });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexHash, hash,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Ret<ffi::Buffer<ffi::U32>>()
                                  .Attr<int64_t>("width"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexLogGamma, log_gamma,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<int64_t>("width"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexPoisson, poisson,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<int64_t>("width"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexCir, cir,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
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
                                  .Attr<int64_t>("width"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexChoose, choose,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::S32>>()
                                  .Attr<int64_t>("width"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexNormalise, normalise,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<int64_t>("width"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexPassTables, pass_tables,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<int64_t>("width"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexDrawVectors, draw_vectors,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<int64_t>("width"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(SimplexMovePaths, move_paths,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<int64_t>("width"));

}  // namespace simplex
