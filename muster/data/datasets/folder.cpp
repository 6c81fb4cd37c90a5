// Your own image files, in a folder for each class.
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/json.h"
#include "muster/data/sets/image_folder.h"
#include "muster/data/sets/row_split.h"
#include "muster/formats/image/flat_images.h"
#include "muster/formats/image/folder_data.h"
#include "muster/formats/learned.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;

/// The classes that a run's model tells apart, or none.
std::vector<std::string> learned_names(const std::string& text) {
  if (text.empty()) return {};
  return formats::parse_learned("what the run's images were read by", text, [](const Json& json) {
    return json.at("classes").get<std::vector<std::string>>();
  });
}

/// Images whose classes nobody knows, for a model that tells options.classes apart.
std::shared_ptr<const Dataset> flat(const fs::path& root,
                                    std::vector<std::string> files,
                                    const ImageFolderOptions& options) {
  return std::make_shared<LabelledImages>(
      std::make_shared<formats::FlatImages>(root, std::move(files), options.classes),
      LabelledImagesOptions{.name = "folder " + root.string(),
                            .size = options.size,
                            .bad_files = options.bad_files,
                            .decoding = options.decoding,
                            .mean = options.mean,
                            .standard_deviation = options.standard_deviation});
}

std::shared_ptr<const Dataset> open_folder(const DatasetRequest& request) {
  const auto options = formats::folder_data_options(request.params, request.data_dir);
  ImageFolderOptions images{.size = options.size,
                            .bad_files = bad_files_of(options.bad_files).value(),
                            .decoding = {.keep_damaged = options.keep_damaged,
                                         .least_side = formats::least_side_of(options)}};
  if (options.normalize == "none") {
    images.mean.clear();
    images.standard_deviation.clear();
  }
  const fs::path root = options.path;
  if (request.is_other) {
    images.classes = learned_names(request.learned);
    std::vector<std::string> files = formats::list_flat_images(root);
    if (!files.empty() && !images.classes.empty()) return flat(root, std::move(files), images);
  }
  const auto [train, test] = formats::find_split_folders(root);
  if (train != test) {
    const bool wants_test = request.split == Split::kTest;
    if (wants_test && images.classes.empty()) images.classes = formats::list_classes(train);
    return std::make_shared<ImageFolder>(wants_test ? test : train, images);
  }
  const auto whole = std::make_shared<ImageFolder>(train, images);
  if (request.is_other) return whole;  // nobody has trained on a part of it
  return split_images(whole,
                      options.test_fraction,
                      options.split_seed,
                      formats::kFolderDataOwner)[request.split == Split::kTest ? 1 : 0];
}

}  // namespace

extern constinit const DatasetEntry folder_entry{
    .name = "folder",
    .help = "your own JPEG and PNG files, in a folder for each class (folder:PATH,size=224)",
    .params = formats::kFolderDataParams,
    .open = &open_folder,
};

}  // namespace muster::data
