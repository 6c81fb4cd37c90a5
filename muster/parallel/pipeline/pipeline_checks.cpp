#include "muster/parallel/pipeline/pipeline_checks.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include <c10/core/GradMode.h>
#include <torch/nn/modules/dropout.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/meet/timeout.h"

namespace muster::parallel {

pipeline::Split split_of(pipeline::Split first, size_t blocks) {
  if (first.empty())
    for (size_t i = 0; i < blocks; ++i) first.push_back(static_cast<int64_t>(i));
  bool fine = !first.empty() && first[0] == 0 && first.back() < static_cast<int64_t>(blocks);
  for (size_t i = 1; i < first.size(); ++i) fine = fine && first[i - 1] < first[i];
  if (fine) return first;
  throw usage_error(
      {.refused = "first blocks of stages",
       .rule = concat("they begin with 0, rise, and are among the ", blocks, " blocks"),
       .value = concat(at::IntArrayRef(first))});
}

void refuse_shared(const std::vector<NamedTensors>& stages) {
  for (size_t a = 0; a < stages.size(); ++a)
    for (size_t b = a + 1; b < stages.size(); ++b)
      for (const auto& [name, tensor] : stages[a])
        for (const auto& [other, same] : stages[b])
          if (tensor.is_same(same))
            throw usage_error(
                {.refused = concat(name, " and ", other),
                 .rule = concat("stages ", a, " and ", b, " have no tensor in common"),
                 .hint = "give each its own, and tie them by PipelineOptions::tied"});
}

std::chrono::milliseconds stall_timeout_of(std::chrono::milliseconds timeout) {
  if (timeout > std::chrono::milliseconds(0)) return std::min(timeout, distributed::kLongestWait);
  throw usage_error({.refused = "the stall timeout of a pipeline",
                     .rule = "it is above 0",
                     .value = concat(timeout.count(), " ms")});
}

void refuse_repeated_names(const std::vector<Block>& blocks) {
  std::set<std::string> names;
  for (const Block& block : blocks) {
    if (names.insert(block.name).second) continue;
    throw usage_error({.refused = "two blocks of one name",
                       .rule = "parameters are named by their block",
                       .value = block.name});
  }
}

void refuse_shared_draws(const Block& block, c10::Device device) {
  for (const auto& module : block.modules) {
    for (const auto& inner : module->modules()) {
      const auto draws = [&](const auto* layer) { return layer && layer->options.p() > 0; };
      using namespace torch::nn;
      if (!draws(inner->as<DropoutImpl>()) && !draws(inner->as<Dropout2dImpl>()) &&
          !draws(inner->as<Dropout3dImpl>()) && !draws(inner->as<AlphaDropoutImpl>()) &&
          !draws(inner->as<FeatureAlphaDropoutImpl>()))
        continue;
      throw usage_error(
          {.refused = concat("block ", block.name, " is checkpointed"),
           .rule = "its second run draws the same numbers, which LibTorch's one generator of a "
                   "device cannot give to several ranks",
           .value = concat("a dropout, and several ranks on ", device),
           .hint = "layers with a generator of their own (models::Dropout), named in "
                   "Block::generators; or a device for each rank"});
    }
  }
}

void check_training(const PipelineLoss& loss,
                    double scale,
                    const std::vector<MicroBatch>& batches) {
  if (!c10::GradMode::is_enabled())
    throw usage_error({.refused = "a step of a pipeline",
                       .rule = "grad mode is on",
                       .hint = "forward() computes without gradients"});
  if (!loss)
    throw usage_error({.refused = "a step of a pipeline", .rule = "it was made with a loss"});
  if (!std::isfinite(scale))
    throw usage_error({.refused = "the scale of a pipeline's gradients",
                       .rule = "it is finite",
                       .value = concat(scale)});
  for (const MicroBatch& batch : batches)
    for (const Tensors* tensors : {&batch.inputs, &batch.targets})
      for (const at::Tensor& tensor : *tensors)
        if (tensor.defined() && tensor.requires_grad())
          throw usage_error({.refused = "a batch that needs a gradient",
                             .rule = "a pipeline's gradients end at its inputs",
                             .hint = "make what computes them its first block, or detach() them"});
}

}  // namespace muster::parallel
