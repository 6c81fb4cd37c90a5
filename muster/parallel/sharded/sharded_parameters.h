// The parameters of a module as shards: each rank updates its own, and hands them to the others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "muster/distributed/process_group.h"
#include "muster/parallel/ddp/gradient_sync.h"
#include "muster/parallel/sharded/releasable_tensor.h"
#include "muster/parallel/sharded/shard_layout.h"

namespace muster::parallel {

struct ShardOptions {
  int64_t bucket_bytes = 25 << 20;  ///< of parameters that travel together
  /// Parameters of 16 bits (bfloat16, float16) get float32 copies of the rank's shard, which the
  /// optimizer updates and from which the parameters are rounded; without, it updates the
  /// parameters themselves and loses what 16 bits cannot hold.
  bool master_weights = true;
  /// Said: each rank keeps its chunks alone, and a bucket is whole between start_gather() and
  /// release(). It is the number, from 0, of the unit that a parameter belongs to: a unit's
  /// parameters (of one dtype and device) are a bucket, whatever bucket_bytes says.
  std::function<size_t(const at::Tensor&)> unit_of = {};
  /// Those that are not trained, instead of those that are; of floating point, without gaps.
  bool frozen = false;
  /// Where the buckets are; not said: where their parameters are.
  std::optional<c10::Device> device = {};
};

/// Whether it is one that ShardOptions::frozen means.
bool is_frozen_and_shardable(const at::Tensor& parameter);

/// The trained parameters of a module (or the others), each storage once, laid out by Note [Shards].
/// Used by the rank's own thread.
///
/// Construction moves the parameters' memory into one flat tensor per bucket (the parameters stay
/// the same tensors with the same values, shapes and strides) and makes every rank's those of rank
/// 0. Do it before anything else keeps the parameters' memory, DistributedDataParallel included.
/// Where weights are in shards, the flat tensors are released then; see Note [Released weights].
class ShardedParameters {
 public:
  /// Collective. The other `parameters` are left alone, but must be the same on all ranks. Throws a
  /// usage error, the same on every rank, if there is none to shard, if one that is trained has gaps
  /// or overlaps in memory, or if the ranks' parameters differ.
  ShardedParameters(const NamedTensors& parameters,
                    distributed::ProcessGroup group,
                    ShardOptions options = {});

  const distributed::ProcessGroup& group() const { return group_; }
  size_t buckets() const { return layout_.size(); }
  const ShardBucket& layout(size_t bucket) const { return layout_[bucket]; }
  /// All that are in shards, in the module's order: what ShardBucket::parameters counts.
  const NamedTensors& parameters() const { return parameters_; }

  /// Elements of each of parameters().
  const std::vector<int64_t>& numels() const { return numels_; }

  // Of weights in shards; where they are whole, and on one rank, these do nothing.

  bool shards_weights() const { return shards_weights_; }
  size_t unit(size_t bucket) const { return units_[bucket]; }
  /// Collective, in the same order on all ranks: the bucket's weights begin to come in.
  void start_gather(size_t bucket);
  /// They are there; before, whoever looks at them gets an error still. Throws what the transfer
  /// throws.
  void finish_gather(size_t bucket);
  /// The memory is free again, and whoever looks at its parameters gets an error. Values that were
  /// written to them meanwhile, alike on all ranks, become those of the shard.
  void release(size_t bucket);
  /// The values of a bucket that is gathered become those of the shard.
  void take_whole(size_t bucket);
  /// Whether they are there.
  bool is_gathered(size_t bucket) const { return weights_[bucket].is_there(); }
  /// What this rank holds of the bucket beside what its parameters show: its chunk, and memory that
  /// weights are on their way to.
  std::vector<at::Tensor> held(size_t bucket) const;

  /// What this rank updates of a bucket, under the parameters' names // each [piece], views of the
  /// parameters' memory or float32 masters. An optimizer over them must treat each element alone.
  const NamedTensors& shard(size_t bucket) const { return shards_[bucket]; }
  /// Of all buckets, in the module's order of parameters.
  NamedTensors shard() const;
  /// The same without the names, as torch::optim takes them; on a rank that has no piece a tensor
  /// of no elements, so that an optimizer has something to zero.
  std::vector<at::Tensor> shard_tensors() const;

  /// Gives the pieces of a bucket their gradients, as the optimizer wants them: `of(piece)` is the
  /// gradient // [piece] in any dtype, undefined if there is none. Takes them away again.
  using GradientOf = std::function<at::Tensor(const ShardPiece&)>;
  void set_gradients(size_t bucket, const GradientOf& of) const;
  void drop_gradients(size_t bucket) const;

  /// Before a forward and before the optimizer's step: weights that the module has been given since
  /// (copied in place, or with memory of their own as by torch::load()) become those of the shard,
  /// float32 copies included, and lie in the buckets again. Given alike on all ranks; of the dtype,
  /// device and shapes that they had. What is written through .data() is only seen where there are
  /// no float32 copies. About 20 ns for each parameter that has not changed.
  void take_weights();

  /// After the optimizer's step over shard(bucket): starts to send this rank's part to all others
  /// and to receive theirs; weights in shards are sent when they are gathered. Collective, in the
  /// same order on all ranks.
  void publish(size_t bucket);
  /// Until then the parameters are not to be used.
  void wait();

  bool has(const std::string& name) const;
  /// The parameter of that name. Throws a usage error with a suggestion.
  const at::Tensor& parameter(const std::string& name) const;

  // A state of one number per element (momenta, masters): whole or as pieces, under a parameter's
  // name.

  /// The piece of `whole` // shape of the parameter, that this rank owns // [piece], a view or a
  /// copy. Undefined if it owns none. Throws a usage error for another shape.
  at::Tensor piece_of(const std::string& name, const at::Tensor& whole) const;

  /// Collective: what every rank holds under its pieces' names, put together on rank 0, one tensor
  /// at a time. `state` has "kind/parameter" names: tensors of the piece's length // [piece], or
  /// numbers // [], the same on every owner. On rank 0 the answer has whole tensors on the CPU, in
  /// the shapes of the parameters, kind by kind, parameters in the module's order; elsewhere it is
  /// empty.
  NamedTensors gather(const NamedTensors& state) const;

  /// This rank's pieces of the parameters themselves // [piece], views, under their names.
  NamedTensors own_weights() const;
  /// The values `whole` // shape of the parameter, of any device, given alike on all ranks, become
  /// the parameter's. Throws a usage error for another shape, or no such parameter.
  void load_weight(const std::string& name, const at::Tensor& whole) const;

  /// The float32 copies, "master/parameter" // [piece]; empty if there are none.
  NamedTensors masters() const;
  /// The optimizer's parameters become the parameters' values again, after these were loaded.
  /// `master` gives the copy of a parameter // whole, by name; where it is undefined, the copy is
  /// the parameter's own value.
  void reload(const std::function<at::Tensor(const std::string&)>& master = {}) const;

  bool has_masters() const { return has_masters_; }

 private:
  struct Place {
    size_t bucket;
    ShardPiece piece;   // this rank's; empty if begin == end
    at::Tensor tensor;  // what the optimizer updates
  };

  /// A parameter's memory in its bucket.
  struct Tie {
    at::Tensor memory;
    int64_t version = 0;  // of the parameter, as of the values that the shard has
  };

  void verify(const NamedTensors& all) const;
  void move_into_buckets(std::optional<c10::Device> device);
  void make_shards(bool master_weights);
  void take_into_master(const std::string& name) const;
  at::Tensor own_piece(size_t bucket, const ShardPiece& piece) const;
  void take_moved(size_t parameter);
  void take_written(size_t bucket, bool all);
  const Place* place_of(const std::string& name) const;       // null: nothing of it is this rank's
  std::vector<ShardPiece> pieces_of(size_t parameter) const;  // by rank; empty where begin == end
  at::Tensor collect(const std::string& name,
                     const at::Tensor& own,
                     at::ScalarType dtype,
                     const std::vector<ShardPiece>& pieces) const;
  at::Tensor collect_number(const at::Tensor& own, at::ScalarType dtype, int owner) const;

  distributed::ProcessGroup group_;
  NamedTensors parameters_;
  std::vector<int64_t> numels_;
  std::vector<ShardBucket> layout_;
  std::vector<size_t> units_;       // by bucket
  std::vector<size_t> bucket_of_;   // by parameter
  std::vector<at::Tensor> flats_;   // [world_size * chunk] per bucket: all parameters
  std::vector<at::Tensor> chunks_;  // [chunk] per bucket: this rank's, within the flat one or not
  std::vector<ReleasableTensor> weights_;  // the flat ones, where weights are in shards
  struct Coming {
    c10::intrusive_ptr<c10d::Work> work;
    at::Tensor memory;
  };
  std::vector<Coming> coming_;        // by bucket; without work: none
  std::vector<Tie> ties_;             // by parameter; no memory for one without elements
  std::vector<NamedTensors> shards_;  // by bucket
  std::unordered_map<std::string, Place> places_;
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
  at::Tensor stand_in_;  // for the shard of a rank without pieces
  bool has_masters_ = false;
  bool shards_weights_ = false;
};

}  // namespace muster::parallel
