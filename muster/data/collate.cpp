#include "muster/data/collate.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/batch_memory.h"
#include "muster/tensor/dtype_name.h"

namespace muster::data {
namespace {

using How = CollateRule::How;

/// The samples' tensors at one place of their lists.
std::vector<at::Tensor> column_of(const std::vector<Sample>& samples, size_t at) {
  std::vector<at::Tensor> column;
  column.reserve(samples.size());
  const std::string& name = samples[0].tensors[at].first;
  for (const Sample& sample : samples) {
    if (sample.tensors.size() != samples[0].tensors.size() || sample.tensors[at].first != name) {
      std::vector<std::string> first, other;
      for (const auto& [own, tensor] : samples[0].tensors) first.push_back(own);
      for (const auto& [own, tensor] : sample.tensors) other.push_back(own);
      throw usage_error({.refused = "samples of a batch",
                         .rule = "they have the same tensors in the same order",
                         .value = concat("sample ",
                                         samples[0].index,
                                         " has ",
                                         join(first, ", "),
                                         "; sample ",
                                         sample.index,
                                         " has ",
                                         join(other, ", "))});
    }
    column.push_back(sample.tensors[at].second);
  }
  return column;
}

/// `from`: the first dimension in which the samples may not differ.
void check_alike(const std::vector<Sample>& samples,
                 const std::vector<at::Tensor>& column,
                 const std::string& name,
                 size_t from) {
  const auto shape = [&](const at::Tensor& tensor) {
    return tensor.sizes().slice(std::min(from, static_cast<size_t>(tensor.dim())));
  };
  for (size_t i = 0; i < column.size(); ++i) {
    const bool has_rows = column[i].dim() >= static_cast<int64_t>(from);
    if (has_rows && column[i].dtype() == column[0].dtype() && shape(column[i]) == shape(column[0]))
      continue;
    const auto described = [&](size_t sample) {
      return concat("sample ",
                    samples[sample].index,
                    ": ",
                    tensor::dtype_name(column[sample].scalar_type()),
                    ' ',
                    column[sample].sizes());
    };
    throw usage_error(
        {.refused = concat("the tensor \"", name, "\" of a batch"),
         .rule = from == 0
                     ? "all samples have one dtype and shape"
                     : "all samples have one dtype and, behind the first dimension, one shape",
         .value = i == 0 ? described(0) : concat(described(0), "; ", described(i)),
         .hint =
             from == 0 ? "a Collate pads samples of unlike lengths, or keeps them ragged" : ""});
  }
}

at::Tensor lengths_of(const std::vector<at::Tensor>& column) {
  std::vector<int64_t> lengths;
  for (const at::Tensor& tensor : column) lengths.push_back(tensor.size(0));
  return at::tensor(lengths, at::kLong);
}

/// Side by side, in memory for a batch's tensor where that can be.
at::Tensor stacked(const std::vector<at::Tensor>& column) {
  const bool is_plain = std::ranges::all_of(column, [](const at::Tensor& tensor) {
    return tensor.layout() == at::kStrided && tensor.is_cpu() && !tensor.requires_grad();
  });
  if (!is_plain) return at::stack(column);
  std::vector<int64_t> shape = column[0].sizes().vec();
  shape.insert(shape.begin(), static_cast<int64_t>(column.size()));
  at::Tensor out = batch_tensor(shape, column[0].scalar_type(), /*pinned=*/false);
  at::stack_out(out, column);
  return out;
}

at::Tensor padded(const std::vector<at::Tensor>& column, const CollateRule& rule) {
  int64_t longest = 0;
  for (const at::Tensor& tensor : column) longest = std::max(longest, tensor.size(0));
  longest = (longest + rule.multiple_of - 1) / rule.multiple_of * rule.multiple_of;
  std::vector<int64_t> shape = column[0].sizes().vec();
  shape[0] = longest;
  shape.insert(shape.begin(), static_cast<int64_t>(column.size()));
  at::Tensor out = at::full(shape, rule.value, column[0].options());
  for (size_t i = 0; i < column.size(); ++i)
    out.select(0, static_cast<int64_t>(i)).narrow(0, 0, column[i].size(0)).copy_(column[i]);
  return out;
}

void add_padded(Batch& batch, const std::vector<at::Tensor>& column, const CollateRule& rule) {
  at::Tensor out = padded(column, rule);
  const at::Tensor lengths = lengths_of(column);
  const int64_t longest = out.size(1);
  batch.tensors.emplace_back(rule.tensor, std::move(out));
  if (!rule.mask.empty())
    batch.tensors.emplace_back(rule.mask,
                               at::arange(longest).unsqueeze(0).lt(lengths.unsqueeze(1)));
  if (!rule.length.empty()) batch.tensors.emplace_back(rule.length, lengths);
}

void add_ragged(Batch& batch, const std::vector<at::Tensor>& column, const CollateRule& rule) {
  batch.tensors.emplace_back(rule.tensor, at::cat(column));
  batch.tensors.emplace_back(rule.length.empty() ? rule.tensor + "_length" : rule.length,
                             lengths_of(column));
}

/// A dataset whose batches are made by another collate.
class Collated final : public Dataset {
 public:
  Collated(std::shared_ptr<const Dataset> source, Collate collate)
      : source_(std::move(source)), collate_(std::move(collate)) {}

  int64_t size() const override { return source_->size(); }
  DataSpec spec() const override { return source_->spec(); }
  uint32_t fingerprint() const override { return source_->fingerprint(); }
  at::Tensor targets() const override { return source_->targets(); }
  std::shared_ptr<const Sampler> own_sampler(const EpochShare& share) const override {
    return source_->own_sampler(share);
  }
  bool is_by_sample() const override { return true; }
  Batch collate(const std::vector<Sample>& samples) const override { return collate_(samples); }

 private:
  Batch load(std::span<const int64_t> indices, const SampleContext& context) const override {
    return collate_(source_->samples(indices, context));
  }
  std::vector<Sample> load_samples(std::span<const int64_t> indices,
                                   const SampleContext& context) const override {
    return source_->samples(indices, context);
  }

  std::shared_ptr<const Dataset> source_;
  Collate collate_;
};

}  // namespace

Collate::Collate(std::vector<CollateRule> rules) : rules_(std::move(rules)) {
  for (size_t i = 0; i < rules_.size(); ++i) {
    const CollateRule& rule = rules_[i];
    const bool is_twice = std::any_of(
        rules_.begin(), rules_.begin() + static_cast<long>(i), [&](const CollateRule& other) {
          return other.tensor == rule.tensor;
        });
    if (!is_twice && rule.multiple_of >= 1) continue;
    throw usage_error({.refused = concat("collate of the tensor \"", rule.tensor, '"'),
                       .rule = is_twice ? "it has one rule" : "multiple_of is at least 1",
                       .value = is_twice ? "" : concat(rule.multiple_of)});
  }
}

Batch Collate::operator()(const std::vector<Sample>& samples) const {
  Batch batch;
  if (samples.empty()) return batch;
  for (const Sample& sample : samples) batch.indices.push_back(sample.index);
  for (size_t at = 0; at < samples[0].tensors.size(); ++at) {
    const std::string& name = samples[0].tensors[at].first;
    const std::vector<at::Tensor> column = column_of(samples, at);
    const auto rule = std::find_if(
        rules_.begin(), rules_.end(), [&](const CollateRule& own) { return own.tensor == name; });
    const How how = rule == rules_.end() ? How::kStack : rule->how;
    check_alike(samples, column, name, how == How::kStack ? 0 : 1);
    if (how == How::kStack) batch.tensors.emplace_back(name, stacked(column));
    if (how == How::kPad) add_padded(batch, column, *rule);
    if (how == How::kRagged) add_ragged(batch, column, *rule);
  }
  return batch;
}

std::shared_ptr<const Dataset> collated(std::shared_ptr<const Dataset> dataset, Collate collate) {
  return std::make_shared<Collated>(std::move(dataset), std::move(collate));
}

}  // namespace muster::data
