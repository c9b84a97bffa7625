#include "random.inl"
#include "search.inl"
#include "dense.inl"
#include "sparse.inl"
