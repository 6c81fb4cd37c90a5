#include "muster/data/sets/image_folder.h"

#include <map>
#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::data {
namespace {

/// The files' classes by the given numbers.
void number_classes(formats::ClassFolders& files, const std::vector<std::string>& classes) {
  std::map<std::string, int64_t, std::less<>> numbers;
  for (const std::string& name : classes)
    numbers.emplace(name, static_cast<int64_t>(numbers.size()));
  formats::require_known_classes(files, classes);
  std::vector<int64_t> number_of;
  for (const std::string& name : files.classes) number_of.push_back(numbers.at(name));
  for (formats::ClassFile& file : files.files)
    file.label = number_of[static_cast<size_t>(file.label)];
  files.classes = classes;
}

/// What is in the folder, its classes by their numbers.
formats::ClassFolders found_in(const std::filesystem::path& root,
                               const std::vector<std::string>& classes) {
  formats::ClassFolders files = formats::list_class_folders(root);
  if (!classes.empty()) number_classes(files, classes);
  return files;
}

}  // namespace

ImageFolder::ImageFolder(const std::filesystem::path& root, const ImageFolderOptions& options)
    : ImageFolder(found_in(root, options.classes), options) {}

ImageFolder::ImageFolder(formats::ClassFolders files, const ImageFolderOptions& options)
    : LabelledImages(std::make_shared<formats::FolderImages>(files),
                     {.name = "folder " + files.root.string(),
                      .size = options.size,
                      .bad_files = options.bad_files,
                      .decoding = options.decoding,
                      .mean = options.mean,
                      .standard_deviation = options.standard_deviation,
                      .learned = json_text({{"classes", files.classes}})}),
      files_(std::move(files)) {
  std::vector<formats::ClassFile> samples;
  samples.reserve(kept().size());
  for (const size_t at : kept()) samples.push_back(std::move(files_.files[at]));
  files_.files = std::move(samples);
}

}  // namespace muster::data
