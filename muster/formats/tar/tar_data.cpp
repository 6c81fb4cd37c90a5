#include "muster/formats/tar/tar_data.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/formats/data_params.h"

namespace muster::formats {
namespace {

void check_tar_path(const std::string& path) {
  if (path.empty()) {
    throw usage_error({.refused = std::string(kTarDataOwner),
                       .rule = "it is given shards",
                       .value = "none",
                       .hint = "name them: 'tar:DIR/train-{000..127}.tar', or --data-dir PATTERN"});
  }
  refuse_home_sign("tar shards", "tar", path);
}

void refuse_first_bad(const TarIndex& index) {
  if (index.bad.empty()) return;
  throw environment_error(
      {.refused = index.bad[0].place,
       .rule = index.bad[0].why,
       .hint = "mend or remove the sample, or go on without such samples: bad_files=skip"});
}

void refuse_empty(const TarIndex& index) {
  if (!index.images.empty()) return;
  throw environment_error({.refused = concat("tar shards ", index.title()),
                           .rule = "one of the samples can be used",
                           .value = concat("none of ",
                                           index.bad.size(),
                                           "; the first is ",
                                           index.bad[0].place,
                                           ": ",
                                           index.bad[0].why)});
}

}  // namespace

TarDataOptions tar_data_options(const ParamValues& values, const std::filesystem::path& data_dir) {
  auto options = resolve_params<TarDataOptions>(kTarDataParams, values, kTarDataOwner);
  if (!data_dir.empty()) options.path = data_dir.string();
  check_tar_path(options.path);
  check_image_params(kTarDataOwner, options);
  return options;
}

FoundTar find_tar_samples(const TarDataOptions& options,
                          const std::vector<std::filesystem::path>& shards,
                          const std::optional<TarClasses>& classes,
                          const FindTarOptions& how) {
  FoundTar out;
  if (classes) out.classes = *classes;
  if (!classes && !options.classes.empty()) out.classes = read_class_names(options.classes);
  out.index = index_tar_shards(
      shards,
      {.label = options.label, .may_lack_labels = how.may_lack_labels, .threads = how.threads});
  const bool goes_on = how.keeps_bad || options.bad_files == "skip";
  if (!goes_on) refuse_first_bad(out.index);
  const bool are_labelled =
      !how.may_lack_labels || std::ranges::any_of(out.index.images, [](const TarImage& image) {
        return !image.said.empty();
      });
  if (are_labelled) {
    if (out.classes.count == 0) out.classes = classes_in(out.index);
    number_classes(out.index, out.classes);
  }
  if (!goes_on) refuse_first_bad(out.index);
  refuse_empty(out.index);
  return out;
}

}  // namespace muster::formats
