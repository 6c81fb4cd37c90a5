#include "muster/models/layers/dropout.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/empty_like.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::models {

DropoutImpl::DropoutImpl(double p) : torch::nn::Module("Dropout"), p_(p) {
  if (!(p >= 0 && p <= 1)) {
    throw usage_error({.refused = "dropout",
                       .rule = "the share of numbers set to zero is in 0 … 1",
                       .value = shortest(p)});
  }
}

at::Tensor DropoutImpl::forward(const at::Tensor& x) {
  if (!is_training() || p_ == 0 || x.numel() == 0) return x;
  if (!generator_ || p_ == 1) return at::dropout(x, p_, /*train=*/true);
  // As at::dropout does it on a CPU, in its order of roundings.
  at::Tensor noise = at::empty_like(x).bernoulli_(1 - p_, generator_);
  noise.div_(1 - p_);
  return x * noise;
}

void DropoutImpl::set_generator(const at::Generator& generator) {
  generator_ = generator.defined() ? std::optional(generator) : std::nullopt;
}

// The module itself apart: modules() asks for it in a shared_ptr, which it need not be in.
void set_generator(torch::nn::Module& module, const at::Generator& generator) {
  if (auto* dropout = module.as<DropoutImpl>()) dropout->set_generator(generator);
  for (const auto& child : module.modules(/*include_self=*/false)) {
    if (auto* dropout = child->as<DropoutImpl>()) dropout->set_generator(generator);
  }
}

}  // namespace muster::models
