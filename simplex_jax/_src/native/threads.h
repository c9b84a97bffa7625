// One piece of work for the threads of XLA's pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "xla/ffi/api/ffi.h"

namespace simplex {

// Numbers that are worth a thread: some ten microseconds.
constexpr int64_t kWork = 1 << 15;

inline int64_t threads_for(xla::ffi::ThreadPool& pool, int64_t work) {
  return std::max<int64_t>(1, std::min(pool.num_threads(), work / kWork));
}

// Runs `work` in this thread and in up to `threads - 1` others of the pool. Tasks that the pool
// starts too late find the work closed and are not waited for, so that a busy pool, whose threads
// may themselves wait for this one, holds nothing up.
inline void together(xla::ffi::ThreadPool& pool, int64_t threads, std::function<void()> work) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable done;
    int active = 0;
    bool closed = false;
    std::function<void()> work;
  };
  auto shared = std::make_shared<Shared>();
  shared->work = std::move(work);
  for (int64_t i = 1; i < threads; ++i) {
    pool.Schedule([shared] {
      {
        std::lock_guard<std::mutex> lock(shared->mutex);
        if (shared->closed) return;
        ++shared->active;
      }
      shared->work();
      std::lock_guard<std::mutex> lock(shared->mutex);
      if (--shared->active == 0) shared->done.notify_one();
    });
  }
  shared->work();
  std::unique_lock<std::mutex> lock(shared->mutex);
  shared->closed = true;
  shared->done.wait(lock, [&] { return shared->active == 0; });
}

}  // namespace simplex
