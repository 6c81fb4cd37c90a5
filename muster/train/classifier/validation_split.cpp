#include "muster/train/classifier/validation_split.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/data/sets/split.h"
#include "muster/formats/index_list.h"

namespace muster::train {
namespace {

constexpr std::string_view kFile = "file:";

bool is_file(const std::string& split) { return split.starts_with(kFile); }

std::vector<int64_t> listed(const std::string& split) {
  const std::filesystem::path path = split.substr(kFile.size());
  if (!std::filesystem::is_regular_file(path)) {
    throw usage_error({.refused = "--validation-split " + split,
                       .rule = "a file with the number of a sample on each line",
                       .value = "there is no such file"});
  }
  return formats::parse_index_list(read_file(path), path.string());
}

/// What the file lists, read once in the life of a run.
void read_list(TrainOptions& options) {
  const std::string& split = options.validation_split;
  if (options.held_out.empty()) options.held_out = listed(split);
  const auto count = static_cast<int64_t>(options.held_out.size());
  if (count == 0) {
    throw usage_error({.refused = "--validation-split " + split,
                       .rule = "a file with the number of a sample on each line",
                       .value = "it has none",
                       .hint = "--validation-samples 0 trains without validation"});
  }
  const int64_t said = options.validation_samples;
  if (said >= 0 && said != count) {
    throw usage_error({.refused = "--validation-samples",
                       .rule = concat(split, " has ", count, " samples"),
                       .value = std::to_string(said),
                       .hint = "leave --validation-samples away"});
  }
  options.validation_samples = count;
}

}  // namespace

std::string with_whole_path(const std::string& validation_split) {
  if (!is_file(validation_split) || validation_split.size() == kFile.size())
    return validation_split;
  const std::filesystem::path path = validation_split.substr(kFile.size());
  return concat(kFile, std::filesystem::absolute(path).lexically_normal().string());
}

void resolve_validation(TrainOptions& options, const data::Dataset& all) {
  std::string& split = options.validation_split;
  int64_t& count = options.validation_samples;
  const bool has_classes = all.targets().defined();
  if (split == "auto") split = has_classes ? "stratified" : "random";
  const std::vector<std::string> known{"auto", "stratified", "random", "tail"};
  if (is_file(split)) {
    split = with_whole_path(split);
    read_list(options);
  } else if (std::find(known.begin(), known.end(), split) == known.end()) {
    throw usage_error({.refused = "--validation-split",
                       .rule = join(known, ", ") + " or file:FILE",
                       .value = split,
                       .hint = suggestion(split, known)});
  }
  if (count < 0) count = std::min<int64_t>(5000, all.size() / 12);
  if (all.size() - count < 1) {
    throw usage_error(
        {.refused = "--validation-samples",
         .rule = concat("some of the ", all.size(), " samples must be left to train on"),
         .value = std::to_string(count)});
  }
  if (split == "stratified" && !has_classes) {
    throw usage_error({.refused = "--validation-split stratified",
                       .rule = "the dataset tells the classes of its samples (Dataset::targets)",
                       .value = all.spec().name,
                       .hint = "take --validation-split random"});
  }
}

TrainParts split_off(const TrainOptions& options, const std::shared_ptr<const data::Dataset>& all) {
  const std::string& split = options.validation_split;
  const int64_t count = options.validation_samples, left = all->size() - count;
  const auto seed = static_cast<uint64_t>(options.seed);
  if (split == "tail" || count == 0) {
    return {std::make_shared<data::SubsetDataset>(all, 0, left),
            std::make_shared<data::SubsetDataset>(all, left, count)};
  }
  std::vector<int64_t> held_out;
  if (is_file(split)) {
    TrainOptions read = options;  // it is there already, but for checkpoints of before it was kept
    read_list(read);
    held_out = std::move(read.held_out);
  } else {
    held_out = split == "stratified" ? data::stratified_sample(all->targets(), count, seed)
                                     : data::random_sample(all->size(), count, seed);
  }
  const data::SubsetList parts = data::hold_out(all, std::move(held_out));
  return {parts[0], parts[1]};
}

}  // namespace muster::train
