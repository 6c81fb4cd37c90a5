#include "muster/formats/image/folder_data.h"

#include "muster/base/error.h"
#include "muster/formats/data_params.h"

namespace muster::formats {
namespace {

void check_folder_path(const std::string& path) {
  if (path.empty()) {
    throw usage_error({.refused = std::string(kFolderDataOwner),
                       .rule = "it is given a folder",
                       .value = "none",
                       .hint = "name it: folder:PATH, or --data-dir PATH"});
  }
  refuse_home_sign("folder of images", "folder", path);
}

}  // namespace

FolderDataOptions folder_data_options(const ParamValues& values,
                                      const std::filesystem::path& data_dir) {
  auto options = resolve_params<FolderDataOptions>(kFolderDataParams, values, kFolderDataOwner);
  check_image_params(kFolderDataOwner, options);
  // Where it lies now, of a run that goes on; nobody looks at the other one.
  if (!data_dir.empty()) {
    options.path = data_dir.string();
  } else {
    check_folder_path(options.path);
  }
  return options;
}

}  // namespace muster::formats
