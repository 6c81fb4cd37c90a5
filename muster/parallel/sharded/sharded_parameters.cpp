#include "muster/parallel/sharded/sharded_parameters.h"

#include <limits>
#include <map>
#include <sstream>
#include <tuple>
#include <unordered_set>

#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/single_tensor.h"
#include "muster/tensor/dtype_name.h"

namespace muster::parallel {
namespace {

bool has_16_bits(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kHalf;
}

/// Trained parameters, each storage once.
NamedTensors trained(const NamedTensors& parameters) {
  NamedTensors out;
  std::unordered_set<const void*> seen;  // tied weights are registered under several names
  for (const auto& [name, tensor] : parameters) {
    if (!tensor.requires_grad() || !seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
    if (!tensor.is_non_overlapping_and_dense()) {
      throw usage_error({.refused = "shards of parameter " + name,
                         .rule = "parameters are dense, without gaps or overlap",
                         .value = concat("strides ", tensor.strides())});
    }
    out.emplace_back(name, tensor);
  }
  if (out.empty()) {
    throw usage_error({.refused = "shards of a module",
                       .rule = "it has at least one parameter that requires gradients"});
  }
  return out;
}

/// The others, each storage once, as far as they can be cut.
NamedTensors untrained(const NamedTensors& parameters) {
  NamedTensors out;
  std::unordered_set<const void*> seen;
  for (const auto& [name, tensor] : parameters) {
    if (is_frozen_and_shardable(tensor) && seen.insert(tensor.unsafeGetTensorImpl()).second)
      out.emplace_back(name, tensor);
  }
  return out;
}

std::vector<ShardInput> inputs_of(const NamedTensors& parameters, const ShardOptions& options) {
  std::map<std::tuple<size_t, int, std::string>, int>
      kinds;  // unit, dtype and device, as they come
  std::vector<ShardInput> inputs;
  for (const auto& [name, tensor] : parameters) {
    const auto key = std::make_tuple(options.unit_of ? options.unit_of(tensor) : 0,
                                     static_cast<int>(tensor.scalar_type()),
                                     options.device.value_or(tensor.device()).str());
    const int kind = kinds.emplace(key, static_cast<int>(kinds.size())).first->second;
    inputs.push_back({tensor.numel(), tensor.element_size(), kind});
  }
  return inputs;
}

/// What those hear that look at weights that are not there.
std::string text_of_released(const std::string& first) {
  return usage_error(
             {.refused = concat("weights in shards: parameter ", first, ", or one of its unit"),
              .rule = "they are whole while their unit runs, and in its backward",
              .hint = "run the model by zero->forward(), call each unit by "
                      "tensor::call_unit() with its name, and keep zero.whole_weights() "
                      "to look at weights between steps"})
      .what();
}

}  // namespace

bool is_frozen_and_shardable(const at::Tensor& parameter) {
  return !parameter.requires_grad() && parameter.is_floating_point() &&
         parameter.is_non_overlapping_and_dense() && parameter.numel() > 0;
}

ShardedParameters::ShardedParameters(const NamedTensors& parameters,
                                     distributed::ProcessGroup group,
                                     ShardOptions options)
    : group_(std::move(group)),
      parameters_(options.frozen ? untrained(parameters) : trained(parameters)) {
  if (options.bucket_bytes < 1) {
    throw usage_error({.refused = "ZeroOptions: bucket_bytes",
                       .rule = "at least 1",
                       .value = std::to_string(options.bucket_bytes)});
  }
  verify(parameters);
  for (const auto& [name, tensor] : parameters_) numels_.push_back(tensor.numel());
  layout_ =
      lay_out_shards(inputs_of(parameters_, options),
                     group_.world_size(),
                     options.unit_of ? std::numeric_limits<int64_t>::max() : options.bucket_bytes);
  for (const ShardBucket& bucket : layout_)
    units_.push_back(options.unit_of ? options.unit_of(parameters_[bucket.parameters[0]].second)
                                     : 0);
  shards_weights_ = options.unit_of && group_.world_size() > 1;
  const c10::NoGradGuard no_grad;
  move_into_buckets(options.device);
  make_shards(options.master_weights);
}

void ShardedParameters::verify(const NamedTensors& all) const {
  std::ostringstream text;
  for (const auto& [name, tensor] : all)
    text << name << ' ' << tensor::dtype_name(tensor.scalar_type()) << tensor.sizes()
         << (tensor.requires_grad() ? "" : " fixed") << '\n';
  const std::vector<std::string> texts = group_.all_gather_text(text.str());
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const std::vector<std::string> ours = split(texts[0], '\n'), theirs = split(texts[rank], '\n');
    size_t line = 0;  // both end in an empty line, so one of them differs before its end
    while (ours[line] == theirs[line]) ++line;
    throw usage_error({.refused = "the ranks' modules differ",
                       .rule = "all ranks shard the same parameters, registered in the same order",
                       .value = concat("rank 0 has parameter ",
                                       ours[line].empty() ? "nothing more" : ours[line],
                                       "; rank ",
                                       rank,
                                       " has parameter ",
                                       theirs[line].empty() ? "nothing more" : theirs[line])});
  }
}

void ShardedParameters::move_into_buckets(std::optional<c10::Device> device) {
  ties_.resize(parameters_.size());
  bucket_of_.resize(parameters_.size());
  for (const ShardBucket& bucket : layout_) {
    const at::Tensor& first = parameters_[bucket.parameters[0]].second;
    const at::Tensor flat =
        at::zeros({bucket.chunk * group_.world_size()},
                  first.options().requires_grad(false).device(device.value_or(first.device())));
    for (size_t i = 0; i < bucket.parameters.size(); ++i) {
      at::Tensor parameter = parameters_[bucket.parameters[i]].second;
      const at::Tensor place =
          at::as_strided(flat, parameter.sizes(), parameter.strides(), bucket.offsets[i]);
      place.copy_(parameter.detach());
      parameter.set_data(place);
      bucket_of_[bucket.parameters[i]] = flats_.size();
      ties_[bucket.parameters[i]] = {.memory = place, .version = parameter._version()};
    }
    if (group_.world_size() > 1) group_.broadcast(flat);
    flats_.push_back(flat);
    const at::Tensor own = flat.narrow(0, group_.rank() * bucket.chunk, bucket.chunk);
    chunks_.push_back(shards_weights_ ? own.clone() : own);
    weights_.emplace_back();
    if (!shards_weights_) continue;
    weights_.back() =
        ReleasableTensor(flat, text_of_released(parameters_[bucket.parameters[0]].first));
    weights_.back().release();
  }
  coming_.resize(layout_.size());
}

void ShardedParameters::make_shards(bool master_weights) {
  for (size_t b = 0; b < layout_.size(); ++b) {
    at::Tensor chunk = chunks_[b];
    if (master_weights && has_16_bits(chunk)) {
      chunk = chunk.to(at::kFloat);
      has_masters_ = true;
    }
    NamedTensors& shard = shards_.emplace_back();
    for (const ShardPiece& piece : layout_[b].pieces(group_.rank(), numels_)) {
      const std::string& name = parameters_[piece.parameter].first;
      shard.emplace_back(name, chunk.narrow(0, piece.offset, piece.end - piece.begin));
      places_[name] = {.bucket = b, .piece = piece, .tensor = shard.back().second};
    }
  }
  stand_in_ = chunks_[0].narrow(0, 0, 0);
}

void ShardedParameters::take_weights() {
  const c10::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor parameter = parameters_[i].second;
    Tie& tie = ties_[i];
    if (!tie.memory.defined()) continue;
    const bool moved =
        parameter.storage().unsafeGetStorageImpl() != tie.memory.storage().unsafeGetStorageImpl() ||
        parameter.storage_offset() != tie.memory.storage_offset() ||
        parameter.strides() != tie.memory.strides();
    if (!moved && (shards_weights_ || parameter._version() == tie.version)) continue;
    if (moved) take_moved(i);
    tie.version = parameter._version();
    take_into_master(parameters_[i].first);
  }
  for (size_t b = 0; b < layout_.size(); ++b) take_written(b, /*all=*/false);
}

/// In this rank's chunk: a view.
at::Tensor ShardedParameters::own_piece(size_t bucket, const ShardPiece& piece) const {
  return chunks_[bucket].narrow(0, piece.offset, piece.end - piece.begin);
}

/// A parameter with memory of its own gets its place in the bucket again.
void ShardedParameters::take_moved(size_t i) {
  const auto& [name, tensor] = parameters_[i];
  at::Tensor parameter = tensor;
  const at::Tensor given = parameter.detach();
  const Place* place = place_of(name);
  if (shards_weights_ && place != nullptr) {
    own_piece(place->bucket, place->piece).copy_(piece_of(name, given));
  }
  const bool is_there = !shards_weights_ || is_gathered(bucket_of_[i]);
  if (is_there) ties_[i].memory.copy_(given);
  parameter.set_data(ties_[i].memory);
}

void ShardedParameters::take_whole(size_t bucket) {
  const c10::NoGradGuard no_grad;
  take_written(bucket, /*all=*/true);
}

/// What was written to gathered weights, as far as their versions tell, or all of them.
void ShardedParameters::take_written(size_t bucket, bool all) {
  if (!shards_weights_ || !is_gathered(bucket)) return;
  for (const ShardPiece& piece : layout_[bucket].pieces(group_.rank(), numels_)) {
    const auto& [name, parameter] = parameters_[piece.parameter];
    Tie& tie = ties_[piece.parameter];
    if (!all && parameter._version() == tie.version) continue;
    tie.version = parameter._version();
    const int64_t begin = group_.rank() * layout_[bucket].chunk + piece.offset;
    own_piece(bucket, piece).copy_(flats_[bucket].narrow(0, begin, piece.end - piece.begin));
    take_into_master(name);
  }
}

void ShardedParameters::start_gather(size_t bucket) {
  if (!shards_weights_ || is_gathered(bucket) || coming_[bucket].work) return;
  const c10::NoGradGuard no_grad;
  const at::Tensor memory = weights_[bucket].fresh();
  auto work = distributed::detail::all_gather_single(*group_.c10d(), memory, chunks_[bucket]);
  coming_[bucket] = {.work = std::move(work), .memory = memory};
}

void ShardedParameters::finish_gather(size_t bucket) {
  Coming coming = std::exchange(coming_[bucket], {});
  if (!coming.work) return;
  coming.work->wait();
  weights_[bucket].put_back(std::move(coming.memory));
}

std::vector<at::Tensor> ShardedParameters::held(size_t bucket) const {
  if (!shards_weights_) return {};
  std::vector<at::Tensor> all{chunks_[bucket]};
  if (coming_[bucket].memory.defined()) all.push_back(coming_[bucket].memory);
  return all;
}

void ShardedParameters::release(size_t bucket) {
  if (!shards_weights_) return;
  const c10::NoGradGuard no_grad;
  finish_gather(bucket);  // it is under way, and writes to its memory
  if (!is_gathered(bucket)) return;
  take_written(bucket, /*all=*/false);
  weights_[bucket].release();
}

/// A master that rounds to what its parameter is stays: it may come from a checkpoint, and be more
/// exact.
void ShardedParameters::take_into_master(const std::string& name) const {
  const auto place = places_.find(name);
  if (place == places_.end()) return;
  const auto& [bucket, piece, master] = place->second;
  if (master.scalar_type() == flats_[bucket].scalar_type()) return;
  const at::Tensor own = own_piece(bucket, piece);
  const at::Tensor same = master.to(own.scalar_type()).eq(own);
  at::Tensor(master).copy_(at::where(same, master, own.to(master.scalar_type())));
}

NamedTensors ShardedParameters::shard() const {
  NamedTensors all;
  for (const auto& [name, parameter] : parameters_) {
    const auto place = places_.find(name);
    if (place != places_.end()) all.emplace_back(name, place->second.tensor);
  }
  return all;
}

std::vector<at::Tensor> ShardedParameters::shard_tensors() const {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : shard()) tensors.push_back(tensor);
  if (tensors.empty()) tensors.push_back(stand_in_);
  return tensors;
}

void ShardedParameters::set_gradients(size_t bucket, const GradientOf& of) const {
  for (const auto& [name, tensor] : shards_[bucket]) {
    const at::Tensor gradient = of(places_.at(name).piece);
    // Where masters are: float32 copies of one bucket's gradients, for the time of its step.
    at::Tensor(tensor).mutable_grad() =
        gradient.defined() ? gradient.to(tensor.scalar_type()) : at::Tensor();
  }
}

void ShardedParameters::drop_gradients(size_t bucket) const {
  for (const auto& [name, tensor] : shards_[bucket])
    at::Tensor(tensor).mutable_grad() = at::Tensor();
}

void ShardedParameters::publish(size_t bucket) {
  const c10::NoGradGuard no_grad;
  if (has_masters_ && has_16_bits(flats_[bucket])) {
    const at::Tensor chunk = chunks_[bucket];
    for (const auto& [name, master] : shards_[bucket]) {
      const ShardPiece& piece = places_.at(name).piece;
      chunk.narrow(0, piece.offset, piece.end - piece.begin).copy_(master);
    }
  }
  if (group_.world_size() == 1 || shards_weights_) return;
  works_.push_back(
      distributed::detail::all_gather_single(*group_.c10d(), flats_[bucket], chunks_[bucket]));
}

void ShardedParameters::wait() {
  const auto works = std::exchange(works_, {});
  for (const auto& work : works) work->wait();
}

}  // namespace muster::parallel
