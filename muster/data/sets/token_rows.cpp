#include "muster/data/sets/token_rows.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/formats/crc32.h"

namespace muster::data {
namespace {

void check_sequences(const TokenSequences& sequences, const DataSpec& spec) {
  const auto refuse = [](const char* rule, std::string value) {
    throw usage_error({.refused = "sequences of tokens", .rule = rule, .value = std::move(value)});
  };
  int64_t before = 0;
  for (const int64_t end : sequences.ends) {
    if (end <= before) refuse("each ends behind the one before", concat(end, " after ", before));
    before = end;
  }
  if (before != static_cast<int64_t>(sequences.ids.size()))
    refuse("the last one ends with the ids", concat(before, " of ", sequences.ids.size()));
  for (const int64_t id : sequences.ids)
    if (id < 0 || id >= spec.vocabulary)
      refuse("ids are numbers of the vocabulary", concat(id, " of ", spec.vocabulary));
  if (sequences.targets.empty()) return;
  if (sequences.targets.size() != sequences.ends.size())
    refuse("each has a class",
           concat(sequences.targets.size(), " for ", sequences.ends.size(), " sequences"));
  for (const int64_t target : sequences.targets)
    if (target < 0 || target >= spec.classes)
      refuse("targets are numbers of classes", concat(target, " of ", spec.classes));
}

std::string_view bytes_of(const std::vector<int64_t>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int64_t)};
}

}  // namespace

TokenRows::TokenRows(TokenSequences sequences,
                     DataSpec spec,
                     std::string learned,
                     std::vector<std::string> remarks)
    : sequences_(std::move(sequences)),
      spec_(std::move(spec)),
      learned_(std::move(learned)),
      remarks_(std::move(remarks)) {
  check_sequences(sequences_, spec_);
  if (!sequences_.targets.empty()) targets_ = at::tensor(sequences_.targets, at::kLong);
}

uint32_t TokenRows::fingerprint() const {
  uint32_t sum = formats::crc32_of(concat(size(), '\n'));
  for (const std::vector<int64_t>* numbers :
       {&sequences_.ids, &sequences_.ends, &sequences_.targets})
    sum = formats::crc32_of(bytes_of(*numbers), sum);
  return sum;
}

std::span<const int64_t> TokenRows::sequence(int64_t index) const {
  const auto at = static_cast<size_t>(index);
  const int64_t begin = at == 0 ? 0 : sequences_.ends[at - 1];
  return std::span(sequences_.ids)
      .subspan(static_cast<size_t>(begin), static_cast<size_t>(sequences_.ends[at] - begin));
}

Batch TokenRows::load(std::span<const int64_t> indices, const SampleContext& context) const {
  size_t width = 1;
  for (const int64_t index : indices) width = std::max(width, sequence(index).size());
  const auto rows = static_cast<int64_t>(indices.size());
  Batch batch{
      .tensors = {{"data",
                   at::empty({rows, static_cast<int64_t>(width)}, context.options(at::kLong))}},
      .indices = {indices.begin(), indices.end()}};
  auto* to = batch["data"].mutable_data_ptr<int64_t>();
  for (const int64_t index : indices) {
    const std::span<const int64_t> ids = sequence(index);
    std::fill(std::ranges::copy(ids, to).out, to + width, spec_.padding);
    to += width;
  }
  if (!targets_.defined()) return batch;
  batch.tensors.emplace_back("target", at::empty({rows}, context.options(at::kLong)));
  auto* target = batch["target"].mutable_data_ptr<int64_t>();
  for (const int64_t index : indices) *target++ = sequences_.targets[static_cast<size_t>(index)];
  return batch;
}

}  // namespace muster::data
