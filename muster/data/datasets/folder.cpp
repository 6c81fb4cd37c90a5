// Your own image files, in a folder for each class.
#include <memory>

#include "muster/data/sets/image_folder.h"
#include "muster/data/sets/row_split.h"
#include "muster/formats/image/folder_data.h"

namespace muster::data {
namespace {

std::shared_ptr<const Dataset> open_folder(const DatasetRequest& request) {
  const auto options = formats::folder_data_options(request.params, request.data_dir);
  ImageFolderOptions images{.size = options.size,
                            .bad_files = bad_files_of(options.bad_files).value(),
                            .decoding = {.keep_damaged = options.keep_damaged}};
  if (options.normalize == "none") {
    images.mean.clear();
    images.standard_deviation.clear();
  }
  const auto [train, test] = formats::find_split_folders(options.path);
  if (train != test) {
    if (request.split == Split::kTest) images.classes = formats::list_classes(train);
    return std::make_shared<ImageFolder>(request.split == Split::kTest ? test : train, images);
  }
  const auto whole = std::make_shared<ImageFolder>(train, images);
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
