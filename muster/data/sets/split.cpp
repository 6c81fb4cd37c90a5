#include "muster/data/sets/split.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randperm.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::data {
namespace {

std::vector<int64_t> drawn_order(int64_t count, const at::Generator& generator) {
  const at::Tensor order = at::randperm(count, generator, at::kLong);
  const auto* from = order.const_data_ptr<int64_t>();
  return {from, from + count};
}

}  // namespace

SubsetList random_split(const std::shared_ptr<const Dataset>& whole,
                        const std::vector<int64_t>& lengths,
                        uint64_t seed) {
  const int64_t all = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const bool negative =
      std::any_of(lengths.begin(), lengths.end(), [](int64_t n) { return n < 0; });
  if (negative || all != whole->size()) {
    std::vector<std::string> texts;
    for (const int64_t length : lengths) texts.push_back(std::to_string(length));
    throw usage_error(
        {.refused = "split of a dataset",
         .rule = concat("lengths of 0 or more that add up to its ", whole->size(), " samples"),
         .value = join(texts, " + ")});
  }
  const std::vector<int64_t> order = drawn_order(all, at::detail::createCPUGenerator(seed));
  SubsetList parts;
  auto next = order.begin();
  for (const int64_t length : lengths) {
    parts.push_back(
        std::make_shared<SubsetDataset>(whole, std::vector<int64_t>(next, next + length)));
    next += length;
  }
  return parts;
}

SubsetList stratified_split(const std::shared_ptr<const Dataset>& whole,
                            const at::Tensor& targets,
                            double fraction,
                            uint64_t seed) {
  if (!targets.defined() || targets.dim() != 1 || targets.scalar_type() != at::kLong ||
      !targets.is_cpu() || targets.size(0) != whole->size()) {
    throw usage_error(
        {.refused = "targets of a stratified split",
         .rule = concat("[", whole->size(), "] int64 on the CPU, one for each sample"),
         .value =
             targets.defined() ? concat(targets.sizes(), ' ', targets.toString()) : "nothing"});
  }
  if (!(fraction >= 0 && fraction <= 1)) {
    throw usage_error({.refused = "fraction of a stratified split",
                       .rule = "0 to 1",
                       .value = shortest(fraction)});
  }
  const at::Tensor dense = targets.contiguous();
  const auto* classes = dense.const_data_ptr<int64_t>();
  std::map<int64_t, std::vector<int64_t>> members;
  for (int64_t i = 0; i < whole->size(); ++i) members[classes[i]].push_back(i);
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  std::vector<int64_t> first, second;
  for (const auto& [name, samples] : members) {
    const auto count = static_cast<int64_t>(samples.size());
    const std::vector<int64_t> order = drawn_order(count, generator);
    const auto taken = std::llround(static_cast<double>(count) * fraction);
    for (int64_t i = 0; i < count; ++i)
      (i < taken ? second : first)
          .push_back(samples[static_cast<size_t>(order[static_cast<size_t>(i)])]);
  }
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  return {std::make_shared<SubsetDataset>(whole, std::move(first)),
          std::make_shared<SubsetDataset>(whole, std::move(second))};
}

}  // namespace muster::data
