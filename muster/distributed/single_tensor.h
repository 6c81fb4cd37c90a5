// Collectives over one tensor that is cut into a part per rank. c10d calls them *_single now and
// called them _*_base in LibTorch 2.11: templates, so that the name that is not there is not
// looked up.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace muster::distributed::detail {

/// whole // [world_size * n] on every rank becomes the ranks' parts // [n]; the part may be the
/// rank's own place in `whole`.
template <class Group = c10d::ProcessGroup>
c10::intrusive_ptr<c10d::Work> all_gather_single(Group& group, at::Tensor whole, at::Tensor part) {
  if constexpr (requires { group.all_gather_single(whole, part); }) {
    return group.all_gather_single(whole, part);
  } else {
    return group._allgather_base(whole, part);
  }
}

/// part // [n] becomes this rank's place of the sum of all ranks' `whole` // [world_size * n].
template <class Group = c10d::ProcessGroup>
c10::intrusive_ptr<c10d::Work> reduce_scatter_single(
    Group& group,
    at::Tensor part,
    at::Tensor whole,
    const c10d::ReduceScatterOptions& options = {}) {
  if constexpr (requires { group.reduce_scatter_single(part, whole, options); }) {
    return group.reduce_scatter_single(part, whole, options);
  } else {
    return group._reduce_scatter_base(part, whole, options);
  }
}

/// Rows // [sum of `give`, …] to the ranks, and from them // [sum of `take`, …]; without counts as many
/// to and from each. Backends move the counts away.
template <class Group = c10d::ProcessGroup>
c10::intrusive_ptr<c10d::Work> all_to_all_single(Group& group,
                                                 at::Tensor taken,
                                                 at::Tensor given,
                                                 std::vector<int64_t> take,
                                                 std::vector<int64_t> give,
                                                 const c10d::AllToAllOptions& options = {}) {
  if constexpr (requires { group.all_to_all_single(taken, given, take, give, options); }) {
    return group.all_to_all_single(taken, given, take, give, options);
  } else {
    return group.alltoall_base(taken, given, take, give, options);
  }
}

}  // namespace muster::distributed::detail
