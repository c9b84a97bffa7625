// CUDA without a GPU, for tests: the threads of a block are fibers that take turns, and wait for each
// other where threads of a warp exchange numbers. Kernels then run, slowly, as calls of XLA on CPUs.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "xla/ffi/api/ffi.h"

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __shared__ static thread_local

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess };
enum { cudaDevAttrMaxSharedMemoryPerBlockOptin, cudaMemcpyDeviceToDevice };
enum { cudaFuncAttributeMaxDynamicSharedMemorySize };
inline const char* cudaGetErrorString(cudaError_t) { return ""; }
inline void cudaGetDevice(int* device) { *device = 0; }
inline void cudaDeviceGetAttribute(int* most, int, int) { *most = 232448; }
template <typename Kernel>
void cudaFuncSetAttribute(Kernel, int, int) {}
inline void cudaMemcpyAsync(void* to, const void* from, size_t bytes, int, cudaStream_t) {
  std::memcpy(to, from, bytes);
}
inline void cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
}

// The stream that calls on CPUs do not have.
namespace xla::ffi {
template <typename T>
struct NoStream {};
template <typename T>
struct CtxDecoding<NoStream<T>> {
  using Type = T;
  static std::optional<Type> Decode(const XLA_FFI_Api*, XLA_FFI_ExecutionContext*,
                                    DiagnosticEngine&) {
    return nullptr;
  }
};
}  // namespace xla::ffi
#define PlatformStream NoStream

namespace emulation {

constexpr int kWarp = 32;

// What some threads exchange: each waits until all of them that still run have come.
struct Meeting {
  int running = 0, come = 0;
  uint64_t turn = 0;
  uint64_t given[kWarp] = {}, shown[2][kWarp] = {};
  uint32_t those[2] = {}, here = 0;
};

struct Block {
  std::vector<ucontext_t> fibers;
  std::vector<char> ended;
  ucontext_t scheduler;
  std::vector<Meeting> warps;
  Meeting all;
  unsigned current = 0;
  std::function<void()> body;
};

inline thread_local Block* block = nullptr;

inline void close(Meeting& meeting) {
  if (meeting.come == 0 || meeting.come < meeting.running) return;
  std::copy(meeting.given, meeting.given + kWarp, meeting.shown[meeting.turn % 2]);
  meeting.those[meeting.turn % 2] = meeting.here;
  meeting.come = 0;
  meeting.here = 0;
  ++meeting.turn;
}

// Gives a number and returns those of all, and who is there.
inline const uint64_t* meet(Meeting& meeting, unsigned lane, uint64_t number, uint32_t* those) {
  const uint64_t turn = meeting.turn;
  meeting.given[lane] = number;
  meeting.here |= 1u << lane;
  ++meeting.come;
  close(meeting);
  Block* const mine = block;
  while (meeting.turn == turn) swapcontext(&mine->fibers[mine->current], &mine->scheduler);
  if (those) *those = meeting.those[turn % 2];
  return meeting.shown[turn % 2];
}

inline unsigned lane() { return block->current % kWarp; }

template <typename T>
const uint64_t* meet_in_warp(T value, uint32_t* those = nullptr) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return meet(block->warps[block->current / kWarp], lane(), bits, those);
}

template <typename T>
T number(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

inline thread_local dim3 thread_index, block_index, block_size, grid_size;
inline thread_local std::vector<int4> memory;

inline void enter() {
  Block* const mine = block;
  mine->body();
  const unsigned i = mine->current;
  mine->ended[i] = 1;
  Meeting& warp = mine->warps[i / kWarp];
  --warp.running;
  close(warp);
  --mine->all.running;
  close(mine->all);
  swapcontext(&mine->fibers[i], &mine->scheduler);
}

inline void run(unsigned blocks, dim3 size, std::function<void()> body) {
  constexpr size_t kStack = 1 << 16;
  const unsigned threads = size.x * size.y;
  static thread_local std::vector<char> stacks;
  stacks.resize(threads * kStack);
  block_size = size;
  grid_size = dim3(blocks);
  for (unsigned b = 0; b < blocks; ++b) {
    Block mine;
    block = &mine;
    block_index = dim3(b, 0, 0);
    mine.body = body;
    mine.fibers.resize(threads);
    mine.ended.assign(threads, 0);
    mine.warps.resize((threads + kWarp - 1) / kWarp);
    mine.all.running = threads;
    for (unsigned i = 0; i < threads; ++i) {
      ++mine.warps[i / kWarp].running;
      getcontext(&mine.fibers[i]);
      mine.fibers[i].uc_stack.ss_sp = stacks.data() + i * kStack;
      mine.fibers[i].uc_stack.ss_size = kStack;
      mine.fibers[i].uc_link = nullptr;
      makecontext(&mine.fibers[i], enter, 0);
    }
    for (unsigned left = threads; left;) {
      left = 0;
      for (unsigned i = 0; i < threads; ++i) {
        if (mine.ended[i]) continue;
        mine.current = i;
        thread_index = dim3(i % size.x, i / size.x, 0);
        swapcontext(&mine.scheduler, &mine.fibers[i]);
        left += !mine.ended[i];
      }
    }
  }
}

}  // namespace emulation

#define threadIdx emulation::thread_index
#define blockIdx emulation::block_index
#define blockDim emulation::block_size
#define gridDim emulation::grid_size

template <typename T>
T __shfl_sync(unsigned, T value, int from, int width = 32) {
  const unsigned lane = emulation::lane();
  const unsigned place = lane / width * width + (from & (width - 1));
  return emulation::number<T>(emulation::meet_in_warp(value)[place]);
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int by) {
  const unsigned lane = emulation::lane();
  return emulation::number<T>(emulation::meet_in_warp(value)[lane ^ by]);
}
template <typename T>
T __shfl_up_sync(unsigned, T value, unsigned by) {
  const unsigned lane = emulation::lane();
  return emulation::number<T>(emulation::meet_in_warp(value)[lane < by ? lane : lane - by]);
}
inline unsigned __ballot_sync(unsigned, bool value) {
  uint32_t those;
  const uint64_t* all = emulation::meet_in_warp(value, &those);
  unsigned bits = 0;
  for (int i = 0; i < emulation::kWarp; ++i) bits |= unsigned((those >> i & 1) && all[i]) << i;
  return bits;
}
inline bool __any_sync(unsigned mask, bool value) { return __ballot_sync(mask, value) != 0; }
inline unsigned __match_any_sync(unsigned, int value) {
  uint32_t those;
  const uint64_t* all = emulation::meet_in_warp(value, &those);
  unsigned bits = 0;
  for (int i = 0; i < emulation::kWarp; ++i) {
    bits |= unsigned((those >> i & 1) && emulation::number<int>(all[i]) == value) << i;
  }
  return bits;
}
inline void __syncwarp() { emulation::meet_in_warp(0); }
// Of all threads of a block, which are more than a meeting shows.
inline void __syncthreads() { emulation::meet(emulation::block->all, 0, 0, nullptr); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(unsigned x) { return __builtin_ffs(x); }
inline int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
inline int __float_as_int(float x) { return reinterpret_cast<int&>(x); }
inline uint32_t __float_as_uint(float x) { return reinterpret_cast<uint32_t&>(x); }
inline float __int_as_float(int x) { return reinterpret_cast<float&>(x); }
inline float __uint_as_float(uint32_t x) { return reinterpret_cast<float&>(x); }
template <typename T>
T __ldg(const T* from) {
  return *from;
}
inline void __trap() { std::abort(); }
inline int atomicAdd(int* to, int by) {  // of blocks that other threads of XLA run, too
  return __atomic_fetch_add(to, by, __ATOMIC_RELAXED);
}
using std::max;
using std::min;
