#include "muster/parallel/gradient_sync.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <unordered_set>

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/reducer_shim.h"

namespace muster::parallel {
namespace {

constexpr size_t kBroadcastBytes =
    250 << 20;  // as PyTorch: tensors are packed up to this size for a broadcast

/// Passes the outputs on unchanged, but keeps undefined gradients undefined on the way back.
/// Without it an output that the loss ignores would never reach its parameters' hooks, and the
/// reduction would wait for them.
struct OutputMark : torch::autograd::Function<OutputMark> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                at::TensorList outputs) {
    context->set_materialize_grads(false);
    torch::autograd::variable_list marked;
    for (const at::Tensor& output : outputs) marked.push_back(output.view_as(output));
    return marked;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return gradients;
  }
};

std::string describe(const std::string& role, const std::string& name, const at::Tensor& tensor) {
  std::ostringstream out;
  out << role << ' ' << name << ' ' << c10::toString(tensor.scalar_type()) << tensor.sizes()
      << (tensor.requires_grad() ? "" : " fixed") << '\n';
  return out.str();
}

/// The first line in which `text` differs from rank 0's, as both ranks see it. Empty if none does.
std::string first_difference(const std::string& reference, const std::string& text, size_t rank) {
  const std::vector<std::string> ours = split(reference, '\n'), theirs = split(text, '\n');
  for (size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    const std::string a = i < ours.size() && !ours[i].empty() ? ours[i] : "nothing more";
    const std::string b = i < theirs.size() && !theirs[i].empty() ? theirs[i] : "nothing more";
    if (a != b) return concat("rank 0 has ", a, "; rank ", rank, " has ", b);
  }
  return "";
}

std::vector<at::Tensor> tensors_of(const NamedTensors& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

}  // namespace

GradientSync::GradientSync(NamedTensors parameters,
                           NamedTensors buffers,
                           ProcessGroup group,
                           DdpOptions options)
    : group_(std::move(group)), options_(std::move(options)) {
  std::unordered_set<const void*>
      seen;  // tied weights are registered under several names and reduced once
  const auto ignored = [&](const std::string& name) {
    return std::find(options_.parameters_to_ignore.begin(),
                     options_.parameters_to_ignore.end(),
                     name) != options_.parameters_to_ignore.end();
  };
  for (auto& [name, tensor] : parameters) {
    if (!ignored(name) && seen.insert(tensor.unsafeGetTensorImpl()).second)
      (tensor.requires_grad() ? parameters_ : frozen_).emplace_back(name, tensor);
  }
  for (auto& [name, tensor] : buffers) {
    if (!ignored(name) && tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second)
      buffers_.emplace_back(name, tensor);
  }
  if (parameters_.empty()) {
    throw usage_error(
        {.refused = "DistributedDataParallel",
         .rule = "the module has at least one parameter that requires gradients",
         .hint = "a module without one needs no gradient averaging; call it as it is"});
  }
  if (options_.init_sync) {
    verify_across_ranks();
    std::vector<at::Tensor> state = tensors_of(parameters_);
    for (const NamedTensors* more : {&frozen_, &buffers_}) {
      for (const auto& [name, tensor] : *more) state.push_back(tensor);
    }
    broadcast(state);
  }
  build_reducer();
}

GradientSync::~GradientSync() {
  // The hooks on the parameters point into the Reducer, and the module lives on.
  try {
    reducer_->remove_autograd_hooks();
    reducer_.reset();
  } catch (
      const std::exception&) {  // NOLINT(bugprone-empty-catch): a destructor has nobody to tell
  }
}

void GradientSync::verify_across_ranks() const {
  std::string text;
  for (const auto& [name, tensor] : parameters_) text += describe("parameter", name, tensor);
  for (const auto& [name, tensor] : frozen_) text += describe("parameter", name, tensor);
  for (const auto& [name, tensor] : buffers_) text += describe("buffer", name, tensor);
  const std::vector<std::string> texts = group_.all_gather_text(text);
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    const std::string difference = first_difference(texts[0], texts[rank], rank);
    if (difference.empty()) continue;
    throw usage_error({.refused = "the ranks' modules differ",
                       .rule = "all ranks wrap the same module, registered in the same order",
                       .value = difference,
                       .hint = "build the module from the same options on every rank; the rank may "
                               "only choose data and seeds"});
  }
}

void GradientSync::broadcast(const std::vector<at::Tensor>& tensors) const {
  if (tensors.empty() || group_.world_size() == 1) return;
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> detached;
  for (const at::Tensor& tensor : tensors) detached.push_back(tensor.detach());
  c10d::broadcast_coalesced(group_.c10d(), detached, kBroadcastBytes, 0);
}

void GradientSync::build_reducer() {
  const std::vector<at::Tensor> parameters = tensors_of(parameters_);
  // As PyTorch: unless unused parameters are searched for, one bucket takes everything in the first
  // step, whose order of gradients then decides the real buckets (rebuild_buckets).
  std::vector<size_t> limits{std::numeric_limits<size_t>::max()};
  if (options_.find_unused_parameters) {
    limits = {static_cast<size_t>(options_.first_bucket_bytes_cap),
              static_cast<size_t>(options_.bucket_bytes_cap)};
  }
  auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(
      parameters, limits, std::vector<bool>(parameters.size(), false)));
  std::reverse(buckets.begin(), buckets.end());
  reducer_ = detail::make_reducer({.parameters = parameters,
                                   .buckets = std::move(buckets),
                                   .group = group_.c10d(),
                                   .bucket_bytes_cap = options_.bucket_bytes_cap,
                                   .first_bucket_bytes_cap = options_.first_bucket_bytes_cap,
                                   .find_unused_parameters = options_.find_unused_parameters,
                                   .gradient_as_bucket_view = options_.gradient_as_bucket_view});
}

void GradientSync::before_forward() {
  const bool training = c10::GradMode::is_enabled();
  try {
    if (training && sync_) reducer_->prepare_for_forward();
    if (training) reducer_->rebuild_buckets();
  } catch (const c10::Error& error) {
    explain(error);
  }
  if (buffers_due_ && options_.broadcast_buffers) broadcast(tensors_of(buffers_));
}

void GradientSync::after_forward(const std::vector<at::Tensor*>& outputs) {
  if (!c10::GradMode::is_enabled() || !sync_) {
    buffers_due_ = false;
    return;
  }
  buffers_due_ = true;
  std::vector<at::Tensor> roots;
  if (options_.find_unused_parameters) {
    torch::autograd::variable_list differentiable;
    for (const at::Tensor* output : outputs) {
      if (output->defined() && output->requires_grad()) differentiable.push_back(*output);
    }
    if (differentiable.empty()) {
      throw usage_error(
          {.refused = "find_unused_parameters",
           .rule =
               "forward returns at least one tensor that requires gradients, and that we can see",
           .hint = "for a result type of your own, overload for_each_tensor "
                   "(muster/parallel/tensors.h)"});
    }
    // As a TensorList: a vector would be taken for a constant, and the graph would silently end
    // here.
    differentiable = OutputMark::apply(at::TensorList(differentiable));
    size_t next = 0;
    for (at::Tensor* output : outputs) {
      if (output->defined() && output->requires_grad()) *output = differentiable[next++];
    }
    roots = differentiable;
  }
  try {
    reducer_->prepare_for_backward(roots);
  } catch (const c10::Error& error) {
    explain(error);
  }
}

void GradientSync::zero_grad() {
  for (auto& [name, parameter] : parameters_) parameter.mutable_grad() = at::Tensor();
}

void GradientSync::explain(const std::exception& error) const {
  const std::string text = error.what();
  constexpr std::string_view kList = "did not receive grad for rank";
  const size_t list = text.find(kList);
  if (list == std::string::npos) throw;
  // "…for rank 1: 4 5": indices into parameters_. The last line of c10d's text, stable since 1.9.
  const size_t from = text.find(':', list + kList.size());
  const std::string tail = text.substr(from + 1, text.find('\n', from) - from - 1);
  std::vector<std::string> names;
  for (const std::string& word : split(tail, ' ')) {
    const auto index = to_int(trim(word));
    if (index && *index >= 0 && static_cast<size_t>(*index) < parameters_.size())
      names.push_back(parameters_[*index].first);
  }
  throw usage_error(
      {.refused = concat("rank ",
                         group_.rank(),
                         ": ",
                         names.size(),
                         names.size() == 1 ? " parameter" : " parameters",
                         " got no gradient in the last step: ",
                         join(names, ", ")),
       .rule = "backward reaches every parameter in every step",
       .hint = "set find_unused_parameters, or let every output of forward take part in the loss; "
               "gradients of the last step are not averaged"});
}

}  // namespace muster::parallel
