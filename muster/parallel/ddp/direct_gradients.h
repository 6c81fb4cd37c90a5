// Gradients that are averaged where they lie, beside those that travel in the Reducer's buckets.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "muster/parallel/ddp/gradient_sync.h"
#include "muster/parallel/module/accumulator_hooks.h"

namespace c10d {
class CommHookInterface;
class GradBucket;
}  // namespace c10d

namespace muster::parallel {

// Note [Direct gradients]
// The Reducer copies every gradient into a bucket and its mean back out of it. Where an all-reduce
// works in place and costs little per call (BackendEntry::needs_no_buckets), that is more work than
// the sum itself. So a hook behind the accumulator of each large parameter posts an all-reduce of
// its grad(). Ranks may produce gradients in different orders; all post in one: large parameters
// from the last registered to the first, then the Reducer's buckets. What comes early is held back.
// The Reducer keeps the small parameters, and its checks of when backward may run and what it left
// out. Its communication hook only takes the buckets' values: they are posted and put back here,
// when all is there, so that the Reducer never waits for an operation that is held back. Where its
// gradients are views of the buckets, these are averaged where they lie, too: of a result that is
// its own bucket the Reducer reads and writes nothing then.
// A gradient whose memory somebody else holds as well (a view of what backward still reads) is
// averaged in a copy.

/// One rank's part. Its own thread, which also runs the backward of CPU parameters.
class DirectGradients {
 public:
  /// Null where all gradients go through the Reducer: what the options, the backend or the
  /// parameters of any rank ask for cannot be done directly, or small parameters have most of the
  /// bytes. Collective; the same on all ranks.
  static std::unique_ptr<DirectGradients> make(const NamedTensors& parameters,
                                               const distributed::ProcessGroup& group,
                                               const DdpOptions& options);

  /// `views`: the Reducer's gradients are views of its buckets.
  DirectGradients(NamedTensors large,
                  NamedTensors small,
                  distributed::ProcessGroup group,
                  bool views);
  DirectGradients(const DirectGradients&) = delete;
  DirectGradients& operator=(const DirectGradients&) = delete;

  /// The parameters for the Reducer; at least one.
  const NamedTensors& small() const { return small_; }
  /// For the Reducer of small(), which must not run a backward after this object.
  std::unique_ptr<c10d::CommHookInterface> bucket_hook();

  /// The next backward is averaged. Not while unfinished().
  void expect_backward();
  /// The averages of some of them are still to come.
  bool expects() const { return expecting_ && !paused_; }
  /// While paused, gradients add up where they are.
  void pause(bool on) { paused_ = on; }

  /// A backward has begun and not come to its end: it left out parameters, or threw.
  bool unfinished() const { return unfinished_; }
  /// Names of large parameters that got no gradient since expect_backward().
  std::vector<std::string> missing() const;
  /// All buckets of the Reducer have been filled since expect_backward().
  bool has_buckets() const { return has_buckets_; }

 private:
  class BucketHook;
  struct Large {
    std::string name;
    at::Tensor parameter;
    at::Tensor grad, mean;  // the mean may be the grad's memory
    bool arrived = true;
  };
  struct Bucket {
    at::Tensor mean;                     // flat; the Reducer's own memory where gradients are views
    std::vector<at::Tensor> parameters;  // whose gradients take it; none where they are views
  };

  void arrived(Large& large, const at::Tensor& incoming);
  void add_bucket(c10d::GradBucket& bucket);
  at::Tensor share() const;  // 1 / world size
  void post_ready();
  void post(at::Tensor& tensor, bool average);
  void wait_and_write();

  distributed::ProcessGroup group_;
  NamedTensors small_;
  bool views_;
  /// Dividing the sum gives the bits of the Reducer, which multiplies before it.
  bool divides_exactly_;
  std::vector<Large> large_;  // in the order of posting
  std::vector<Bucket> buckets_;
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
  size_t posted_ = 0;  // of large_
  bool expecting_ = false, paused_ = false, unfinished_ = false, has_buckets_ = false;
  AccumulatorHooks hooks_;
};

}  // namespace muster::parallel
