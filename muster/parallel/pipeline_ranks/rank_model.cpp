#include "muster/parallel/pipeline_ranks/rank_model.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>
#include <c10/util/ArrayRef.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/meet/backend.h"
#include "muster/parallel/module/module_agreement.h"
#include "muster/parallel/pipeline/pipeline_checks.h"
#include "muster/parallel/pipeline_ranks/step_verdict.h"

namespace muster::parallel {
namespace {

/// What else than the module must be the same on all ranks, in lines.
std::string words_of(const DistributedPipelineOptions& options,
                     const std::vector<Block>& blocks,
                     const pipeline::Split& first_block) {
  std::string text = concat("schedule ", options.schedule, "\n");
  text += concat("first blocks ", at::IntArrayRef(first_block), "\n");
  for (size_t i = 0; i < blocks.size(); ++i) text += concat("block ", i, " ", blocks[i].name, "\n");
  text += concat("micro-batches ", options.micro_batches, "\n");
  text +=
      concat("a loss that is a ", options.reduction == LossReduction::kMean ? "mean" : "sum", "\n");
  for (size_t i = 0; i < options.checkpointed.size(); ++i)
    if (options.checkpointed[i]) text += concat("checkpointed block ", i, "\n");
  for (size_t i = 0; i < options.offloaded.size(); ++i)
    if (options.offloaded[i]) text += concat("offloaded stage ", i, "\n");
  for (const TiedParameter& tied : options.tied)
    text += concat("tied ", tied.follower, " to ", tied.owner, "\n");
  if (options.gathers_timeline) text += "a gathered timeline\n";
  return text;
}

}  // namespace

PipelineGroups::PipelineGroups(const distributed::DeviceMesh& mesh,
                               const DistributedPipelineOptions& options)
    : ranks(mesh.group(options.pipeline_axis)), everyone(ranks) {
  bool has_replicas = false;
  for (const distributed::MeshAxis& axis : mesh.axes()) {
    if (axis.size == 1 || axis.name == options.pipeline_axis) continue;
    has_replicas = axis.name == options.data_axis;
    if (!has_replicas)
      throw usage_error(
          {.refused = "a mesh of a pipeline",
           .rule = concat("its axes are ",
                          options.pipeline_axis,
                          " (pipeline_axis) and, for replicas, ",
                          options.data_axis,
                          " (data_axis)"),
           .value = axis.name,
           .hint = "name its axis in the options, or give the group of one pipeline"});
  }
  if (!has_replicas) return;
  replicas = mesh.group(options.data_axis);
  everyone = mesh.group_over({options.data_axis, options.pipeline_axis});
}

RankModel::RankModel(std::vector<Block> all_blocks,
                     PipelineGroups their_groups,
                     const DistributedPipelineOptions& options)
    : blocks(std::move(all_blocks)),
      groups(std::move(their_groups)),
      ranks(groups.ranks),
      device(options.device.value_or(ranks.device())),
      post(ranks, options.timeout) {
  std::optional<RankFailure> failure;
  try {
    cut_here(options);
  } catch (...) {
    failure = failure_now();
  }
  // A number that no other pipeline over these ranks has: the first rank's.
  std::random_device random;
  const int64_t drawn = static_cast<int64_t>(uint64_t{random()} << 32 | random());
  const auto all = agree(groups.everyone, "the pipeline was not made", {drawn}, failure);
  post.begin_series(all[0][0]);
  agree_on_model(options);
  for (const int64_t number : mine)
    for (const Block& block : stage(number).blocks()) move_to(block, device);
  begin_alike();
}

void RankModel::cut_here(const DistributedPipelineOptions& options) {
  const auto refuse_below_0 = [](const char* name, std::chrono::milliseconds timeout) {
    if (timeout >= std::chrono::milliseconds(0)) return;
    throw usage_error({.refused = concat("DistributedPipelineOptions::", name),
                       .rule = "0, the group's, or more",
                       .value = concat(timeout.count(), " ms")});
  };
  refuse_below_0("timeout", options.timeout);
  refuse_below_0("stall_timeout", options.stall_timeout);
  first_block = split_of(options.first_block, blocks.size());
  lists.emplace(
      options.schedule,
      std::ssize(first_block),
      ranks.world_size(),
      ranks.backend_entry().sends_wait ? pipeline::Sends::kRendezvous : pipeline::Sends::kBuffered);
  placement = lists->of(options.micro_batches).placement;
  mine = placement.stages_of(ranks.rank());
  const std::vector<StagePlace> places(first_block.size(), {device, false});
  stages = cut(blocks, first_block, options.checkpointed, places, options.offloaded);
  NamedTensors all;
  std::vector<int> rank_of;
  for (int64_t stage = 0; stage < std::ssize(stages); ++stage) {
    for (const auto& entry : stages[static_cast<size_t>(stage)].parameters()) {
      all.push_back(entry);
      rank_of.push_back(static_cast<int>(placement.rank_of(stage)));
    }
  }
  tied.emplace(options.tied, all);
  const auto rank_of_parameter = [&](const at::Tensor& parameter) {
    const auto found = std::find_if(
        all.begin(), all.end(), [&](const auto& entry) { return entry.second.is_same(parameter); });
    return rank_of[static_cast<size_t>(found - all.begin())];
  };
  for (const auto& [follower, owner] : tied->pairs())
    pairs.push_back({follower, owner, rank_of_parameter(follower), rank_of_parameter(owner)});
}

void RankModel::agree_on_model(const DistributedPipelineOptions& options) {
  NamedTensors trained, frozen, buffers;
  for (const Stage& stage : stages) {
    for (const auto& entry : stage.parameters())
      (entry.second.requires_grad() ? trained : frozen).push_back(entry);
    for (const auto& entry : stage.buffers()) buffers.push_back(entry);
  }
  verify_same_module(
      words_of(options, blocks, first_block), trained, frozen, buffers, groups.everyone);
}

/// Replicas have what replica 0 has; tied followers what their owners have.
void RankModel::begin_alike() {
  const at::NoGradGuard no_grad;
  if (groups.replicas) {
    std::vector<distributed::Work> works;
    for (const int64_t stage : mine) {
      const Stage& here = stages[static_cast<size_t>(stage)];
      for (const NamedTensors& part : {here.parameters(), here.buffers()})
        for (const auto& [name, tensor] : part)
          works.push_back(groups.replicas->broadcast_async(tensor.detach()));
    }
    for (const distributed::Work& work : works) work.wait();
  }
  tied_letters().copy_values();
}

std::vector<std::pair<int64_t, Tensors>> RankModel::trained() const {
  std::vector<std::pair<int64_t, Tensors>> found;
  for (const int64_t stage : mine) {
    Tensors tensors;
    for (const auto& [name, tensor] : stages[static_cast<size_t>(stage)].parameters())
      if (tensor.requires_grad()) tensors.push_back(tensor);
    found.emplace_back(stage, std::move(tensors));
  }
  return found;
}

void RankModel::drop_gradients() {
  for (const int64_t number : mine) {
    Stage& stage = stages[static_cast<size_t>(number)];
    stage.begin(0, false);
    for (const auto& [name, tensor] : stage.parameters()) tensor.mutable_grad() = at::Tensor();
  }
}

NamedTensors RankModel::named_parameters() const {
  NamedTensors found;
  for (const int64_t number : mine)
    for (const auto& entry : stage(number).parameters())
      if (!tied->is_follower(entry.second)) found.push_back(entry);
  return found;
}

NamedTensors RankModel::named_buffers() const {
  NamedTensors found;
  for (const int64_t number : mine)
    for (const auto& entry : stage(number).buffers()) found.push_back(entry);
  return found;
}

double RankModel::clip_grad_norm(double max_norm) {
  if (!(max_norm >= 0))
    throw usage_error({.refused = "the largest norm of gradients",
                       .rule = "it is 0 or more",
                       .value = concat(max_norm)});
  const at::NoGradGuard no_grad;
  Tensors gradients;
  at::Tensor squares = at::zeros({}, at::device(device).dtype(at::kDouble));
  for (const auto& [name, parameter] : named_parameters()) {
    if (!parameter.grad().defined()) continue;
    gradients.push_back(parameter.grad());
    squares += at::linalg_vector_norm(parameter.grad(), 2, {}, false, at::kDouble).square();
  }
  squares = squares.to(ranks.device());
  ranks.all_reduce(squares);
  const double norm = std::sqrt(squares.item<double>());
  const double scale = max_norm / (norm + 1e-6);
  if (!(scale >= 1))  // also where the norm is no number: nobody steps by such gradients unseen
    for (at::Tensor& gradient : gradients) gradient.mul_(scale);
  return norm;
}

void RankModel::gather(int root) {
  const at::NoGradGuard no_grad;
  for (int64_t number = 0; number < placement.stages(); ++number) {
    const int owner = static_cast<int>(placement.rank_of(number));
    const int tag = static_cast<int>(2 * number);
    if (owner == root || (ranks.rank() != owner && ranks.rank() != root)) continue;
    const Stage& here = stage(number);
    Tensors all;
    for (const NamedTensors& part : {here.parameters(), here.buffers()})
      for (const auto& [name, tensor] : part) all.push_back(tensor.detach());
    if (ranks.rank() == owner) {
      for (at::Tensor& tensor : all) tensor = tensor.to(ranks.host_device());
      post.send(root, tag, {all, {}});
      continue;
    }
    post.await(owner, tag);
    const Tensors theirs = post.receive(owner, tag, at::kCPU).tensors;
    for (size_t i = 0; i < all.size(); ++i) all[i].copy_(theirs.at(i));
  }
  if (ranks.rank() == root) tied->copy_values();
}

}  // namespace muster::parallel
