// Whole tensors from shards and shards of whole tensors: what checkpoints need.
#include <algorithm>
#include <map>

#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/sharded/sharded_parameters.h"

namespace muster::parallel {
namespace {

/// What one rank holds of a state, as it tells the others.
struct Held {
  at::ScalarType dtype = at::kFloat;
  bool is_number = false;  // one for the parameter, instead of one per element
};
using HeldByName = std::map<std::string, Held, std::less<>>;

std::string state_text(const NamedTensors& state) {
  std::string text;
  for (const auto& [name, tensor] : state)
    text += concat(static_cast<int>(tensor.scalar_type()), ' ', tensor.dim(), ' ', name, '\n');
  return text;
}

HeldByName held_from(const std::string& text, std::vector<std::string>& kinds) {
  HeldByName held;
  for (const std::string& line : split(text, '\n')) {
    if (line.empty()) continue;
    const size_t dim = line.find(' ') + 1, name = line.find(' ', dim) + 1;
    const std::string full = line.substr(name), kind = full.substr(0, full.find('/'));
    held[full] = {.dtype = static_cast<at::ScalarType>(to_int(line.substr(0, dim - 1)).value_or(0)),
                  .is_number = line[dim] == '0'};
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  return held;
}

/// All know all names, so that all find the same fault, before one waits for what is never sent.
void require_all(bool is_number,
                 const std::string& key,
                 const std::vector<ShardPiece>& pieces,
                 const std::vector<HeldByName>& held) {
  for (size_t rank = 0; rank < held.size() && !is_number; ++rank) {
    if (pieces[rank].begin < pieces[rank].end && !held[rank].contains(key)) {
      throw internal_error({.refused = "state " + key,
                            .rule = "every rank that owns a piece of the parameter has it",
                            .value = concat("rank ", rank, " has not")});
    }
  }
}

/// Elements `begin` to `end` of a dense tensor, in the order of its memory.
at::Tensor flat_part(const at::Tensor& tensor, int64_t begin, int64_t end) {
  return at::as_strided(tensor, {end - begin}, {1}, tensor.storage_offset() + begin);
}

}  // namespace

const ShardedParameters::Place* ShardedParameters::place_of(const std::string& name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &found->second;
}

bool ShardedParameters::has(const std::string& name) const {
  return std::ranges::any_of(parameters_, [&](const auto& named) { return named.first == name; });
}

const at::Tensor& ShardedParameters::parameter(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& [known, tensor] : parameters_) {
    if (known == name) return tensor;
    names.push_back(known);
  }
  throw usage_error({.refused = "state of parameter " + name,
                     .rule = "the module has that parameter, and trains it",
                     .hint = suggestion(name, names)});
}

at::Tensor ShardedParameters::piece_of(const std::string& name, const at::Tensor& whole) const {
  const at::Tensor& parameter = this->parameter(name);
  if (whole.sizes() != parameter.sizes()) {
    throw usage_error({.refused = "state of parameter " + name,
                       .rule = concat("its shape is that of the parameter, ", parameter.sizes()),
                       .value = concat(whole.sizes())});
  }
  const Place* place = place_of(name);
  if (place == nullptr) return {};
  at::Tensor dense = whole;
  if (whole.strides() != parameter.strides()) {
    dense = at::empty_strided(parameter.sizes(), parameter.strides(), whole.options());
    dense.copy_(whole);
  }
  return flat_part(dense, place->piece.begin, place->piece.end);
}

at::Tensor ShardedParameters::collect(const std::string& name,
                                      const at::Tensor& own,
                                      at::ScalarType dtype,
                                      const std::vector<ShardPiece>& pieces) const {
  if (group_.rank() != 0) {
    if (own.defined()) {
      std::vector<at::Tensor> sent{own.contiguous().to(group_.host_device())};
      group_.c10d()->send(sent, 0, 0)->wait();
    }
    return {};
  }
  const at::Tensor& parameter = this->parameter(name);
  at::Tensor whole = at::empty_strided(
      parameter.sizes(), parameter.strides(), at::TensorOptions().dtype(dtype).device(at::kCPU));
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    const ShardPiece& piece = pieces[static_cast<size_t>(rank)];
    if (piece.begin == piece.end) continue;
    at::Tensor part = own;
    if (rank != 0) {
      std::vector<at::Tensor> received{
          at::empty({piece.end - piece.begin},
                    at::TensorOptions().dtype(dtype).device(group_.host_device()))};
      group_.c10d()->recv(received, rank, 0)->wait();
      part = received[0];
    }
    flat_part(whole, piece.begin, piece.end).copy_(part);
  }
  return whole;
}

at::Tensor ShardedParameters::collect_number(const at::Tensor& own,
                                             at::ScalarType dtype,
                                             int owner) const {
  if (owner == 0) return group_.rank() == 0 ? own.cpu() : at::Tensor();
  if (group_.rank() == owner) {
    std::vector<at::Tensor> sent{own.reshape({1}).to(group_.host_device())};
    group_.c10d()->send(sent, 0, 0)->wait();
  }
  if (group_.rank() != 0) return {};
  std::vector<at::Tensor> received{
      at::empty({1}, at::TensorOptions().dtype(dtype).device(group_.host_device()))};
  group_.c10d()->recv(received, owner, 0)->wait();
  return received[0].cpu().reshape({});
}

NamedTensors ShardedParameters::gather(const NamedTensors& state) const {
  const c10::NoGradGuard no_grad;
  std::map<std::string, at::Tensor, std::less<>> own(state.begin(), state.end());
  std::vector<std::string> kinds;
  std::vector<HeldByName> held;  // by rank
  for (const std::string& text : group_.all_gather_text(state_text(state)))
    held.push_back(held_from(text, kinds));
  NamedTensors out;
  for (const std::string& kind : kinds) {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const std::string& name = parameters_[i].first;
      const std::string key = concat(kind, '/', name);
      const std::vector<ShardPiece> pieces = pieces_of(i);
      int owner = -1;  // the first
      for (int rank = group_.world_size() - 1; rank >= 0; --rank) {
        if (held[static_cast<size_t>(rank)].contains(key)) owner = rank;
      }
      if (owner < 0) continue;
      const Held& what = held[static_cast<size_t>(owner)].at(key);
      require_all(what.is_number, key, pieces, held);
      const auto mine = own.find(key);
      const at::Tensor tensor = mine == own.end() ? at::Tensor() : mine->second;
      const at::Tensor whole = what.is_number ? collect_number(tensor, what.dtype, owner)
                                              : collect(name, tensor, what.dtype, pieces);
      if (whole.defined()) out.emplace_back(key, whole);
    }
  }
  return out;
}

std::vector<ShardPiece> ShardedParameters::pieces_of(size_t parameter) const {
  std::vector<ShardPiece> by_rank(static_cast<size_t>(group_.world_size()));
  for (const ShardBucket& bucket : layout_) {
    if (std::find(bucket.parameters.begin(), bucket.parameters.end(), parameter) ==
        bucket.parameters.end())
      continue;
    for (int rank = 0; rank < group_.world_size(); ++rank) {
      for (const ShardPiece& piece : bucket.pieces(rank, numels_)) {
        if (piece.parameter == parameter) by_rank[static_cast<size_t>(rank)] = piece;
      }
    }
  }
  return by_rank;
}

NamedTensors ShardedParameters::own_weights() const {
  NamedTensors out;
  for (const auto& [name, parameter] : parameters_) {
    const Place* place = place_of(name);
    if (place != nullptr) out.emplace_back(name, own_piece(place->bucket, place->piece));
  }
  return out;
}

void ShardedParameters::load_weight(const std::string& name, const at::Tensor& whole) const {
  const c10::NoGradGuard no_grad;
  const at::Tensor piece = piece_of(name, whole);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].first != name || !ties_[i].memory.defined()) continue;
    if (!shards_weights_ || is_gathered(bucket_of_[i])) at::Tensor(ties_[i].memory).copy_(whole);
  }
  const Place* place = place_of(name);
  if (place == nullptr) return;
  own_piece(place->bucket, place->piece).copy_(piece);
  take_into_master(name);
}

NamedTensors ShardedParameters::masters() const {
  NamedTensors out;
  if (!has_masters_) return out;
  for (const auto& [name, parameter] : parameters_) {
    const Place* place = place_of(name);
    if (place != nullptr && place->tensor.scalar_type() != parameter.scalar_type())
      out.emplace_back("master/" + name, place->tensor);
  }
  return out;
}

void ShardedParameters::reload(const std::function<at::Tensor(const std::string&)>& master) const {
  if (!has_masters_) return;
  const c10::NoGradGuard no_grad;
  for (const auto& [name, parameter] : parameters_) {
    const Place* place = place_of(name);
    if (place == nullptr || place->tensor.scalar_type() == parameter.scalar_type()) continue;
    const at::Tensor exact = master ? master(name) : at::Tensor();
    if (exact.defined() || !shards_weights_) {
      at::Tensor(place->tensor).copy_(piece_of(name, exact.defined() ? exact : parameter.detach()));
      continue;
    }
    at::Tensor(place->tensor).copy_(own_piece(place->bucket, place->piece));
  }
}

}  // namespace muster::parallel
