// Your own image files, in a folder for each class.
#include <array>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/data/sets/image_folder.h"
#include "muster/data/sets/row_split.h"
#include "muster/formats/image/flat_images.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;

struct FolderOptions {
  std::string path;
  int64_t size = 0;
  std::string bad_files = "raise";
  bool keep_damaged = false;
  std::string normalize = "imagenet";
  double test_fraction = 0.2;
  int64_t split_seed = 0;
};

constexpr Param kFolderParams[] = {
    param<&FolderOptions::path>(
        "path", "of CLASS/… or train/CLASS/… and test/CLASS/…; it may stand first, alone"),
    param<&FolderOptions::size>("size",
                                "height and width that all images are fitted to; 0: as they are"),
    param<&FolderOptions::bad_files>("bad_files",
                                     "that cannot be decoded: raise, skip or substitute"),
    param<&FolderOptions::keep_damaged>("keep_damaged",
                                        "take JPEGs whose data are damaged, as Pillow does"),
    param<&FolderOptions::normalize>("normalize", "by mean and deviation of imagenet, or none"),
    param<&FolderOptions::test_fraction>("test_fraction",
                                         "held out of each class where there is no test folder"),
    param<&FolderOptions::split_seed>("split_seed", "which ones these are"),
};

constexpr std::string_view kOwner = "dataset folder";

[[noreturn]] void refuse_folder(const char* name, std::string rule, std::string value) {
  throw usage_error({.refused = concat(kOwner, " parameter \"", name, '"'),
                     .rule = std::move(rule),
                     .value = std::move(value)});
}

BadFiles parse_bad_files(const std::string& text) {
  if (const auto known = bad_files_of(text)) return *known;
  refuse_folder("bad_files", "raise, skip or substitute", '"' + text + '"');
}

fs::path root_of(const FolderOptions& options, const fs::path& data_dir) {
  if (!data_dir.empty()) return data_dir;  // where it lies now, of a run that goes on
  if (options.path.empty()) {
    throw usage_error({.refused = "dataset folder",
                       .rule = "it is given a folder",
                       .value = "none",
                       .hint = "name it: folder:PATH, or --data-dir PATH"});
  }
  if (options.path.starts_with("~/")) {
    throw usage_error({.refused = concat("folder of images ", options.path),
                       .rule = "a shell makes a path of ~ at the start of a word alone",
                       .hint = concat("write folder:$HOME", options.path.substr(1))});
  }
  return options.path;
}

/// The classes that a run's model tells apart, or none.
std::vector<std::string> learned_names(const std::string& text) {
  if (text.empty()) return {};
  try {
    return parse_json(text, "what the run's images were read by")
        .at("classes")
        .get<std::vector<std::string>>();
  } catch (const Json::exception& error) {
    throw environment_error({.refused = "what the run's images were read by",
                             .rule = "it is as a training keeps it",
                             .value = error.what()});
  }
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
  const auto options = resolve_params<FolderOptions>(kFolderParams, request.params, kOwner);
  if (options.normalize != "imagenet" && options.normalize != "none")
    refuse_folder("normalize", "imagenet or none", '"' + options.normalize + '"');
  if (!(options.test_fraction > 0 && options.test_fraction < 1))
    refuse_folder("test_fraction", "above 0, below 1", shortest(options.test_fraction));
  ImageFolderOptions images{.size = options.size,
                            .bad_files = parse_bad_files(options.bad_files),
                            .decoding = {.keep_damaged = options.keep_damaged}};
  if (options.normalize == "none") {
    images.mean.clear();
    images.standard_deviation.clear();
  }
  const fs::path root = root_of(options, request.data_dir);
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
                      kOwner)[request.split == Split::kTest ? 1 : 0];
}

}  // namespace

extern constinit const DatasetEntry folder_entry{
    .name = "folder",
    .help = "your own JPEG and PNG files, in a folder for each class (folder:PATH,size=224)",
    .params = kFolderParams,
    .open = &open_folder,
};

}  // namespace muster::data
