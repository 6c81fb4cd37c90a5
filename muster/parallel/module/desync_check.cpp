#include "muster/parallel/module/desync_check.h"

#include <algorithm>
#include <map>
#include <string>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/module/tensor_hash.h"

namespace muster::parallel {
namespace {

/// The value that most ranks have; the lowest rank's among equally frequent ones.
int64_t most_frequent(const std::vector<int64_t>& values) {
  std::map<int64_t, int> counts;
  for (const int64_t value : values) ++counts[value];
  return *std::max_element(
      values.begin(), values.end(), [&](int64_t a, int64_t b) { return counts[a] < counts[b]; });
}

}  // namespace

DesyncCheck::DesyncCheck(NamedTensors parameters,
                         distributed::ProcessGroup group,
                         int64_t every_steps,
                         int64_t turn_bytes)
    : parameters_(std::move(parameters)), group_(std::move(group)), every_steps_(every_steps) {
  if (group_.world_size() == 1) every_steps_ = 0;
  int64_t bytes = turn_bytes;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto size = static_cast<int64_t>(parameters_[i].second.nbytes());
    if (turns_.empty() || bytes + size > turn_bytes) {
      turns_.emplace_back(i, i);
      bytes = 0;
    }
    turns_.back().second = i + 1;
    bytes += size;
  }
}

void DesyncCheck::start_step() {
  if (every_steps_ > 0 && ++step_ % every_steps_ == 0) post();
}

void DesyncCheck::post() {
  std::vector<at::Tensor> mine;
  const auto [from, to] = turns_[turn_];
  for (size_t i = from; i < to; ++i) mine.push_back(parameters_[i].second);
  const auto kind = static_cast<int64_t>(mine.at(0).device().type());
  const at::Tensor hashes = hash_tensors(mine, from);
  std::vector<at::Tensor> inputs{
      at::cat({hashes, at::full({1}, kind, hashes.options())}).to(group_.device())};
  hashes_.clear();
  for (int rank = 0; rank < group_.world_size(); ++rank)
    hashes_.push_back(at::empty_like(inputs[0]));
  std::vector<std::vector<at::Tensor>> outputs{hashes_};
  work_ = group_.c10d()->allgather(outputs, inputs);
}

void DesyncCheck::end_forward() {
  if (!work_) return;
  std::exchange(work_, nullptr)->wait();
  const auto difference = first_difference(at::stack(hashes_).cpu());
  if (difference) report(*difference);
  turn_ = (turn_ + 1) % turns_.size();
}

std::optional<DesyncCheck::Difference> DesyncCheck::first_difference(const at::Tensor& hashes) {
  const int64_t columns = hashes.size(1) - 1;
  const auto rows = hashes.accessor<int64_t, 2>();
  std::map<int64_t, std::vector<int64_t>> ranks_by_kind;
  for (int64_t rank = 0; rank < hashes.size(0); ++rank)
    ranks_by_kind[rows[rank][columns]].push_back(rank);
  for (int64_t column = 0; column < columns; ++column) {
    for (const auto& [kind, ranks] : ranks_by_kind) {
      std::vector<int64_t> values;
      for (const int64_t rank : ranks) values.push_back(rows[rank][column]);
      const int64_t agreed = most_frequent(values);
      Difference found{.column = column};
      for (const int64_t rank : ranks) {
        if (rows[rank][column] != agreed) found.others.push_back(rank);
      }
      if (found.others.empty()) continue;
      const auto first = std::find(values.begin(), values.end(), agreed) - values.begin();
      found.reference = ranks[static_cast<size_t>(first)];
      return found;
    }
  }
  return std::nullopt;
}

void DesyncCheck::report(const Difference& difference) const {
  std::vector<std::string> others;
  for (const int64_t rank : difference.others) others.push_back(std::to_string(rank));
  throw usage_error(
      {.refused =
           concat("rank ",
                  join(others, ", "),
                  others.size() == 1 ? " has" : " have",
                  " another value of parameter ",
                  parameters_[turns_[turn_].first + static_cast<size_t>(difference.column)].first,
                  " than rank ",
                  difference.reference,
                  " at step ",
                  step_),
       .rule = "parameters are the same on all ranks before every step",
       .hint =
           "change parameters on every rank alike (optimizer and its options, clipping, loading "
           "of weights), or broadcast them; check a skipped step or a module that was moved"});
}

}  // namespace muster::parallel
