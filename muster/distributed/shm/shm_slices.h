// The all-reduce of tensors that are larger than a few pages.
#pragma once

#include <c10/core/ScalarType.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "muster/distributed/shm/shm_steps.h"

namespace muster::distributed {

// Note [Slices]
// The bytes go in pieces as large as a slot, each of them cut into a slice per rank, in two steps:
// a rank copies the other ranks' slices into its slot; each rank sums its own slice over all ranks,
// in their order, straight from the slots and its tensor into its tensor and, over what it read,
// into the slots; the owners of the slots take the sums out. The sum of a piece runs beside the
// copy of the next, so that there is one barrier per piece, and one more.
//
// Between two turns a slice of a slot is read and written by one rank alone: by the one that sums
// it, which has come to the turn after the copy, then by the owner, after the turn to which the
// summing rank came. So the two slots of Note [Steps] suffice.
//
// Two cores share a line of memory by moving it from one's cache to the other's, and that, not
// arithmetic, is the cost. A line of a slot moves twice per piece: to the rank that sums, which
// writes its sum where it read, and back to the owner, which finds it at hand for the next piece.
// With sums in memory of their own it was four times: 4.3 ms where it is now 2.6 to 2.7, for 26 MB
// and 2 ranks on two cores of a Sapphire Rapids Xeon.
//
// How far that is from the limit: reading and writing 26 MB of a tensor once, which no all-reduce
// can do without, takes 1.1 ms there (47 GB/s per core, with both at it), so it is 2.4 times the
// limit; the other 1.5 ms are the moves between the caches. Sums with SSE, AVX2 and AVX-512,
// prefetching, and pieces of 128 KiB to 2 MiB were within 15 % of each other.

/// data[i] = op over all ranks, in the order of ranks, on all of them or, with `root` >= 0, on that
/// one, while the others' data stay. `size` is alike on all ranks.
void reduce_in_slices(ShmSteps& steps,
                      std::byte* data,
                      size_t size,
                      c10d::ReduceOp::RedOpType op,
                      at::ScalarType dtype,
                      int root = -1);

}  // namespace muster::distributed
