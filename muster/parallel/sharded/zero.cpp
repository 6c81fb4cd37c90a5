#include "muster/parallel/sharded/zero.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {

void detail::refuse_sparse_gradients(const NamedTensors& parameters,
                                     const std::vector<std::string>& sparse) {
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.requires_grad() || std::find(sparse.begin(), sparse.end(), name) == sparse.end())
      continue;
    throw usage_error({.refused = concat("shards of parameter ", name),
                       .rule = "its gradient is dense",
                       .value = "of an embedding layer with sparse(true)",
                       .hint = "take sparse(false), or DistributedDataParallel"});
  }
}

void detail::refuse_comm_hook() {
  throw usage_error({.refused = "a communication hook with ZeRO stage 2 or 3",
                     .rule = "gradients are reduced and scattered there, and a hook averages whole "
                             "ones",
                     .hint = "take stage 1, or DistributedDataParallel"});
}

void detail::refuse_hook_state(const std::string& name) {
  throw usage_error({.refused = "a state of communication in ZeRO stage 2 or 3",
                     .rule = "it is that of stage 1's buckets and hook",
                     .value = name,
                     .hint = "load it into stage 1, or leave it out"});
}

}  // namespace muster::parallel
