#include "muster/parallel/ddp/gradient_sync.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <unordered_set>

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/ddp/backward_guard.h"
#include "muster/parallel/ddp/bucket_tuner.h"
#include "muster/parallel/ddp/ddp_options.h"
#include "muster/parallel/ddp/direct_gradients.h"
#include "muster/parallel/ddp/hook_adapter.h"
#include "muster/parallel/ddp/reducer_shim.h"
#include "muster/parallel/module/accumulator_hooks.h"
#include "muster/parallel/module/desync_check.h"
#include "muster/parallel/module/missing_gradients.h"
#include "muster/parallel/module/module_agreement.h"
#include "muster/parallel/module/parameter_identity.h"

namespace muster::parallel {

namespace detail {
[[noreturn]] void refuse_no_module();  // of ddp.h
}

void detail::refuse_no_module() {
  throw usage_error({.refused = "wrapping a module",
                     .rule = "there is one",
                     .value = "a null pointer",
                     .hint = "make it first: std::make_shared<Net>()"});
}

namespace {

// As PyTorch: tensors are packed up to this size for a broadcast.
constexpr size_t kBroadcastBytes = 250 << 20;

/// Passes the outputs on unchanged, but keeps undefined gradients undefined on the way back.
/// Without it an output that the loss ignores would never reach its parameters' hooks, and the
/// reduction would wait for them. Copies, as PyTorch's: autograd forbids changes in place of a view
/// that a custom function returns.
struct OutputMark : torch::autograd::Function<OutputMark> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                at::TensorList outputs) {
    context->set_materialize_grads(false);
    torch::autograd::variable_list marked;
    for (const at::Tensor& output : outputs) marked.push_back(output.clone());
    return marked;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return gradients;
  }
};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Indices into `parameters` in the order in which the Reducer's buckets hold them.
std::vector<size_t> learned_order(const c10d::Reducer& reducer, const NamedTensors& parameters) {
  std::map<const void*, size_t> index;
  for (size_t i = 0; i < parameters.size(); ++i)
    index[parameters[i].second.unsafeGetTensorImpl()] = i;
  std::vector<size_t> order;
  for (const c10d::GradBucket& bucket : reducer.get_grad_buckets(false)) {
    for (const at::Tensor& parameter : bucket.getParameters())
      order.push_back(index.at(parameter.unsafeGetTensorImpl()));
  }
  return order;
}

}  // namespace

GradientSync::GradientSync(NamedTensors parameters,
                           NamedTensors buffers,
                           distributed::ProcessGroup group,
                           DdpOptions options)
    : group_(std::move(group)),
      options_(std::move(options)),
      identity_(std::make_unique<ParameterIdentity>(parameters)),
      guard_(std::make_shared<BackwardGuard>()),
      bucket_bytes_cap_(options_.bucket_bytes_cap) {
  check_ddp_options(options_, parameters, buffers);
  const std::shared_ptr<CommHook> hook = make_comm_hook(options_.comm_hook, group_);
  sort_parameters(std::move(parameters), std::move(buffers));
  if (options_.init_sync) {
    verify_same_module(ddp_options_text(options_), parameters_, frozen_, buffers_, group_);
    broadcast_state(0);
  }
  NamedTensors all = parameters_;
  all.insert(all.end(), frozen_.begin(), frozen_.end());
  desync_ = std::make_unique<DesyncCheck>(std::move(all), group_, options_.desync_check_steps);
  if (bucket_bytes_cap_ == kAutoBucketBytes) {
    int64_t bytes = 0;
    for (const auto& [name, parameter] : parameters_)
      bytes += static_cast<int64_t>(parameter.nbytes());
    tuner_ = std::make_unique<BucketTuner>(bytes);
    bucket_bytes_cap_ = tuner_->cap();
    if (tuner_->done()) tuner_.reset();
  }
  guard_->parameters = tensors_of(parameters_);
  expect_arrivals();
  direct_ = DirectGradients::make(parameters_, group_, options_);
  build_reducer({});
  register_comm_hook(hook);
}

GradientSync::~GradientSync() {
  guard_->gone = true;
  try {
    drop_reducer();
    // NOLINTNEXTLINE(bugprone-empty-catch): a destructor has nobody to tell
  } catch (const std::exception&) {
  }
}

/// Outputs of earlier forwards and the module, with its hooks into the Reducer, live on.
void GradientSync::drop_reducer() {
  guard_->reducer = nullptr;
  guard_->direct = nullptr;
  if (reducer_) reducer_->remove_autograd_hooks();
  guard_->logger.reset();
  reducer_.reset();
  paused_ = false;
}

void GradientSync::require_reducer() const {
  if (reducer_) return;
  throw usage_error({.refused = "a DistributedDataParallel whose buckets could not be made anew",
                     .rule = "an earlier error said why",
                     .hint = "make a new one, from a checkpoint"});
}

void GradientSync::sort_parameters(NamedTensors parameters, NamedTensors buffers) {
  // Tied weights are registered under several names and reduced once.
  std::unordered_set<const void*> seen;
  const auto is_kept = [&](const std::string& name, const at::Tensor& tensor) {
    return tensor.defined() && !contains(options_.parameters_to_ignore, name) &&
           seen.insert(tensor.unsafeGetTensorImpl()).second;
  };
  for (auto& [name, tensor] : parameters) {
    if (is_kept(name, tensor))
      (tensor.requires_grad() ? parameters_ : frozen_).emplace_back(name, tensor);
  }
  for (auto& [name, tensor] : buffers) {
    if (is_kept(name, tensor)) buffers_.emplace_back(name, tensor);
  }
  if (parameters_.empty()) {
    throw usage_error(
        {.refused = "DistributedDataParallel",
         .rule = "the module has at least one parameter that requires gradients",
         .hint = "a module without one needs no gradient averaging; call it as it is"});
  }
}

void GradientSync::broadcast(const std::vector<at::Tensor>& tensors, int root) const {
  if (tensors.empty() || group_.world_size() == 1) return;
  // A forward in inference mode would have tensors travel that other threads may not write to.
  const c10::InferenceMode no_inference(false);
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> detached;
  for (const at::Tensor& tensor : tensors) detached.push_back(tensor.detach());
  c10d::broadcast_coalesced(group_.c10d(), detached, kBroadcastBytes, root);
}

void GradientSync::broadcast_state(int root) const {
  std::vector<at::Tensor> state;
  for (const NamedTensors* part : {&parameters_, &frozen_, &buffers_}) {
    for (const auto& [name, tensor] : *part) state.push_back(tensor);
  }
  broadcast(state, root);
}

void GradientSync::build_reducer(const std::vector<size_t>& order) {
  std::vector<bool> sparse;
  for (const auto& [name, parameter] : bucketed())
    sparse.push_back(contains(options_.sparse_gradients, name));
  std::vector<at::Tensor> sorted = tensors_of(bucketed());
  const std::vector<at::Tensor> parameters = sorted;
  for (size_t i = 0; i < order.size(); ++i) sorted[i] = parameters[order[i]];
  // As PyTorch: unless unused parameters are searched for, one bucket takes everything in the first
  // step, whose order of gradients then decides the real buckets (rebuild_buckets).
  std::vector<size_t> limits{std::numeric_limits<size_t>::max()};
  if (!order.empty() || (options_.find_unused_parameters && !options_.static_graph)) {
    limits = {static_cast<size_t>(options_.first_bucket_bytes_cap),
              static_cast<size_t>(bucket_bytes_cap_)};
  }
  auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(
      sorted, limits, sparse, std::vector<int64_t>(order.begin(), order.end())));
  if (order.empty()) std::reverse(buckets.begin(), buckets.end());
  drop_reducer();
  reducer_ = detail::make_reducer({.parameters = parameters,
                                   .buckets = std::move(buckets),
                                   .group = group_.c10d(),
                                   .bucket_bytes_cap = bucket_bytes_cap_,
                                   .first_bucket_bytes_cap = options_.first_bucket_bytes_cap,
                                   .find_unused_parameters = options_.find_unused_parameters,
                                   .gradient_as_bucket_view = options_.gradient_as_bucket_view,
                                   .expect_sparse = std::move(sparse)});
  const auto logger = std::make_shared<c10d::Logger>(
      std::shared_ptr<c10d::Reducer>(reducer_.get(), [](c10d::Reducer*) {}));
  reducer_->set_logger(logger);
  guard_->logger = logger;
  if (options_.static_graph) reducer_->set_static_graph();
  if (hook_) reducer_->register_comm_hook(adapter_of(hook_));
  if (direct_) reducer_->register_comm_hook(direct_->bucket_hook());
  guard_->reducer = reducer_.get();
  guard_->direct = direct_.get();
  guard_->delay_all = options_.static_graph;
  identity_->record(parameters_, frozen_);
}

const NamedTensors& GradientSync::bucketed() const {
  return direct_ ? direct_->small() : parameters_;
}

BucketMemory GradientSync::bucket_memory() const {
  BucketMemory memory{.is_making = makes_buckets_};
  if (!reducer_) return memory;
  for (const auto& [name, parameter] : bucketed())
    memory.once += static_cast<int64_t>(parameter.nbytes());
  const bool are_made_anew = options_.static_graph || !options_.find_unused_parameters;
  memory.most_sets = are_made_anew ? 2 : 1;
  memory.sets = reducer_->should_rebuild_buckets() ? 1 : memory.most_sets;
  return memory;
}

void GradientSync::use_buckets_alone() {
  if (!direct_) return;
  drop_reducer();  // its communication hook is direct_'s
  direct_.reset();
  build_reducer({});
}

void GradientSync::tune_buckets() {
  if (!tuner_ || !tuner_->start_step(seconds_now(), group_)) return;
  bucket_bytes_cap_ = tuner_->cap();
  build_reducer(options_.find_unused_parameters ? std::vector<size_t>{}
                                                : learned_order(*reducer_, parameters_));
  if (tuner_->done()) tuner_.reset();
}

void GradientSync::prepare_reducer(bool training) {
  const bool unfinished = training && direct_ && direct_->unfinished();
  if (unfinished && direct_->has_buckets()) refuse_missing(direct_->missing());
  try {
    if (training && guard_->sync) reducer_->prepare_for_forward();
    makes_buckets_ = training;
    if (training) reducer_->rebuild_buckets();
    makes_buckets_ = false;
  } catch (const c10::Error& error) {
    explain(error);
  }
  if (!unfinished) return;
  // The Reducer does not complain: no small parameter got its gradient.
  std::vector<std::string> names = direct_->missing();
  for (const auto& [name, parameter] : bucketed()) names.push_back(name);
  refuse_missing(names);
}

void GradientSync::before_forward() {
  require_reducer();
  const bool training = c10::GradMode::is_enabled();
  if (training) identity_->check();
  if (join_) {
    announce_forward(training);
  } else if (training && guard_->sync) {
    tune_buckets();
    desync_->start_step();
  }
  prepare_reducer(training);
  if (buffers_due_ && options_.broadcast_buffers)
    broadcast(tensors_of(buffers_), join_ ? join_->authority : 0);
}

void GradientSync::after_forward(const std::vector<at::Tensor*>& outputs) {
  const bool training = c10::GradMode::is_enabled();
  buffers_due_ = training && guard_->sync;
  if (buffers_due_) {
    desync_->end_forward();
    std::vector<at::Tensor> roots;
    if (options_.find_unused_parameters && !options_.static_graph) mark_outputs(outputs, roots);
    try {
      reducer_->prepare_for_backward(roots);
    } catch (const c10::Error& error) {
      explain(error);
    }
    if (direct_) direct_->expect_backward();
    arrival_.assign(parameters_.size(), Arrival::kAwaited);
    for (const size_t index : reducer_->left_out()) arrival_[index] = Arrival::kLeftOut;
  }
  if (training) guard_->arm(outputs);
}

void GradientSync::mark_outputs(const std::vector<at::Tensor*>& outputs,
                                std::vector<at::Tensor>& roots) {
  for (const at::Tensor* output : outputs) {
    if (output->defined() && output->requires_grad()) roots.push_back(*output);
  }
  if (roots.empty()) {
    throw usage_error(
        {.refused = "find_unused_parameters",
         .rule = "forward returns at least one tensor that requires gradients, and that we can see",
         .hint = "for a result type of your own, overload for_each_tensor "
                 "(muster/parallel/module/tensors.h)"});
  }
  // As a TensorList: a vector would be taken for a constant, and the graph would silently end here.
  roots = OutputMark::apply(at::TensorList(roots));
  size_t next = 0;
  for (at::Tensor* output : outputs) {
    if (output->defined() && output->requires_grad()) *output = roots[next++];
  }
}

void GradientSync::zero_grad() {
  for (auto& [name, parameter] : parameters_) parameter.mutable_grad() = at::Tensor();
}

void GradientSync::register_comm_hook(std::shared_ptr<CommHook> hook) {
  if (!hook) return;
  if (hook_) {
    throw usage_error({.refused = "a second communication hook",
                       .rule = "DistributedDataParallel has one",
                       .hint = "leave DdpOptions::comm_hook at none to register your own"});
  }
  hook->bind(parameters_);
  use_buckets_alone();
  require_reducer();
  hook_ = std::make_shared<HookRun>(std::move(hook));
  reducer_->register_comm_hook(adapter_of(hook_));
}

void GradientSync::explain(const std::exception& error) const {
  const std::string text = error.what();
  constexpr std::string_view kList = "did not receive grad for rank";
  const size_t list = text.find(kList);
  if (list == std::string::npos) throw;
  // "…for rank 1: 4 5": indices into bucketed(). The last line of c10d's text, stable since 1.9.
  const size_t from = text.find(':', list + kList.size());
  const std::string tail = text.substr(from + 1, text.find('\n', from) - from - 1);
  std::vector<std::string> names;
  for (const std::string& word : split(tail, ' ')) {
    const auto index = to_int(trim(word));
    if (index && *index >= 0 && static_cast<size_t>(*index) < bucketed().size())
      names.push_back(bucketed()[*index].first);
  }
  if (direct_) {
    for (std::string& name : direct_->missing()) names.push_back(std::move(name));
  }
  refuse_missing(names);
}

void GradientSync::refuse_missing(const std::vector<std::string>& missing) const {
  std::vector<std::string> names;  // in the module's order
  for (const auto& [name, parameter] : parameters_) {
    if (contains(missing, name)) names.push_back(name);
  }
  throw missing_gradients(
      group_.rank(),
      names,
      "in the last step",
      "set find_unused_parameters (a program: --find-unused-parameters), or let "
      "every output of forward take part in the loss; gradients of the last step "
      "are not averaged");
}

}  // namespace muster::parallel
