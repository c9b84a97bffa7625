// The vectors of this machine.
#pragma once

#include <cstdint>

namespace simplex {

// Returns how many numbers the widest vectors have that the machine has and `width` allows.
inline int widest(int64_t width) {
#if defined(__x86_64__) && !defined(SIMPLEX_PLAIN)
  if (width >= 16 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return 16;
  }
  if (width >= 8 && __builtin_cpu_supports("avx2")) return 8;
#endif
  (void)width;
  return 4;
}

// The kernel for the widest vectors that the machine has and `width` allows.
template <typename Kernel>
Kernel for_width(int64_t width, Kernel plain, Kernel avx2, Kernel avx512) {
  const int most = widest(width);
  return most == 16 ? avx512 : most == 8 ? avx2 : plain;
}

}  // namespace simplex

// The kernel of a name for each width, as `for_width` takes them.
#if defined(__x86_64__) && !defined(SIMPLEX_PLAIN)
#define EACH_WIDTH(kernel) plain::kernel, avx2::kernel, avx512::kernel
#else
#define EACH_WIDTH(kernel) plain::kernel, plain::kernel, plain::kernel
#endif
