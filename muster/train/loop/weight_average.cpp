#include "muster/train/loop/weight_average.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/train/checkpoints/model_state.h"

namespace muster::train {
namespace {

bool is_of_16_bits(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
}

}  // namespace

WeightAverage::WeightAverage(torch::nn::Module& module,
                             double decay,
                             bool averages_buffers,
                             OwnWeights own_weights,
                             std::function<void()> written)
    : own_(std::move(own_weights)), written_(std::move(written)), decay_(decay) {
  const c10::NoGradGuard no_grad;
  std::set<std::string> copied = infinite_buffers(module);
  if (!averages_buffers) {
    for (const auto& item : module.named_buffers()) copied.insert(item.key());
  }
  for (const auto& [name, own] : own_ ? own_() : model_state(module)) {
    const bool has_mean = own.is_floating_point() || own.is_complex();
    items_.push_back(
        {.name = name,
         .own = own,
         .average = is_of_16_bits(own) ? own.detach().to(at::kFloat) : own.detach().clone(),
         .is_copied = !has_mean || copied.contains(name),
         .aside = {}});
  }
}

/// Pieces of weights may have moved.
void WeightAverage::refresh() {
  if (!own_) return;
  size_t next = 0;
  for (auto& [name, own] : own_()) items_.at(next++).own = std::move(own);
}

void WeightAverage::update() {
  const c10::NoGradGuard no_grad;
  refresh();
  for (Item& item : items_) {
    if (item.is_copied || updates_ == 0) {
      item.average.copy_(item.own);
    } else {
      item.average.lerp_(item.own.detach().to(item.average.scalar_type()), 1 - decay_);
    }
  }
  ++updates_;
}

void WeightAverage::exchange() {
  const c10::NoGradGuard no_grad;
  refresh();
  for (Item& item : items_) {
    if (item.aside.defined()) {
      item.own.copy_(std::exchange(item.aside, at::Tensor()));
      continue;
    }
    at::Tensor before = item.own.detach().clone();
    item.own.copy_(item.average);
    if (item.average.scalar_type() == item.own.scalar_type()) {
      item.average.copy_(before);
    } else {  // the average would be rounded
      item.aside = std::move(before);
    }
  }
  if (written_) written_();
}

void WeightAverage::take(int64_t updates) {
  const c10::NoGradGuard no_grad;
  refresh();
  for (Item& item : items_) item.average.copy_(item.own);
  updates_ = updates;
}

bool WeightAverage::has_short_weights() const {
  return std::any_of(
      items_.begin(), items_.end(), [](const Item& item) { return is_of_16_bits(item.own); });
}

tensor::NamedTensorList WeightAverage::state() const {
  tensor::NamedTensorList state;
  for (const Item& item : items_) state.emplace_back(item.name, item.average);
  return state;
}

void WeightAverage::load(const tensor::NamedTensorList& state, int64_t updates) {
  const c10::NoGradGuard no_grad;
  const std::map<std::string, at::Tensor> saved(state.begin(), state.end());
  for (const Item& item : items_) {
    const auto found = saved.find(item.name);
    if (found != saved.end() && found->second.sizes() == item.average.sizes()) continue;
    throw usage_error(
        {.refused = "the averaged weights (--ema-decay) of the checkpoint",
         .rule = concat("the module has ", item.name, ' ', item.average.sizes()),
         .value = found == saved.end() ? "no such tensor" : c10::str(found->second.sizes())});
  }
  for (Item& item : items_) item.average.copy_(saved.at(item.name));
  updates_ = updates;
}

int64_t WeightAverage::bytes() const {
  int64_t bytes = 0;
  for (const Item& item : items_) bytes += static_cast<int64_t>(item.average.nbytes());
  return bytes;
}

}  // namespace muster::train
