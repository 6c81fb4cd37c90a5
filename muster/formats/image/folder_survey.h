// What is in a folder of images, or another source: kinds, sizes, and files that cannot be decoded. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/formats/image/class_folders.h"
#include "muster/formats/image/image.h"
#include "muster/formats/image/image_source.h"

namespace muster::formats {

struct SurveyedFile {
  ImageHeader header;  ///< of one that can be decoded
  std::string fault;   ///< why it cannot be, or empty
  /// What is wrong with a JPEG that is decoded only where damaged data are kept, or empty.
  std::string damage;
};

/// One for each image, in that order. Decodes every file, on `threads` threads (0: as many as there are
/// cores). Missing and unreadable files are faults like others.
std::vector<SurveyedFile> survey_images(const ImageSource& images,
                                        int64_t threads = 0,
                                        int64_t max_pixels = ImageOptions().max_pixels);

/// The same for FolderImages(files).
std::vector<SurveyedFile> survey_files(const ClassFolders& files,
                                       int64_t threads = 0,
                                       int64_t max_pixels = ImageOptions().max_pixels);

/// Of a side of the images that can be decoded, in pixels; all 0 if there are none.
struct SideRange {
  int64_t least = 0;
  int64_t median = 0;  ///< the lower of two
  int64_t greatest = 0;
};

struct ClassSurvey {
  std::string name;
  int64_t files = 0;
  int64_t bad = 0;
  int64_t damaged = 0;
};

struct FolderSurvey {
  std::vector<ClassSurvey> classes;
  int64_t files = 0, bad = 0, damaged = 0;
  int64_t jpegs = 0, pngs = 0;               ///< that can be decoded; so for all below
  int64_t greys = 0, cmyks = 0, alphas = 0;  ///< stored as such
  int64_t wide_greys = 0;                    ///< of 16 bits: what is above 255 becomes white
  SideRange width, height;

  /// How many times the smallest class the largest is, by files that can be decoded. 0 if one has none.
  double imbalance() const;
};

FolderSurvey summary_of(const ImageSource& images, const std::vector<SurveyedFile>& surveyed);
FolderSurvey summary_of(const ClassFolders& files, const std::vector<SurveyedFile>& surveyed);

}  // namespace muster::formats
