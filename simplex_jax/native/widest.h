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

}  // namespace simplex
