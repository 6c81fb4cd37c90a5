// A dataset over sequences of tokens that are already there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/data/dataset.h"

namespace muster::data {

struct TokenSequences {
  std::vector<int64_t> ids = {};      ///< of all samples, behind each other
  std::vector<int64_t> ends = {};     ///< where in `ids` each ends
  std::vector<int64_t> targets = {};  ///< classes, or empty: samples have none
};

/// Sample i is a sequence. "data" of a batch is [B, T] int64, T as long as its longest sequence, the
/// others filled up at their ends with spec.padding; "target" [B] int64, where there are classes.
class TokenRows final : public Dataset {
 public:
  /// `spec` is what the samples are: its padding and vocabulary hold for `ids`. `learned` and `remarks`
  /// are what those members give. Throws a usage error for ends that do not rise by one at least or do
  /// not end with the ids, ids outside the vocabulary, and targets of another number or no class.
  TokenRows(TokenSequences sequences,
            DataSpec spec,
            std::string learned = {},
            std::vector<std::string> remarks = {});

  int64_t size() const override { return static_cast<int64_t>(sequences_.ends.size()); }
  DataSpec spec() const override { return spec_; }
  at::Tensor targets() const override { return targets_; }
  std::vector<std::string> remarks() const override { return remarks_; }
  std::string learned() const override { return learned_; }
  /// Of all samples.
  uint32_t fingerprint() const override;

 private:
  Batch load(std::span<const int64_t> indices, const SampleContext& context) const override;
  std::span<const int64_t> sequence(int64_t index) const;

  TokenSequences sequences_;
  DataSpec spec_;
  at::Tensor targets_;  // [N] int64, or undefined
  std::string learned_;
  std::vector<std::string> remarks_;
};

}  // namespace muster::data
