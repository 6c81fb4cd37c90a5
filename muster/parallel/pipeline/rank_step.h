// A rank's part of a step: its list of actions, carried out on its stages.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/parallel/pipeline/callbacks.h"
#include "muster/parallel/pipeline/carrier.h"
#include "muster/parallel/pipeline/micro_batches.h"
#include "muster/parallel/pipeline/stage.h"
#include "muster/pipeline/action/action_lists.h"
#include "muster/pipeline/simulate/timeline.h"

namespace muster::parallel {

/// What all ranks of a step have in common. Read by their threads.
struct StepOrder {
  pipeline::ActionLists lists;  ///< with messages
  std::vector<MicroBatch> batches;
  std::vector<double> weights;  ///< of the micro-batches' losses
  double scale = 1;             ///< of the gradients
  tensor::StreamMark ready;     ///< of the batches, where they are on no rank's device
  PipelineLoss loss;            ///< none: forward alone, gradients are off
  AverageGradients average;     ///< none: REDUCE_GRAD does nothing
  bool keeps_outputs = false;   ///< of the last stage
  bool synchronize = false;     ///< devices, behind each action, for true times
  bool holds_letters = false;   ///< what is sent, until it has surely been taken
};

/// One thread's. Others may look where it is.
class RankStep {
 public:
  using Clock = std::chrono::steady_clock;

  /// `stages` of this rank, by number; they and the order live as long.
  RankStep(const StepOrder& order, int64_t rank, std::map<int64_t, Stage*> stages);

  /// Carries out the list. Errors are muster::Errors that name the action, with the cause nested.
  void run(Carrier& carrier);

  /// The action that it is at, and since when; nothing before the first and behind the last.
  struct Place {
    const pipeline::Action* action = nullptr;
    Clock::time_point since;
  };
  Place place() const;
  /// The action that it computes, in words; empty while it waits for others, and outside of actions.
  std::string work() const;
  /// Its place in the list; -1 before the first, behind the last their number.
  int64_t position() const { return position_.load(std::memory_order_acquire); }

  // What it made, once run() is over.

  /// The losses by micro-batch, and the outputs, on the rank of the last stage.
  const std::vector<at::Tensor>& losses() const { return losses_; }
  const std::vector<Tensors>& outputs() const { return outputs_; }
  /// Seconds of the steady clock. A receive begins when its message is there.
  const std::vector<pipeline::Span>& spans() const { return spans_; }

 private:
  void carry_out(const pipeline::Action& action, Carrier& carrier);
  void send(const pipeline::Action& action, Handed handed, Carrier& carrier);
  void forward(const pipeline::Action& action);
  void hand_back(const pipeline::Action& action, Tensors gradients);
  Tensors gradients_for(const pipeline::Action& action);
  bool is_last(int64_t stage) const { return stage + 1 == order_.lists.placement.stages(); }

  using Key = std::pair<int64_t, int64_t>;  // stage, micro-batch
  const StepOrder& order_;
  const std::vector<pipeline::Action>& list_;
  std::map<int64_t, Stage*> stages_;
  std::map<Key, Handed> inputs_, gradients_;        // for a stage of this rank
  std::map<Key, Handed> sent_forward_, sent_back_;  // made, not sent yet
  std::vector<int64_t> taken_;                      // pipeline::surely_taken(), with holds_letters
  std::multimap<int64_t, Handed> lent_;             // by the position at which they are let go
  std::vector<at::Tensor> losses_;
  std::vector<Tensors> outputs_;
  std::vector<pipeline::Span> spans_;
  std::atomic<int64_t> position_{-1};
  std::atomic<Clock::rep> since_{0};
};

}  // namespace muster::parallel
