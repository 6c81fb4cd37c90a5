// What a rank of a distributed pipeline has of the model.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "muster/distributed/process_group.h"
#include "muster/parallel/pipeline/cut.h"
#include "muster/parallel/pipeline/stage.h"
#include "muster/parallel/pipeline/tied_parameters.h"
#include "muster/parallel/pipeline_ranks/distributed_pipeline.h"
#include "muster/parallel/pipeline_ranks/tensor_post.h"
#include "muster/parallel/pipeline_ranks/tied_letters.h"

namespace muster::parallel {

/// The ranks that one has to do with.
struct PipelineGroups {
  distributed::ProcessGroup ranks;  ///< of one pipeline: rank r has the schedule's rank r
  std::optional<distributed::ProcessGroup> replicas;  ///< the same stages, in other pipelines
  distributed::ProcessGroup everyone;                 ///< of all pipelines

  explicit PipelineGroups(const distributed::ProcessGroup& group) : ranks(group), everyone(group) {}
  /// Collective over the mesh.
  PipelineGroups(const distributed::DeviceMesh& mesh, const DistributedPipelineOptions& options);

  std::vector<distributed::ProcessGroup> all() const {
    std::vector<distributed::ProcessGroup> groups{ranks, everyone};
    if (replicas) groups.push_back(*replicas);
    return groups;
  }
};

struct RankModel {
  /// Collective over everyone; what DistributedPipeline's constructor says.
  RankModel(std::vector<Block> all_blocks,
            PipelineGroups their_groups,
            const DistributedPipelineOptions& options);

  bool is_first() const { return placement.rank_of(0) == ranks.rank(); }
  bool is_last() const { return placement.rank_of(placement.stages() - 1) == ranks.rank(); }
  Stage& stage(int64_t number) { return stages[static_cast<size_t>(number)]; }
  const Stage& stage(int64_t number) const { return stages[static_cast<size_t>(number)]; }
  /// Of each of this rank's stages, the parameters that need gradients.
  std::vector<std::pair<int64_t, Tensors>> trained() const;
  /// Of this rank, without tied followers.
  NamedTensors named_parameters() const;
  NamedTensors named_buffers() const;
  void drop_gradients();
  // As DistributedPipeline has them; the post has begun a step for the second.
  double clip_grad_norm(double max_norm);
  void gather(int root);
  /// Of a step.
  TiedLetters tied_letters() {
    return {post, pairs, ranks.rank(), static_cast<int>(2 * placement.stages())};
  }

  std::vector<Block> blocks;
  PipelineGroups groups;
  distributed::ProcessGroup ranks;  // groups.ranks
  c10::Device device;
  pipeline::Split first_block;
  pipeline::Placement placement;
  std::optional<StepLists> lists;
  std::vector<Stage> stages;  // all; only this rank's are on its device
  std::vector<int64_t> mine;
  std::optional<TiedParameters> tied;
  std::vector<TiedLetters::Pair> pairs;
  TensorPost post;

 private:
  void cut_here(const DistributedPipelineOptions& options);
  void agree_on_model(const DistributedPipelineOptions& options);
  void begin_alike();
};

}  // namespace muster::parallel
