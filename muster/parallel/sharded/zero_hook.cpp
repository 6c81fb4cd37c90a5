// ZeroCore: how gradients travel to their shards.
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/sharded/zero_core.h"

namespace muster::parallel {
namespace {

constexpr std::string_view kHookState = "hook/";

}  // namespace

void refuse_hook_of_shards(const std::string& hook) {
  throw usage_error(
      {.refused = "a communication hook with ZeRO stage 2 or 3",
       .rule = "each rank keeps a piece of the average alone, so what a hook sends of a bucket is "
               "summed element by element (CommHook::scatters)",
       .value = hook,
       .hint = "take fp16 or bf16, stage 1, or DistributedDataParallel"});
}

void ZeroCore::register_comm_hook(std::shared_ptr<CommHook> hook) {
  const auto refuse = [](const char* rule) {
    throw usage_error({.refused = "a communication hook of ZeRO", .rule = rule});
  };
  if (gradients_->hook()) refuse("there is one already");
  if (gradients_->has_run()) refuse("it is registered before the first backward");
  if (!hook->scatters()) refuse_hook_of_shards("one that averages whole buckets");
  hook->bind(parameters_.parameters());
  gradients_->set_hook(std::move(hook));
}

NamedTensors ZeroCore::hook_state() const {
  NamedTensors state;
  if (!gradients_ || !gradients_->hook()) return state;
  for (auto& [name, tensor] : gradients_->hook()->state())
    state.emplace_back(concat(kHookState, name), tensor);
  return state;
}

void ZeroCore::load_hook_state(const NamedTensors& state) {
  NamedTensors of_hook;
  for (const auto& [name, tensor] : state) {
    if (!name.starts_with(kHookState) || !gradients_->hook())
      throw usage_error({.refused = "a state of communication in ZeRO stage 2 or 3",
                         .rule = "it is of the hook that these shards have",
                         .value = name,
                         .hint = "load it into stage 1, or leave it out"});
    of_hook.emplace_back(name.substr(kHookState.size()), tensor);
  }
  if (gradients_->hook()) gradients_->hook()->load_state(of_hook);
}

}  // namespace muster::parallel
