#include "muster/parallel/pipeline/stage.h"

#include <algorithm>
#include <optional>

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/activations/checkpointed.h"
#include "muster/tensor/saved_tensors.h"

namespace muster::parallel {
namespace {

/// The node behind a leaf. See Note [Between stages].
struct Entrance : torch::autograd::Function<Entrance> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& tensor) {
    return tensor.detach();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return gradients;
  }
};

// Less is not worth its way; what a budget counts for a stage (Note [Bytes of stages]) is larger by far.
constexpr int64_t kLeastOffloaded = int64_t{1} << 16;

/// The leaf that a tensor becomes in this stage's graph.
at::Tensor leaf_of(const at::Tensor& tensor, bool needs_gradient) {
  if (!tensor.defined()) return tensor;
  return tensor.detach().requires_grad_(needs_gradient && c10::GradMode::is_enabled());
}

at::Tensor behind_entrance(const at::Tensor& tensor) {
  return tensor.defined() && tensor.requires_grad() ? Entrance::apply(tensor) : tensor;
}

bool none_needs_gradient(const Tensors& tensors) {
  return std::none_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) {
    return tensor.defined() && tensor.requires_grad();
  });
}

NamedTensors of_blocks(const std::vector<Block>& blocks, NamedTensors (*of_block)(const Block&)) {
  NamedTensors found;
  for (const Block& block : blocks) {
    for (auto& entry : of_block(block)) {
      const bool known = std::any_of(found.begin(), found.end(), [&](const auto& other) {
        return other.second.is_same(entry.second);
      });
      if (!known) found.push_back(std::move(entry));
    }
  }
  return found;
}

}  // namespace

size_t first_same(const Tensors& tensors, size_t place) {
  for (size_t i = 0; i < place && tensors[place].defined(); ++i)
    if (tensors[i].is_same(tensors[place])) return i;
  return place;
}

Stage::Stage(std::vector<Block> blocks,
             c10::Device device,
             std::vector<bool> again,
             bool shares_device,
             bool offloads)
    : blocks_(std::move(blocks)),
      device_(device),
      again_(std::move(again)),
      shares_device_(shares_device) {
  if (offloads && !device.is_cpu())
    offload_ = std::make_unique<ActivationOffload>(OffloadOptions{.min_bytes = kLeastOffloaded});
}

NamedTensors Stage::parameters() const { return of_blocks(blocks_, &parameters_of); }
NamedTensors Stage::buffers() const { return of_blocks(blocks_, &buffers_of); }

void Stage::begin(int64_t micro_batches, bool splits_backward) {
  kept_.clear();
  kept_.resize(static_cast<size_t>(micro_batches));
  splits_backward_ = splits_backward;
}

Tensors Stage::run_block(size_t place, const Tensors& tensors) const {
  const Block& block = blocks_[place];
  if (place >= again_.size() || !again_[place]) return block.forward(tensors);
  RecomputeOptions options;
  options.buffers = tensors_of(buffers_of(block));
  if (!block.generators.empty() || shares_device_) options.generators = block.generators;
  return checkpointed(std::move(options), block.forward, tensors);
}

Handed Stage::forward(int64_t micro_batch, const Handed& inputs) {
  Tensors ends, tensors;
  for (size_t i = 0; i < inputs.tensors.size(); ++i) {
    if (const size_t same = first_same(inputs.tensors, i); same < i) {
      tensors.push_back(tensors[same]);
      ends.emplace_back();  // the other one gets the gradient of both
      continue;
    }
    const at::Tensor leaf = leaf_of(inputs.tensors[i], inputs.needs_gradient[i]);
    tensors.push_back(behind_entrance(leaf));
    ends.push_back(leaf);
  }
  std::optional<tensor::SavedTensorScope> scope;
  if (offload_ && c10::GradMode::is_enabled()) scope.emplace(*offload_);
  const bool ends_behind_first =
      splits_backward_ && blocks_.size() > 1 && none_needs_gradient(ends);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    tensors = run_block(i, tensors);
    if (i > 0 || !ends_behind_first) continue;
    ends = tensors;
    for (size_t t = 0; t < ends.size(); ++t) {
      const size_t same = first_same(ends, t);
      tensors[t] = same < t ? tensors[same] : behind_entrance(ends[t]);
    }
    ends = tensors;
  }
  Handed handed;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& output = tensors[i];
    const size_t same = first_same(tensors, i);
    handed.tensors.push_back(same < i           ? handed.tensors[same]
                             : output.defined() ? output.detach()
                                                : output);
    handed.needs_gradient.push_back(output.defined() && output.requires_grad());
  }
  if (c10::GradMode::is_enabled())
    kept(micro_batch) = {std::move(ends), std::move(tensors), {}, {}};
  return handed;
}

at::Tensor Stage::loss(int64_t micro_batch,
                       const PipelineLoss& loss,
                       const Tensors& targets,
                       double weight,
                       double scale) {
  Kept& mine = kept(micro_batch);
  if (weight == 0) {
    for (const at::Tensor& output : mine.outputs)
      mine.gradients.push_back(output.defined() ? at::zeros_like(output) : output);
    return at::zeros({}, at::device(device_));
  }
  const at::Tensor value = loss(mine.outputs, targets);
  if (!value.defined() || value.numel() != 1 || !value.requires_grad())
    throw usage_error({.refused = "the loss of a micro-batch",
                       .rule = "it is one number, computed from the outputs with gradients on",
                       .value = !value.defined()     ? "no tensor"
                                : value.numel() != 1 ? concat(value.sizes())
                                                     : "a number without graph"});
  // A loss scale may be more than 16 bits hold.
  const bool is_short = value.element_size() < 4 && value.is_floating_point();
  mine.outputs = {(is_short ? value.to(at::kFloat) : value).reshape({}) * (weight * scale)};
  return value.detach().reshape({});
}

Tensors Stage::backward(int64_t micro_batch, const Tensors& gradients) {
  Kept mine = std::move(kept(micro_batch));
  kept(micro_batch) = {};
  return backward_of_all(mine.outputs, gradients.empty() ? mine.gradients : gradients, mine.inputs);
}

Tensors Stage::backward_input(int64_t micro_batch, const Tensors& gradients) {
  Kept mine = std::move(kept(micro_batch));
  InputGradients found =
      backward_of_inputs(mine.outputs, gradients.empty() ? mine.gradients : gradients, mine.inputs);
  kept(micro_batch) = {{}, {}, std::move(found.weights), {}};
  return std::move(found.gradients);
}

void Stage::backward_weight(int64_t micro_batch) {
  WeightGradients weights = std::move(kept(micro_batch).weights);
  kept(micro_batch) = {};
  weights.accumulate();
}

}  // namespace muster::parallel
