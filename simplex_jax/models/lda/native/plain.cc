#include "task.h"

#define WIDTH 4
#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace simplex::plain {

#include "random.inl"
#include "search.inl"
#include "dense.inl"
#include "sparse.inl"

}  // namespace simplex::plain
