// The all-reduce of tensors that are larger than a few pages.
#pragma once

#include "muster/parallel/shm_steps.h"

namespace muster::parallel {

// Note [Slices]
// The bytes go in pieces as large as a slot, each of them cut into a slice per rank, in two
// steps: a rank copies the other ranks' slices into its slot; each rank sums its own slice over all
// ranks, in their order, straight from the slots and its tensor into its tensor and, over what it
// read, into the slots; the owners of the slots take the sums out. The sum of a piece runs beside
// the copy of the next, so that there is one barrier per piece, and one more.
//
// Two cores share a line of memory by moving it from one's cache to the other's, and that, not
// arithmetic, is the cost. A line of a slot moves twice per piece: to the rank that sums, which
// writes its sum where it read, and back to the owner, which finds it at hand for the next piece.
// (With the sums in memory of their own it was four times, and 3.6 ms where it is now 2.5: 26 MB,
// 2 ranks.)
//
// How far from the limit, on two cores of a Xeon of 2023 (2 MiB of second cache each): the tensor
// itself must be read and written once, which at this machine's 47 GB/s per core is 1.1 ms for 26
// MB; the two moves of each line are the other 1.4 ms. SSE, AVX2 and AVX-512 sums, prefetching and
// pieces of 128 KiB to 2 MiB are within 10 % of each other.

/// data[i] = op over all ranks, in the order of ranks, on all of them or, with `root` >= 0, on that
/// one, while the others' data stay. `size` is alike on all ranks.
void reduce_in_slices(ShmSteps& steps,
                      std::byte* data,
                      size_t size,
                      c10d::ReduceOp::RedOpType op,
                      at::ScalarType dtype,
                      int root = -1);

}  // namespace muster::parallel
