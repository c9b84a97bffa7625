// The vectors of this machine.
#pragma once

#include <cstdint>

#if defined(__x86_64__) && !defined(SIMPLEX_PLAIN)
#include <cpuid.h>
#endif

namespace simplex {

// Returns how many numbers the widest vectors of the machine and its system have, by the instructions
// that each_width.h names. `__builtin_cpu_supports` would ask the compiler's own library, and that of
// zig answers no to everything.
inline int widest_here() {
#if defined(__x86_64__) && !defined(SIMPLEX_PLAIN)
  unsigned a, b, c, d, low, high;
  constexpr unsigned kPopcnt = 1u << 23, kXsave = 1u << 27;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & kPopcnt) == 0 || (c & kXsave) == 0) return 4;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 4;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));  // the registers that the system saves
  constexpr unsigned kAvx2 = 1u << 5, kAvx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
  if ((b & kAvx2) == 0 || (low & 0x06) != 0x06) return 4;
  return (b & kAvx512) == kAvx512 && (low & 0xe6) == 0xe6 ? 16 : 8;
#else
  return 4;
#endif
}

// Returns how many numbers the widest vectors have that the machine has and `width` allows.
inline int widest(int64_t width) {
  static const int here = widest_here();
  return width >= here ? here : width >= 8 && here >= 8 ? 8 : 4;
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
