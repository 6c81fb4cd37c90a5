// Your own images in tar shards, in the layout of WebDataset.
#include <optional>
#include <utility>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/data/sets/labelled_images.h"
#include "muster/data/sets/row_split.h"
#include "muster/formats/learned.h"
#include "muster/formats/tar/tar_data.h"

namespace muster::data {
namespace {

using formats::FoundTar;
using formats::TarClasses;
using formats::TarDataOptions;

/// What the training split teaches: {"classes": ["cat", "dog"]}, or {"classes": 10} where they have no names.
std::string json_of_classes(const TarClasses& classes) {
  return json_text(
      {{"classes", classes.names.empty() ? Json(classes.count) : Json(classes.names)}});
}

std::optional<TarClasses> learned_classes(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return formats::parse_learned("what the run's images were read by", text, [](const Json& json) {
    const Json& said = json.at("classes");
    if (said.is_number()) return TarClasses{.count = said.get<int64_t>()};
    TarClasses classes{.names = said.get<std::vector<std::string>>()};
    classes.count = static_cast<int64_t>(classes.names.size());
    return classes;
  });
}

std::shared_ptr<const LabelledImages> as_images(const TarDataOptions& options, FoundTar found) {
  const std::string name = "tar " + options.path;
  LabelledImagesOptions images{.name = name,
                               .size = options.size,
                               .bad_files = bad_files_of(options.bad_files).value(),
                               .decoding = {.keep_damaged = options.keep_damaged,
                                            .least_side = formats::least_side_of(options)},
                               .learned = json_of_classes(found.classes),
                               .remarks = formats::remarks_of(found.index)};
  if (options.normalize == "none") {
    images.mean.clear();
    images.standard_deviation.clear();
  }
  return std::make_shared<LabelledImages>(
      std::make_shared<formats::TarImages>(std::move(found.index), std::move(found.classes)),
      images);
}

std::shared_ptr<const Dataset> open_tar(const DatasetRequest& request) {
  const TarDataOptions options = formats::tar_data_options(request.params, request.data_dir);
  const std::optional<TarClasses> learned = learned_classes(request.learned);
  const bool is_other = learned && request.is_other, wants_test = request.split == Split::kTest;
  const auto [train, test] = formats::find_shard_splits(options.path, options.test);

  if (is_other) {  // all of it, where it has no splits of its own
    const bool is_test = wants_test && !test.empty();
    return as_images(
        options,
        find_tar_samples(options, is_test ? test : train, learned, {.may_lack_labels = true}));
  }
  if (!test.empty()) {
    std::optional<TarClasses> classes = learned;
    if (wants_test && !classes) classes = find_tar_samples(options, train).classes;
    return as_images(options, find_tar_samples(options, wants_test ? test : train, classes));
  }
  const auto whole = as_images(options, find_tar_samples(options, train, learned));
  return split_images(
      whole, options.test_fraction, options.split_seed, formats::kTarDataOwner)[wants_test ? 1 : 0];
}

}  // namespace

extern constinit const DatasetEntry tar_entry{
    .name = "tar",
    .help =
        "your own JPEG and PNG files in tar shards, as WebDataset lays them out "
        "(tar:PATTERN,size=224)",
    .params = formats::kTarDataParams,
    .open = &open_tar,
};

}  // namespace muster::data
