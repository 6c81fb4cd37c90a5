#include "muster/train/replicas/sharded_optimizer.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::train {
namespace {

constexpr std::string_view kMaster = "master/";

}  // namespace

ShardedOptimizer::ShardedOptimizer(parallel::ZeroCore& core, const OptimizerMaker& make, double lr)
    : optim::Optimizer({}, lr), core_(core) {
  for (size_t b = 0; b < core.parameters().buckets(); ++b) {
    const parallel::NamedTensors& shard = core.parameters().shard(b);
    parts_.push_back(make(shard));
    for (const auto& [name, piece] : shard) bucket_of_[name] = b;
  }
}

void ShardedOptimizer::step() {
  core_.step_by_bucket([this](size_t bucket) {
    parts_[bucket]->set_lr(lr());
    parts_[bucket]->step();
  });
}

std::vector<at::Tensor> ShardedOptimizer::parameters() { return core_.gradient_holders(); }

void ShardedOptimizer::set_momentum(double momentum) {
  for (const auto& part : parts_) part->set_momentum(momentum);
}

tensor::NamedTensorList ShardedOptimizer::state() const {
  tensor::NamedTensorList all;
  for (const auto& part : parts_) {
    tensor::NamedTensorList own = part->state();
    all.insert(all.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  }
  tensor::NamedTensorList masters = core_.parameters().masters();
  all.insert(
      all.end(), std::make_move_iterator(masters.begin()), std::make_move_iterator(masters.end()));
  return all;
}

tensor::NamedTensorList ShardedOptimizer::gather_state() const {
  return core_.parameters().gather(state());
}

void ShardedOptimizer::load_state(const tensor::TensorFile& file) {
  const parallel::ShardedParameters& shards = core_.parameters();
  std::vector<tensor::NamedTensorList> own(parts_.size());
  std::map<std::string, at::Tensor, std::less<>> masters;
  for (const auto& [key, whole] : file.tensors) {
    const size_t slash = key.find('/');
    const std::string name = slash == key.npos ? key : key.substr(slash + 1);
    if (shards.has_masters() && key.starts_with(kMaster)) {
      masters[name] = whole;
      continue;
    }
    // A number for the whole parameter ("step") goes to every owner, unless the parameter is one
    // number itself.
    const bool is_number = whole.dim() == 0 && shards.parameter(name).dim() > 0;
    const at::Tensor piece = is_number ? whole : shards.piece_of(name, whole);
    const auto bucket = bucket_of_.find(name);
    if (bucket != bucket_of_.end()) own[bucket->second].emplace_back(key, piece);
  }
  for (size_t b = 0; b < parts_.size(); ++b) parts_[b]->load_state({std::move(own[b]), {}});
  shards.reload([&](const std::string& name) {
    const auto found = masters.find(name);
    return found == masters.end() ? at::Tensor() : found->second;
  });
}

}  // namespace muster::train
