#include "muster/data/sets/split.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randperm.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/dtype_name.h"

namespace muster::data {
namespace {

std::vector<int64_t> drawn_order(int64_t count, const at::Generator& generator) {
  const at::Tensor order = at::randperm(count, generator, at::kLong);
  const auto* from = order.const_data_ptr<int64_t>();
  return {from, from + count};
}

void check_count(int64_t count, int64_t samples) {
  if (count >= 0 && count <= samples) return;
  throw usage_error({.refused = "samples that a split holds out",
                     .rule = concat("0 to ", samples, ", which there are"),
                     .value = std::to_string(count)});
}

/// How many of each class, so that they add up to `count` of `all`.
std::vector<int64_t> shares_of(const std::vector<int64_t>& sizes, int64_t count, int64_t all) {
  std::vector<int64_t> shares, lost;
  int64_t left = count;
  for (const int64_t size : sizes) {
    shares.push_back(all == 0 ? 0 : size * count / all);
    lost.push_back(all == 0 ? 0 : size * count % all);
    left -= shares.back();
  }
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(
      order.begin(), order.end(), [&](size_t a, size_t b) { return lost[a] > lost[b]; });
  for (int64_t i = 0; i < left; ++i) ++shares[order[static_cast<size_t>(i)]];
  return shares;
}

std::map<int64_t, std::vector<int64_t>> members_of(const at::Tensor& targets) {
  const at::Tensor dense = targets.contiguous();
  const auto* classes = dense.const_data_ptr<int64_t>();
  std::map<int64_t, std::vector<int64_t>> members;
  for (int64_t i = 0; i < dense.numel(); ++i) members[classes[i]].push_back(i);
  return members;
}

void check_targets(const at::Tensor& targets, std::optional<int64_t> samples) {
  if (targets.defined() && targets.dim() == 1 && targets.scalar_type() == at::kLong &&
      targets.is_cpu() && targets.size(0) == samples.value_or(targets.size(0)))
    return;
  throw usage_error(
      {.refused = "targets of a stratified split",
       .rule = concat("[",
                      samples ? std::to_string(*samples) : "N",
                      "] int64 on the CPU, one for each sample"),
       .value = targets.defined()
                    ? concat(targets.sizes(), ' ', tensor::dtype_name(targets.scalar_type()))
                    : "nothing"});
}

}  // namespace

SubsetList random_split(const std::shared_ptr<const Dataset>& whole,
                        const std::vector<int64_t>& lengths,
                        uint64_t seed) {
  const int64_t all = whole->size();
  int64_t left = all;  // below 0: they are too many, or one is negative
  for (const int64_t length : lengths) left = length < 0 || length > left ? -1 : left - length;
  if (left != 0) {
    std::vector<std::string> texts;
    for (const int64_t length : lengths) texts.push_back(std::to_string(length));
    throw usage_error({.refused = "split of a dataset",
                       .rule = concat("lengths of 0 or more that add up to its ", all, " samples"),
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
  check_targets(targets, whole->size());
  if (!(fraction >= 0 && fraction <= 1)) {
    throw usage_error({.refused = "fraction of a stratified split",
                       .rule = "0 to 1",
                       .value = shortest(fraction)});
  }
  const std::map<int64_t, std::vector<int64_t>> members = members_of(targets);
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

std::vector<int64_t> random_sample(int64_t samples, int64_t count, uint64_t seed) {
  check_count(count, samples);
  const std::vector<int64_t> order = drawn_order(samples, at::detail::createCPUGenerator(seed));
  std::vector<int64_t> taken(order.end() - count, order.end());
  std::sort(taken.begin(), taken.end());
  return taken;
}

std::vector<int64_t> stratified_sample(const at::Tensor& targets, int64_t count, uint64_t seed) {
  check_targets(targets, std::nullopt);
  check_count(count, targets.size(0));
  const std::map<int64_t, std::vector<int64_t>> members = members_of(targets);
  std::vector<int64_t> sizes;
  for (const auto& [name, samples] : members) sizes.push_back(static_cast<int64_t>(samples.size()));
  const std::vector<int64_t> shares = shares_of(sizes, count, targets.size(0));
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  std::vector<int64_t> taken;
  auto share = shares.begin();
  for (const auto& [name, samples] : members) {
    const std::vector<int64_t> order = drawn_order(static_cast<int64_t>(samples.size()), generator);
    for (int64_t i = 0; i < *share; ++i)
      taken.push_back(samples[static_cast<size_t>(order[static_cast<size_t>(i)])]);
    ++share;
  }
  std::sort(taken.begin(), taken.end());
  return taken;
}

SubsetList hold_out(const std::shared_ptr<const Dataset>& whole, std::vector<int64_t> held_out) {
  std::sort(held_out.begin(), held_out.end());
  const auto twice = std::adjacent_find(held_out.begin(), held_out.end());
  const bool outside =
      !held_out.empty() && (held_out.front() < 0 || held_out.back() >= whole->size());
  if (twice != held_out.end() || outside) {
    throw usage_error(
        {.refused = "samples that a split holds out",
         .rule = outside ? concat("they are among 0 to ", whole->size() - 1) : "each is there once",
         .value = std::to_string(!outside               ? *twice
                                 : held_out.front() < 0 ? held_out.front()
                                                        : held_out.back())});
  }
  std::vector<int64_t> left;
  auto next = held_out.begin();
  for (int64_t i = 0; i < whole->size(); ++i) {
    if (next != held_out.end() && *next == i) {
      ++next;
    } else {
      left.push_back(i);
    }
  }
  return {std::make_shared<SubsetDataset>(whole, std::move(left)),
          std::make_shared<SubsetDataset>(whole, std::move(held_out))};
}

}  // namespace muster::data
