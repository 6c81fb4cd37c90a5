#include "muster/parallel/pipeline_ranks/tied_letters.h"

#include <utility>

#include <ATen/core/grad_mode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {

at::Tensor TiedLetters::receive(int from, int tag, c10::Device device) {
  waits_ = true;
  if (!post_.await(from, tag))
    throw environment_error(
        {.refused = "the step was given up", .rule = concat("rank ", from, " has given it up")});
  waits_ = false;
  return post_.receive(from, tag, device).tensors.at(0);
}

void TiedLetters::copy_values() {
  const at::NoGradGuard no_grad;
  while (values_done_ < pairs_.size()) {
    const size_t i = values_done_++;
    Pair pair = pairs_[i];
    if (pair.owner_rank != rank_ && pair.follower_rank != rank_) continue;
    if (pair.owner_rank == pair.follower_rank) {
      pair.follower.copy_(pair.owner);
    } else if (pair.owner_rank == rank_) {
      post_.send(pair.follower_rank, value_tag(i), {{pair.owner.detach()}, {}});
    } else {
      pair.follower.copy_(receive(pair.owner_rank, value_tag(i), pair.follower.device()));
    }
  }
}

void TiedLetters::add_gradients() {
  const at::NoGradGuard no_grad;
  while (gradients_done_ < pairs_.size()) {
    const size_t i = gradients_done_++;
    Pair pair = pairs_[i];
    at::Tensor gradient;
    if (pair.follower_rank == rank_) {
      gradient = std::exchange(pair.follower.mutable_grad(), {});
      if (pair.owner_rank != rank_)
        post_.send(pair.owner_rank, gradient_tag(i), {{std::move(gradient)}, {}});
    } else if (pair.owner_rank == rank_) {
      gradient = receive(pair.follower_rank, gradient_tag(i), pair.owner.device());
    }
    if (pair.owner_rank != rank_ || !gradient.defined()) continue;
    at::Tensor& sum = pair.owner.mutable_grad();
    const at::Tensor here = gradient.to(pair.owner.options());
    sum = sum.defined() ? sum.add_(here) : here;
  }
}

void TiedLetters::give_up() noexcept {
  const auto letter = [&](int from, int to, int tag) {
    try {
      if (from == rank_ && to != rank_) post_.send_given_up(to, tag);
      if (to == rank_ && from != rank_ && !post_.is_late()) post_.discard(from, tag);
    } catch (const std::exception&) {  // the failure before it is the one to tell
    }
  };
  for (; values_done_ < pairs_.size(); ++values_done_) {
    const Pair& pair = pairs_[values_done_];
    letter(pair.owner_rank, pair.follower_rank, value_tag(values_done_));
  }
  for (; gradients_done_ < pairs_.size(); ++gradients_done_) {
    const Pair& pair = pairs_[gradients_done_];
    letter(pair.follower_rank, pair.owner_rank, gradient_tag(gradients_done_));
  }
}

}  // namespace muster::parallel
