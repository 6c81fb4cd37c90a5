#include "muster/parallel/activations/recomputation.h"

#include <algorithm>
#include <utility>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/dtype_name.h"

namespace muster::parallel {
namespace {

constexpr int kOutsideOfBackward = -1;
constexpr size_t kMostDifferences = 5;

/// How many second runs this thread is in.
thread_local int second_runs = 0;

/// A function's first run inside another one's second run: the other one does not know its buffers.
std::optional<ScratchBuffers> scratch_in_second_run(const std::vector<at::Tensor>& buffers) {
  if (second_runs == 0) return std::nullopt;
  return std::optional<ScratchBuffers>(std::in_place, buffers);
}

struct InSecondRun {
  InSecondRun() { ++second_runs; }
  ~InSecondRun() { --second_runs; }
  InSecondRun(const InSecondRun&) = delete;
  InSecondRun& operator=(const InSecondRun&) = delete;
};

/// Ends a second run from within an operation. No std::exception, so that nobody takes it for an
/// error.
struct Enough {};

Error other_run(std::vector<std::string> differences) {
  if (differences.size() > kMostDifferences) {
    const size_t rest = differences.size() - kMostDifferences;
    differences.resize(kMostDifferences);
    differences.push_back(concat("and ", rest, " more"));
  }
  return usage_error(
      {.refused = "recomputation of a checkpointed function in backward",
       .rule = "its operations save the same tensors as in its first run",
       .value = join(differences, "; "),
       .hint =
           "the function depends on something besides its inputs that has changed since: a mode "
           "(train, eval), a counter, or a generator that RecomputeOptions does not name"});
}

}  // namespace

TensorLook::TensorLook(const at::Tensor& tensor)
    : dtype(tensor.scalar_type()), device(tensor.device()), sizes(tensor.sizes()) {}

std::string TensorLook::text() const {
  return concat(tensor::dtype_name(dtype), at::IntArrayRef(sizes), " on ", device);
}

/// What autograd has in place of a tensor.
class Recomputation::Ticket : public tensor::SavedTensor {
 public:
  Ticket(std::shared_ptr<Recomputation> run, std::shared_ptr<Saved> saved, size_t number)
      : run_(std::move(run)), saved_(std::move(saved)), number_(number) {}
  ~Ticket() override { saved_->wanted = false; }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  at::Tensor unpack() override { return run_->recomputed(number_); }

 private:
  std::shared_ptr<Recomputation> run_;
  std::shared_ptr<Saved> saved_;
  size_t number_;
};

/// Takes what operations of the second run save. They get it as well: a function may itself go back
/// through what it computes.
class Recomputation::SecondRun : public tensor::SavedTensorHooks {
 public:
  SecondRun(std::vector<std::shared_ptr<Saved>> saved, bool early_stop)
      : saved_(std::move(saved)), early_stop_(early_stop), made_(saved_.size()) {}

  std::unique_ptr<tensor::SavedTensor> pack(const at::Tensor& tensor) override {
    const size_t number = count_++;
    if (number < saved_.size()) {
      compare(number, tensor);
      if (saved_[number]->wanted) made_[number] = tensor::UnchangedTensor(tensor);
    }
    if (early_stop_ && count_ >= saved_.size()) throw Enough();
    return std::make_unique<Itself>(tensor);
  }

  /// Throws a usage error unless it saved what the first run did. `is_whole`: the first run is
  /// over, so that this one may not have saved more.
  Made checked_result(bool is_whole) {
    if (count_ < saved_.size() || (is_whole && !early_stop_ && count_ > saved_.size())) {
      differences_.insert(
          differences_.begin(),
          concat(saved_.size(), " tensors in the first run, ", count_, " in the second one"));
    }
    if (!differences_.empty()) throw other_run(std::move(differences_));
    return std::move(made_);
  }

 private:
  class Itself : public tensor::SavedTensor {
   public:
    explicit Itself(const at::Tensor& tensor) : tensor_(tensor) {}
    at::Tensor unpack() override { return tensor_.get(); }

   private:
    tensor::UnchangedTensor tensor_;
  };

  void compare(size_t number, const at::Tensor& tensor) {
    const TensorLook now(tensor);
    const TensorLook& then = saved_[number]->look;
    if (now == then) return;
    differences_.push_back(concat("tensor ",
                                  number + 1,
                                  " of ",
                                  saved_.size(),
                                  " was ",
                                  then.text(),
                                  " and is ",
                                  now.text()));
  }

  std::vector<std::shared_ptr<Saved>> saved_;
  bool early_stop_;
  Made made_;
  size_t count_ = 0;
  std::vector<std::string> differences_;
};

Recomputation::Recomputation(Again again,
                             const std::vector<at::Tensor>& inputs,
                             RecomputeOptions options)
    : again_(std::move(again)), options_(std::move(options)), state_(inputs, options_.generators) {
  inputs_.reserve(inputs.size());
  for (const at::Tensor& input : inputs) inputs_.emplace_back(input, /*is_output=*/false);
}

std::unique_ptr<tensor::SavedTensor> Recomputation::ticket(const at::Tensor& tensor) {
  auto saved = std::make_shared<Saved>(TensorLook(tensor));
  const std::lock_guard lock(mutex_);
  saved_.push_back(saved);
  return std::make_unique<Ticket>(shared_from_this(), std::move(saved), saved_.size() - 1);
}

// The lock is held while the function runs: another thread that goes back through the same graph
// waits for what this one makes. Inner functions lock before outer ones, whose inputs they ask for.
at::Tensor Recomputation::recomputed(size_t number) {
  const int task = torch::autograd::get_current_graph_task_id();
  const std::lock_guard lock(mutex_);
  Made* made = &made_[task];
  if (number >= made->size() || !(*made)[number].defined()) {
    *made = {};
    Made again = run_again();
    made = &made_[task];
    *made = std::move(again);
    drop_at_end_of_backward(task);
  }
  at::Tensor taken = (*made)[number].get();
  (*made)[number] = {};
  const bool any_left =
      std::any_of(made->begin(), made->end(), [](const auto& tensor) { return tensor.defined(); });
  if (!any_left || task == kOutsideOfBackward) made_.erase(task);
  return taken;
}

void Recomputation::drop_at_end_of_backward(int task) {
  if (task == kOutsideOfBackward) return;
  torch::autograd::Engine::get_default_engine().queue_callback([self = weak_from_this(), task] {
    const auto run = self.lock();
    if (!run) return;
    const std::lock_guard lock(run->mutex_);
    run->made_.erase(task);
  });
}

Recomputation::Made Recomputation::run_again() {
  std::vector<at::Tensor> inputs;
  for (const auto& input : inputs_) inputs.push_back(input.unpack());
  SecondRun second(saved_, options_.early_stop);
  state_.run_in(options_.buffers, [&] {
    const tensor::SavedTensorScope scope(second);
    const InSecondRun inside;
    try {
      again_(inputs);
    } catch (const Enough&) {
      return;
    }
  });
  return second.checked_result(first_run_over_);
}

CheckpointedRun::CheckpointedRun(Recomputation::Again again,
                                 const std::vector<at::Tensor>& inputs,
                                 RecomputeOptions options)
    : scratch_(scratch_in_second_run(options.buffers)),
      recomputation_(std::make_shared<Recomputation>(std::move(again), inputs, std::move(options))),
      scope_(*this) {}

CheckpointedRun::~CheckpointedRun() { recomputation_->first_run_is_over(); }

std::unique_ptr<tensor::SavedTensor> CheckpointedRun::pack(const at::Tensor& tensor) {
  return recomputation_->ticket(tensor);
}

}  // namespace muster::parallel
