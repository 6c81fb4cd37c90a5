#include "muster/formats/image/folder_data.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::formats {
namespace {

[[noreturn]] void refuse_folder_param(const char* name, std::string rule, std::string value) {
  throw usage_error({.refused = concat(kFolderDataOwner, " parameter \"", name, '"'),
                     .rule = std::move(rule),
                     .value = std::move(value)});
}

void check_folder_path(const std::string& path) {
  if (path.empty()) {
    throw usage_error({.refused = std::string(kFolderDataOwner),
                       .rule = "it is given a folder",
                       .value = "none",
                       .hint = "name it: folder:PATH, or --data-dir PATH"});
  }
  if (path.starts_with("~/")) {
    throw usage_error({.refused = concat("folder of images ", path),
                       .rule = "a shell makes a path of ~ at the start of a word alone",
                       .hint = concat("write folder:$HOME", path.substr(1))});
  }
}

}  // namespace

FolderDataOptions folder_data_options(const ParamValues& values,
                                      const std::filesystem::path& data_dir) {
  auto options = resolve_params<FolderDataOptions>(kFolderDataParams, values, kFolderDataOwner);
  if (options.normalize != "imagenet" && options.normalize != "none")
    refuse_folder_param("normalize", "imagenet or none", '"' + options.normalize + '"');
  if (!(options.test_fraction > 0 && options.test_fraction < 1))
    refuse_folder_param("test_fraction", "above 0, below 1", shortest(options.test_fraction));
  if (options.bad_files != "raise" && options.bad_files != "skip" &&
      options.bad_files != "substitute")
    refuse_folder_param("bad_files", "raise, skip or substitute", '"' + options.bad_files + '"');
  // Where it lies now, of a run that goes on; nobody looks at the other one.
  if (!data_dir.empty()) {
    options.path = data_dir.string();
  } else {
    check_folder_path(options.path);
  }
  return options;
}

}  // namespace muster::formats
