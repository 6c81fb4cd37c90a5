// Parameters of two stages that are one.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "muster/parallel/module/tensors.h"

namespace muster::parallel {

/// Two parameters, by name: `follower` has `owner`'s value, and its gradient is added to that
/// one's. For layers on two devices, such as an embedding and the last Linear of a language model,
/// where one tensor cannot be in both.
struct TiedParameter {
  std::string follower;
  std::string owner;
};

/// One thread, while no stage runs.
class TiedParameters {
 public:
  /// `all`: the parameters of all stages. Followers take their owners' values now. Throws a usage
  /// error for unknown names, one that follows twice or follows a follower, and for unlike shapes.
  TiedParameters(const std::vector<TiedParameter>& tied, const NamedTensors& all);

  bool is_follower(const at::Tensor& parameter) const;

  struct Pair {
    at::Tensor follower, owner;
  };
  const std::vector<Pair>& pairs() const { return pairs_; }

  /// Before a forward: the owners' values, always; a version tells little of who wrote by .data().
  void copy_values();
  /// Behind the last backward: adds the followers' gradients to the owners', in the order given.
  void add_gradients();

 private:
  std::vector<Pair> pairs_;
};

}  // namespace muster::parallel
