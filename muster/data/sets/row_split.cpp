#include "muster/data/sets/row_split.h"

#include <memory>
#include <numeric>

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/sets/tensor_dataset.h"

namespace muster::data {

SubsetList split_rows(const std::vector<int64_t>& targets,
                      double test_fraction,
                      int64_t seed,
                      std::string_view owner) {
  const at::Tensor labels = at::tensor(targets, at::kLong);
  const auto rows = std::make_shared<TensorDataset>(at::arange(labels.size(0)), labels);
  SubsetList parts = stratified_split(rows, labels, test_fraction, static_cast<uint64_t>(seed));
  for (const auto& part : parts) {
    if (part->size() > 0) continue;
    throw usage_error(
        {.refused = concat(owner, " parameter \"test_fraction\""),
         .rule = "it leaves samples to train on, and holds some out",
         .value = concat(shortest(test_fraction), " of ", targets.size(), " samples")});
  }
  return parts;
}

SubsetList split_images(const std::shared_ptr<const Dataset>& images,
                        double test_fraction,
                        int64_t seed,
                        std::string_view owner) {
  SubsetList parts =
      stratified_split(images, images->targets(), test_fraction, static_cast<uint64_t>(seed));
  if (parts[1]->size() > 0) return parts;
  throw usage_error({.refused = concat(owner, " parameter \"test_fraction\""),
                     .rule = "it holds out a sample at least",
                     .value = concat(shortest(test_fraction), " of ", images->size(), " samples")});
}

std::vector<int64_t> rows_of(const SubsetDataset& part) {
  std::vector<int64_t> all(static_cast<size_t>(part.size()));
  std::iota(all.begin(), all.end(), 0);
  const at::Tensor rows = part.get(all)["data"];
  return {rows.const_data_ptr<int64_t>(), rows.const_data_ptr<int64_t>() + rows.numel()};
}

}  // namespace muster::data
