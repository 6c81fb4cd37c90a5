// Image files, or texts, sorted into a folder for each class, as torchvision's ImageFolder finds them.
// Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace muster::formats {

struct ClassFile {
  std::string path;   ///< below the root: "cat/white/1.jpg"
  int64_t label = 0;  ///< number of its class
};

struct ClassFolders {
  std::filesystem::path root;
  std::vector<std::string> classes;  ///< by number
  std::vector<ClassFile> files;      ///< class by class

  std::filesystem::path path_of(size_t file) const { return root / files[file].path; }
};

/// Whether a file counts as an image, by its name: jpg, jpeg, png, ppm, bmp, pgm, tif, tiff and webp,
/// in any case. Which of them can be read is for decode_image() to say.
bool has_image_extension(std::string_view name);

/// The files that count, in a class's folder and below.
enum class ClassFiles {
  kImages,  ///< has_image_extension()
  kTexts    ///< .txt, in any case
};

/// The names of the folders in `root`, sorted. Throws as list_class_folders(), and of images a usage error for
/// a name that is not UTF-8.
std::vector<std::string> list_classes(const std::filesystem::path& root,
                                      ClassFiles kind = ClassFiles::kImages);

/// Where the classes of the training and of the test split are; the same where there is one set of
/// classes, of which a part has to be held out.
struct SplitFolders {
  std::filesystem::path train, test;
};

/// root/train and the first of root/test, val, valid and validation, where both are there; root/train
/// twice where that is the only folder in `root`; else `root` twice. Throws as list_classes(), and a usage
/// error where folders that have folders, and no files of a class, are called nearly so: Training and
/// Testing, or train and extra.
SplitFolders find_split_folders(const std::filesystem::path& root,
                                ClassFiles kind = ClassFiles::kImages);

/// Classes are the folders in `root`, sorted by name; a class's files are those of the kind, by their
/// extension, in its folder and all below, sorted by folder, then by name; links are followed. Names are
/// sorted by their bytes.
///
/// Throws a usage error if there is no such folder, there is no folder in it, a class has no such file, or
/// links lead in a circle; an environment error if one cannot be read.
///
/// Source: torchvision 0.29, datasets/folder.py (find_classes, make_dataset).
ClassFolders list_class_folders(const std::filesystem::path& root,
                                ClassFiles kind = ClassFiles::kImages);

/// Throws a usage error for a folder that is none of these classes, those of the training split.
void require_known_classes(const ClassFolders& files, const std::vector<std::string>& classes);

}  // namespace muster::formats
