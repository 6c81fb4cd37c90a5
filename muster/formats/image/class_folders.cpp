#include "muster/formats/image/class_folders.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/formats/image/folder_entries.h"
#include "muster/formats/there_is.h"
#include "muster/formats/utf8.h"

namespace muster::formats {
namespace {

namespace fs = std::filesystem;

/// What tells a folder from others, by whatever links it was reached.
using FolderId = std::pair<dev_t, ino_t>;

FolderId id_of(const fs::path& folder) {
  struct stat found {};
  if (::stat(folder.c_str(), &found) != 0) {
    throw environment_error({.refused = concat("folder ", folder.string()),
                             .rule = "it can be read",
                             .value = errno_text(errno)});
  }
  return {found.st_dev, found.st_ino};
}

/// In any case. `ending` is in small letters.
bool ends_as(std::string_view name, std::string_view ending) {
  return name.size() >= ending.size() &&
         std::equal(ending.begin(),
                    ending.end(),
                    name.end() - static_cast<ptrdiff_t>(ending.size()),
                    [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); });
}

bool counts(const std::string& file, ClassFiles kind) {
  return kind == ClassFiles::kImages ? has_image_extension(file) : ends_as(file, ".txt");
}

/// One class. torchvision sorts the folders that os.walk finds by their whole paths, so "a-b" comes
/// before "a/b".
class ClassWalk {
 public:
  ClassWalk(const fs::path& root, ClassFiles kind) : root_(root), kind_(kind) {}

  std::vector<std::string> files_of(const std::string& name) {
    walk(name);
    std::sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) {
      return a.first < b.first;
    });
    std::vector<std::string> files;
    for (const auto& [folder, names] : found_) {
      for (const std::string& file : names) files.push_back(concat(folder, '/', file));
    }
    return files;
  }

 private:
  void walk(const std::string& folder) {
    const FolderId id = id_of(root_ / folder);
    if (std::find(above_.begin(), above_.end(), id) != above_.end()) {
      throw usage_error({.refused = concat("folder ", (root_ / folder).string()),
                         .rule = "links do not lead back to a folder above",
                         .hint = "remove the link"});
    }
    above_.push_back(id);
    FolderEntries entries = entries_of(root_ / folder);
    std::erase_if(entries.files, [this](const std::string& file) { return !counts(file, kind_); });
    if (!entries.files.empty()) found_.emplace_back(folder, std::move(entries.files));
    for (const std::string& below : entries.folders) walk(concat(folder, '/', below));
    above_.pop_back();
  }

  const fs::path& root_;
  ClassFiles kind_;
  std::vector<FolderId> above_;
  std::vector<std::pair<std::string, std::vector<std::string>>> found_;
};

std::string folder_of(ClassFiles kind, const fs::path& root) {
  return concat(kind == ClassFiles::kImages ? "folder of images " : "folder of texts ",
                root.string());
}

constexpr std::array<std::string_view, 2> kTrainWords = {"train", "training"};
constexpr std::array<std::string_view, 11> kOtherSplitWords = {"test",
                                                               "testing",
                                                               "val",
                                                               "valid",
                                                               "validate",
                                                               "validation",
                                                               "dev",
                                                               "eval",
                                                               "extra",
                                                               "unlabeled",
                                                               "unlabelled"};

std::string in_small_letters(std::string name) {
  for (char& letter : name)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return name;
}

/// Whether a folder has folders and no file of its own, as one of a split has and few classes have.
bool is_of_folders(const fs::path& folder, ClassFiles kind) {
  const FolderEntries entries = entries_of(folder);
  return !entries.folders.empty() &&
         std::none_of(entries.files.begin(), entries.files.end(), [kind](const std::string& file) {
           return counts(file, kind);
         });
}

/// Throws where folders that are no splits by their names, "Training" and "Testing", are splits by these
/// names and by what is in them: they would be classes.
void refuse_misnamed_splits(const fs::path& root, ClassFiles kind) {
  std::error_code ignored;
  if (!fs::is_directory(root, ignored)) return;  // for list_classes() to say
  const std::vector<std::string> folders = entries_of(root).folders;
  std::vector<std::string> splits;
  bool has_train = false;
  for (const std::string& name : folders) {
    const std::string word = in_small_letters(name);
    const bool is_train = std::ranges::find(kTrainWords, word) != kTrainWords.end();
    const bool is_other = std::ranges::find(kOtherSplitWords, word) != kOtherSplitWords.end();
    if ((!is_train && !is_other) || !is_of_folders(root / name, kind)) continue;
    splits.push_back(name);
    has_train |= is_train;
  }
  const bool is_misnamed = splits.size() > 1 || (splits.size() == folders.size());
  if (!has_train || !is_misnamed || (folders.size() == 1 && folders[0] == "train")) return;
  throw usage_error(
      {.refused = folder_of(kind, root),
       .rule = "splits are called train, and test, val, valid or validation, in small letters",
       .value = concat(join(splits, " and "), ", with folders and no file of a class"),
       .hint = concat("rename them, move away what is no split, or name one of them: ",
                      (root / splits.back()).string())});
}

constexpr std::array<std::string_view, 9> kImageExtensions = {
    ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};

}  // namespace

bool has_image_extension(std::string_view name) {
  return std::any_of(kImageExtensions.begin(),
                     kImageExtensions.end(),
                     [&](std::string_view ending) { return ends_as(name, ending); });
}

std::vector<std::string> list_classes(const fs::path& root, ClassFiles kind) {
  std::error_code ignored;
  if (!fs::is_directory(root, ignored)) {
    throw usage_error({.refused = folder_of(kind, root),
                       .rule = there_is(root) ? "it is a folder" : "there is no such folder"});
  }
  std::vector<std::string> classes = entries_of(root).folders;
  for (const std::string& name : classes) {
    // Those of texts are bad samples, which may be passed over.
    if (std::string fault = class_fault(name); kind == ClassFiles::kImages && !fault.empty())
      throw usage_error({.refused = concat("folder ", (root / name).string()),
                         .rule = std::move(fault),
                         .hint = "rename it: a run keeps the names of its classes as UTF-8"});
  }
  if (!classes.empty()) return classes;
  throw usage_error({.refused = folder_of(kind, root),
                     .rule = concat("it has a folder for each class, with that class's ",
                                    kind == ClassFiles::kImages ? "images" : "texts"),
                     .value = "no folder in it"});
}

SplitFolders find_split_folders(const fs::path& root, ClassFiles kind) {
  std::error_code ignored;
  const fs::path train = root / "train";
  if (!fs::is_directory(train, ignored)) {
    refuse_misnamed_splits(root, kind);
    return {root, root};
  }
  for (const char* name : {"test", "val", "valid", "validation"}) {
    if (fs::is_directory(root / name, ignored)) return {train, root / name};
  }
  refuse_misnamed_splits(root, kind);
  // Among others it is a class: of vehicles, say.
  if (list_classes(root, kind).size() > 1) return {root, root};
  return {train, train};
}

ClassFolders list_class_folders(const fs::path& root, ClassFiles kind) {
  ClassFolders found{.root = root, .classes = list_classes(root, kind)};
  std::vector<std::string> empty;
  for (size_t label = 0; label < found.classes.size(); ++label) {
    const std::vector<std::string> files = ClassWalk(root, kind).files_of(found.classes[label]);
    if (files.empty()) empty.push_back(found.classes[label]);
    for (const std::string& file : files)
      found.files.push_back({.path = file, .label = static_cast<int64_t>(label)});
  }
  if (empty.empty()) return found;
  std::vector<std::string> endings;
  for (const std::string_view ending : kImageExtensions) endings.emplace_back(ending.substr(1));
  if (kind == ClassFiles::kTexts) endings = {"txt"};
  throw usage_error({.refused = folder_of(kind, root),
                     .rule = concat("each class has a file that ends in ", join(endings, ", ")),
                     .value = concat("none in ", join(empty, ", ")),
                     .hint = "remove folders that are no class"});
}

void require_known_classes(const ClassFolders& files, const std::vector<std::string>& classes) {
  const std::set<std::string_view> known(classes.begin(), classes.end());
  for (const std::string& name : files.classes) {
    if (known.contains(name)) continue;
    throw usage_error({.refused = concat("folder ", (files.root / name).string()),
                       .rule = concat("the classes are ", join(classes, ", ")),
                       .hint = suggestion(name, classes)});
  }
}

}  // namespace muster::formats
