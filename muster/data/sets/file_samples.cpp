#include "muster/data/sets/file_samples.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/sets/labelled_images.h"
#include "muster/data/sets/subset_dataset.h"

namespace muster::data {
namespace {

/// Images behind subsets, and which of them the samples are.
struct ImagesBehind {
  const LabelledImages* images;
  std::vector<int64_t> numbers;
};

std::optional<ImagesBehind> images_behind(const Dataset& samples) {
  std::vector<int64_t> numbers(static_cast<size_t>(samples.size()));
  std::iota(numbers.begin(), numbers.end(), 0);
  const Dataset* whole = &samples;
  while (const auto* part = dynamic_cast<const SubsetDataset*>(whole)) {
    numbers = part->of_whole(numbers);
    whole = part->whole().get();
  }
  const auto* images = dynamic_cast<const LabelledImages*>(whole);
  if (images == nullptr) return std::nullopt;
  return ImagesBehind{images, std::move(numbers)};
}

}  // namespace

std::function<std::string(int64_t)> file_names(std::shared_ptr<const Dataset> samples) {
  auto found = images_behind(*samples);
  if (!found) return {};
  return [samples = std::move(samples), found = *std::move(found)](int64_t index) {
    return found.images->file_name(found.numbers.at(static_cast<size_t>(index)));
  };
}

ReadableSamples without_substitutes(std::shared_ptr<const Dataset> samples) {
  const auto found = images_behind(*samples);
  if (!found) return {std::move(samples), {}};
  const std::vector<int64_t> bad = found->images->substituted_among(found->numbers);
  if (bad.empty()) return {std::move(samples), {}};
  std::vector<int64_t> good;
  for (size_t i = 0; i < found->numbers.size(); ++i) {
    if (!std::ranges::binary_search(bad, found->numbers[i]))
      good.push_back(static_cast<int64_t>(i));
  }
  constexpr size_t kNamed = 3;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(bad.size(), kNamed); ++i)
    names.push_back(found->images->file_name(bad[i]));
  const std::string some = concat(join(names, ", "), bad.size() > kNamed ? ", …" : "");
  const std::string title = samples->spec().name;
  if (good.empty()) {
    throw environment_error({.refused = title,
                             .rule = "one of its files can be decoded",
                             .value = concat("none of ", bad.size(), ": ", some),
                             .hint = "see `muster data info`"});
  }
  const size_t all = found->numbers.size();
  return {
      std::make_shared<SubsetDataset>(std::move(samples), std::move(good)),
      {concat(bad.size(),
              " of ",
              all,
              " files of ",
              title,
              " cannot be decoded and are left out: what is said of the files that stand in for "
              "them is not said of these: ",
              some)}};
}

}  // namespace muster::data
