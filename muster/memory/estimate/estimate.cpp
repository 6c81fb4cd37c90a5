#include "muster/memory/estimate/estimate.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include <torch/nn/module.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/memory/estimate/cpu_scratch.h"
#include "muster/memory/estimate/meta_kernels.h"
#include "muster/memory/estimate/meta_recording.h"
#include "muster/memory/estimate/pool_model.h"

namespace muster::memory {
namespace {

/// Whose kernels take more than their results.
constexpr std::string_view kWithWorkspace[] = {
    "aten::convolution", "aten::mkldnn_rnn_layer", "aten::lstm", "aten::gru"};

/// The operators of this thread while an estimate runs.
struct OperatorsSeen {
  std::string last;  // that began
  std::array<bool, std::size(kWithWorkspace)> has{};
};
thread_local OperatorsSeen* operators_seen = nullptr;

std::unique_ptr<at::ObserverContext> see_operator(const at::RecordFunction& function) {
  if (operators_seen == nullptr) return nullptr;
  const std::string_view name = function.name();
  operators_seen->last = name;
  for (size_t i = 0; i < std::size(kWithWorkspace); ++i)
    if (name == kWithWorkspace[i]) operators_seen->has[i] = true;
  return nullptr;
}

class OperatorWatch {
 public:
  OperatorWatch()
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(&see_operator).scopes({at::RecordScope::FUNCTION}))) {
    operators_seen = &seen_;
  }
  ~OperatorWatch() {
    operators_seen = nullptr;
    at::removeCallback(handle_);
  }
  OperatorWatch(const OperatorWatch&) = delete;
  OperatorWatch& operator=(const OperatorWatch&) = delete;

  const OperatorsSeen& seen() const { return seen_; }

 private:
  OperatorsSeen seen_;
  at::CallbackHandle handle_;
};

/// LibTorch goes on with advice for users of Python.
std::string first_sentence(std::string_view text) {
  return std::string(text.substr(0, std::min(text.find('\n'), text.find(". "))));
}

NotOnMeta not_on_meta(const OperatorsSeen& seen, const c10::Error& error) {
  const std::string op = seen.last.empty() ? "the step" : seen.last;
  return {op,
          {.refused = concat("an estimate on the meta device: ", op),
           .rule = "operators run on shapes alone, without elements",
           .value = first_sentence(error.what_without_backtrace()),
           .hint = "measure it instead: `muster train --batch-size auto`, or a memory::Tracker "
                   "around a step"}};
}

void check_module(const MetaStep& step) {
  if (step.module == nullptr || !step.run) {
    throw usage_error(
        {.refused = "an estimate on the meta device", .rule = "it has a module and a step to run"});
  }
  for (const auto& item : step.module->named_parameters()) {
    if (item.value().is_meta()) continue;
    throw usage_error({.refused = concat("an estimate on the meta device: parameter ", item.key()),
                       .rule = "the module is on meta, whole",
                       .value = concat("on ", item.value().device().str()),
                       .hint = "memory::move_to_meta(*module), before the optimizer is made"});
  }
}

/// Behind a step, when gradients and the optimizer's state are there.
void claim_all(MetaRecording& recording, const MetaStep& step) {
  for (const at::Tensor& parameter : step.module->parameters()) {
    recording.claim(parameter, Owner::kParameter);
    recording.claim(parameter.grad(), Owner::kGradient);
  }
  for (const at::Tensor& buffer : step.module->buffers()) recording.claim(buffer, Owner::kBuffer);
  for (const at::Tensor& input : step.inputs) recording.claim(input, Owner::kInput);
  if (!step.optimizer_state) return;
  for (const at::Tensor& state : step.optimizer_state())
    recording.claim(state, Owner::kOptimizerState);
}

/// The peaks of what was recorded.
PeakEstimate peak_of(const MetaTrace& trace) {
  PeakEstimate found{.storages = static_cast<int64_t>(trace.blocks.size())};
  PoolModel pool;
  std::vector<size_t> handles(trace.blocks.size());
  OwnerBytes live{};
  int64_t all = 0;
  for (const MetaEvent& event : trace.events) {
    const MetaBlock& block = trace.blocks[event.block];
    const int64_t change = event.is_birth ? block.bytes : -block.bytes;
    all += change;
    live[static_cast<size_t>(block.owner)] += change;
    if (event.is_birth) {
      handles[event.block] = pool.allocate(block.bytes);
    } else {
      pool.release(handles[event.block]);
    }
    found.device_peak = std::max(found.device_peak, pool.allocated());
    if (all <= found.peak) continue;
    found.peak = all;
    found.at_peak = live;
  }
  found.device_reserved = pool.reserved();
  return found;
}

}  // namespace

PeakEstimate estimate_peak(const std::function<MetaStep()>& make, const EstimateOptions& options) {
  if (options.steps < 1) {
    throw usage_error({.refused = "EstimateOptions::steps",
                       .rule = "at least 1",
                       .value = std::to_string(options.steps)});
  }
  add_meta_kernels();
  MetaRecording recording;
  const OperatorWatch watch;
  std::optional<CpuScratch> scratch;
  if (options.cpu_scratch) scratch.emplace();
  try {
    const MetaStep step = make();
    check_module(step);
    for (int i = 0; i < options.steps; ++i) {
      step.run();
      claim_all(recording, step);
    }
  } catch (const c10::Error& error) {
    throw not_on_meta(watch.seen(), error);
  }
  PeakEstimate found = peak_of(recording.trace());
  found.is_for_cpu = options.cpu_scratch;
  for (size_t i = 0; i < std::size(kWithWorkspace) && !options.cpu_scratch; ++i)
    if (watch.seen().has[i]) found.unseen_workspaces.emplace_back(kWithWorkspace[i]);
  return found;
}

double PeakEstimate::error() const {
  if (peak == 0) return kEstimateError;
  return std::max(kEstimateError, static_cast<double>(kEstimateBytes) / static_cast<double>(peak));
}

}  // namespace muster::memory
