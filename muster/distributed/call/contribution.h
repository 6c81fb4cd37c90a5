// One rank's part in one collective operation, in the form that our backends share.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "muster/base/error.h"

namespace muster::distributed {

struct Contribution {
  c10d::OpType op = c10d::OpType::UNKNOWN;
  std::vector<at::Tensor> inputs;  ///< all-reduce, broadcast and reduce work on them in place
  std::vector<at::Tensor> outputs;
  int root = 0;
  c10d::ReduceOp reduce_op;
  std::vector<int64_t> output_splits;     ///< all-to-all only: rows to take from each rank
  std::vector<int64_t> input_splits;      ///< all-to-all only: rows to give to each rank
  std::chrono::milliseconds timeout{-1};  ///< below 0: the group's
  bool async = true;                      ///< false: the caller waits at once

  /// "all_reduce sum float32[1000]": what must agree between ranks, and what an error shows.
  std::string describe() const;

  /// What the caller waits for: the tensors that are written.
  const std::vector<at::Tensor>& results() const { return outputs.empty() ? inputs : outputs; }
};

/// One with what c10d's option structs have in common.
template <class Options>
Contribution contribution_of(c10d::OpType op, const Options& options) {
  Contribution part{.op = op, .timeout = options.timeout};
  if constexpr (requires { options.asyncOp; }) part.async = options.asyncOp;
  if constexpr (requires { options.rootRank; }) part.root = static_cast<int>(options.rootRank);
  if constexpr (requires { options.reduceOp; }) part.reduce_op = options.reduceOp;
  return part;
}

/// What must agree between the ranks' contributions, as plain bytes that a shared segment can hold.
/// Those of operations that fit are equal as bytes. Those of others are not, but for lists that
/// differ between ranks by design (scatter, gather, all-to-all, all-gather), whose sizes are
/// checked apart, and as far as the 64-bit hash `rest` can tell.
struct OpSignature {
  static constexpr int kMaxDims = 8;
  uint64_t sequence = 0;
  uint64_t rest = 0;  ///< hash of the tensors after the first, and of dimensions after the eighth
  int32_t root = 0;
  uint16_t tensors = 0;
  uint8_t op = 0;
  uint8_t reduce_op = 0;
  uint8_t dtype = 0;
  uint8_t dims = 0;
  std::array<uint8_t, 6> unused{};  // no padding: it is compared as bytes
  std::array<int64_t, kMaxDims> sizes{};

  static OpSignature of(const Contribution& part, uint64_t sequence);
  bool fits(const OpSignature& other) const;
  std::string describe() const;
};

bool reduces(c10d::OpType op);

/// "sum", "avg", …
std::string reduce_name(c10d::ReduceOp::RedOpType op);

/// "float32[2, 3]".
std::string shape_text(at::ScalarType dtype, at::IntArrayRef sizes);

/// The rows of dimension 0 that belong to rank `index`: where they start, how many there are, for
/// given splits or even ones.
struct Rows {
  int64_t start;
  int64_t count;
};
Rows rows_of(const at::Tensor& tensor,
             const std::vector<int64_t>& splits,
             size_t index,
             size_t world_size);

/// The usage error of an all-to-all in which rank `to` takes other than rank `from` gives; in
/// bytes.
Error unequal_parts(int64_t from, int64_t gives, int64_t to, int64_t takes);

/// Refuses, before anybody waits, what this rank can see to be wrong by itself: lists of the wrong
/// length, tensors that are not dense, outputs that do not hold what comes, reductions that a dtype
/// has not. Throws a usage error.
void check_contribution(const Contribution& part, int rank, int world_size);

/// Refuses what no backend moves: a tensor that is undefined, that is not dense, or that holds no
/// plain numbers. `call`: what an error begins with. Throws a usage error.
void check_tensor(const std::string& call, const at::Tensor& tensor);

/// The same for send, recv and recvAnysource: one tensor, a peer that is a rank of the group, and a
/// tag that is not negative.
void check_message(
    const char* call, const std::vector<at::Tensor>& tensors, int peer, int tag, int world_size);

/// into = op(…op(op(values[0], values[1]), values[2])…), elementwise and in that order; AVG divides
/// at the end. All have one dtype and number of elements. `into` may be values[0] and no other.
void reduce_in_order(at::Tensor& into,
                     const std::vector<at::Tensor>& values,
                     c10d::ReduceOp::RedOpType op);

}  // namespace muster::distributed
