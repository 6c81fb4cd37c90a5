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

}  // namespace muster::parallel
