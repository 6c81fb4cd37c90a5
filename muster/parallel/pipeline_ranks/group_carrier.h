// The way of tensors between the processes of a pipeline.
#pragma once

#include <vector>

#include "muster/parallel/pipeline/carrier.h"
#include "muster/parallel/pipeline_ranks/tensor_post.h"
#include "muster/pipeline/action/action_lists.h"

namespace muster::parallel {

/// By letters of a group whose rank r is rank r of the schedule. One thread.
class GroupCarrier : public Carrier {
 public:
  /// Of one step; `post` outlives it.
  GroupCarrier(TensorPost& post, const pipeline::Placement& placement)
      : post_(post), placement_(placement) {}

  void send(const pipeline::Action& action, Handed handed) override;
  bool make_ready(Handed& handed) const override { return post_.make_ready(handed); }
  /// Throws an environment error where the partner has given up, has ended, or does not come: it
  /// names the partner's stage then.
  void await(const pipeline::Action& action) override;
  Handed receive(const pipeline::Action& action, c10::Device device) override;

  /// Writes and reads the letters of the list from action `next` on, empty: what others wait for
  /// comes, if only to say that it does not. Throws nothing.
  void give_up(const std::vector<pipeline::Action>& list, size_t next) noexcept;

  /// Whether what await() threw is another's failure.
  bool was_let_down() const { return let_down_; }

 private:
  int peer_of(const pipeline::Action& action) const {
    return static_cast<int>(placement_.rank_of(pipeline::partner_of(action).stage));
  }

  TensorPost& post_;
  const pipeline::Placement& placement_;
  bool let_down_ = false;
};

}  // namespace muster::parallel
