#include "muster/memory/guard/step_state.h"

#include <algorithm>
#include <mutex>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <c10/core/GradMode.h>

#include "muster/tensor/device/generators.h"

namespace muster::memory {
namespace {

at::Tensor state_now(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

/// In host memory: what lies on the CPU already is copied all the same.
at::Tensor host_copy_of(const at::Tensor& tensor) {
  const at::Tensor detached = tensor.detach();
  return detached.is_cpu() ? detached.clone() : detached.cpu();
}

/// A copy may be kept for the next step.
bool fits(const at::Tensor& copy, const at::Tensor& tensor) {
  return copy.defined() && copy.sizes() == tensor.sizes() &&
         copy.scalar_type() == tensor.scalar_type() && copy.device() == tensor.device();
}

}  // namespace

StepState::StepState(torch::nn::Module& module, std::vector<at::Generator> generators)
    : module_(module), generators_(std::move(generators)) {}

std::vector<c10::Device> StepState::devices() const {
  std::vector<c10::Device> found;
  const auto add = [&](const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.is_cpu() || tensor.is_meta()) return;
    if (std::ranges::find(found, tensor.device()) == found.end()) found.push_back(tensor.device());
  };
  for (const at::Tensor& parameter : module_.parameters()) add(parameter);
  for (const at::Tensor& buffer : module_.buffers()) add(buffer);
  return found;
}

void StepState::capture() {
  const c10::NoGradGuard no_grad;
  is_taken_ = false;
  take_gradients();
  take_buffers();
  take_generators();
  is_taken_ = true;
}

void StepState::take_gradients() {
  gradients_.clear();
  for (const at::Tensor& parameter : module_.parameters()) {
    if (!parameter.defined() || !parameter.requires_grad()) continue;
    Gradient each{.parameter = parameter, .gradient = parameter.grad()};
    if (each.gradient.defined()) {
      each.saved = each.gradient.layout() == at::kStrided ? host_copy_of(each.gradient)
                                                          : each.gradient.detach().clone();
    }
    gradients_.push_back(std::move(each));
  }
}

void StepState::take_buffers() {
  std::vector<Buffer> before = std::move(buffers_);
  buffers_.clear();
  for (const auto& item : module_.named_buffers()) {
    if (!item.value().defined()) continue;
    Buffer each{.name = item.key(), .own = item.value()};
    const auto kept = std::ranges::find(before, each.name, &Buffer::name);
    if (kept != before.end() && fits(kept->saved, each.own)) each.saved = kept->saved;
    if (!each.saved.defined()) each.saved = at::empty_like(each.own.detach());
    each.saved.copy_(each.own.detach());
    buffers_.push_back(std::move(each));
  }
}

void StepState::take_generators() {
  draws_.clear();
  std::vector<at::Generator> generators = generators_;
  if (generators.empty()) {
    generators.push_back(tensor::default_generator(c10::kCPU));
    for (const c10::Device device : devices())
      generators.push_back(tensor::default_generator(device));
  }
  for (at::Generator& generator : generators)
    draws_.push_back({.generator = generator, .state = state_now(generator)});
}

void StepState::put_back() {
  if (!is_taken_) return;  // memory ran out in capture(), before anything could change
  const c10::NoGradGuard no_grad;
  for (Gradient& each : gradients_) {
    at::Tensor& now = each.parameter.mutable_grad();
    if (each.gradient.defined() && each.gradient.layout() == at::kStrided) {
      each.gradient.detach().copy_(each.saved);
      now = each.gradient;
    } else {
      now = each.gradient.defined() ? each.saved.clone() : at::Tensor();
    }
  }
  for (Buffer& each : buffers_) each.own.detach().copy_(each.saved);
  for (Draws& each : draws_) {
    const std::lock_guard lock(each.generator.mutex());
    each.generator.set_state(each.state);
  }
}

std::string StepState::changed_buffer() const {
  const c10::NoGradGuard no_grad;
  for (const Buffer& each : buffers_)
    if (!at::equal(each.own.detach().cpu(), each.saved.cpu())) return each.name;
  return "";
}

bool StepState::has_drawn() const {
  return std::ranges::any_of(
      draws_, [](const Draws& each) { return !at::equal(state_now(each.generator), each.state); });
}

}  // namespace muster::memory
