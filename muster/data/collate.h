// How samples become a batch: stacked, padded with a mask, or behind each other as ragged lists.
#pragma once

#include <string>
#include <vector>

#include "muster/data/dataset.h"

namespace muster::data {

/// What becomes of one of the samples' tensors.
struct CollateRule {
  enum class How {
    kStack,  ///< [B, …]: all are of one shape
    kPad,    ///< [B, T, …]: each is filled up to the longest one's first dimension
    kRagged  ///< [sum of all T, …]: behind each other; `length` says where each ends
  };

  std::string tensor;
  How how = How::kStack;
  double value = 0;  ///< what padding is filled with
  /// Padding only: a tensor of that name as well // [B, T] bool, true where the sample has an
  /// element. Empty: none.
  std::string mask;
  /// A tensor of that name as well // [B] int64: the samples' own T. Empty: none, or TENSOR_length
  /// of a ragged one.
  std::string length;
  int64_t multiple_of = 1;  ///< T of a padded batch is rounded up to a multiple of this
};

/// Puts samples together. Tensors that no rule names are stacked. What a rule adds stands behind its
/// own tensor. Any thread.
class Collate {
 public:
  Collate() = default;
  /// Throws a usage error for a tensor that has two rules, or a multiple below 1.
  explicit Collate(std::vector<CollateRule> rules);

  /// An empty batch for no samples. Throws a usage error unless all samples have the same tensors,
  /// of one dtype and, but for the first dimension of padded and ragged ones, of one shape.
  Batch operator()(const std::vector<Sample>& samples) const;

  const std::vector<CollateRule>& rules() const { return rules_; }

 private:
  std::vector<CollateRule> rules_;
};

/// The same samples, put together by another collate: for a task that needs them otherwise.
std::shared_ptr<const Dataset> collated(std::shared_ptr<const Dataset> dataset, Collate collate);

}  // namespace muster::data
