// c10d::Reducer as we see it. The one place that calls its constructor, whose dozen positional
// arguments differ from one LibTorch to the next: 2.11 has these twelve, 2.15 two more with
// defaults. `make compat` compiles it with the oldest; a signature that no longer fits is to be
// probed in cmake/TorchProbes.cmake.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/reducer.hpp>

namespace muster::parallel {

/// A Reducer that says what it waits for, and that can be told not to.
class OpenReducer final : public c10d::Reducer {
 public:
  using c10d::Reducer::Reducer;

  /// Gradients that arrive now are averaged: a forward has prepared for them, and no backward since
  /// has brought all.
  bool expects() const {
    const std::lock_guard lock(mutex_);
    return expect_autograd_hooks_;
  }
  /// False: they add up where they are. What has been counted stays counted.
  void expect(bool on) {
    const std::lock_guard lock(mutex_);
    expect_autograd_hooks_ = on;
  }
  /// Parameters, by index, that the last forward's results do not reach (find_unused_parameters).
  std::vector<size_t> left_out() const {
    const std::lock_guard lock(mutex_);
    return unused_parameters_;
  }
};

namespace detail {

/// What our code says by name; everything else is c10d's default.
struct ReducerArguments {
  std::vector<at::Tensor> parameters;
  std::vector<std::vector<size_t>> buckets;  ///< in the order of reduction
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  int64_t bucket_bytes_cap = c10d::kDefaultBucketBytesCap;
  int64_t first_bucket_bytes_cap = c10d::kDefaultFirstBucketBytes;
  bool find_unused_parameters = false;
  bool gradient_as_bucket_view = false;
  std::vector<bool> expect_sparse;  ///< by parameter; empty: none
};

inline std::unique_ptr<OpenReducer> make_reducer(ReducerArguments arguments) {
  if (arguments.expect_sparse.empty())
    arguments.expect_sparse.assign(arguments.parameters.size(), false);
  return std::make_unique<OpenReducer>(std::move(arguments.parameters),
                                       std::move(arguments.buckets),
                                       std::move(arguments.group),
                                       std::move(arguments.expect_sparse),
                                       arguments.bucket_bytes_cap,
                                       arguments.find_unused_parameters,
                                       arguments.gradient_as_bucket_view,
                                       std::unordered_map<size_t, std::string>{},
                                       arguments.first_bucket_bytes_cap,
                                       /*skip_all_reduce_unused_params=*/false,
                                       /*use_python_reducer=*/false,
                                       /*bucket_bytes_cap_list=*/std::vector<int64_t>{});
}

}  // namespace detail
}  // namespace muster::parallel
