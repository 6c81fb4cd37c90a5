// Samples of tar shards in the layout of WebDataset: which images there are, where they lie, and what is said to
// be their classes. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/formats/table.h"

namespace muster::formats {

/// The image of a sample.
struct TarImage {
  std::string name;    ///< of its member: "cat/1.jpg"
  uint32_t shard = 0;  ///< number in TarIndex::shards
  int64_t header = 0;  ///< of its member, for errors
  int64_t offset = 0;  ///< of its bytes
  int64_t size = 0;
  std::string said;    ///< its class as it was written; empty: it is not said
  int64_t label = -1;  ///< see number_classes()
};

struct TarShard {
  std::filesystem::path path;
  int64_t bytes = 0;  ///< of the file when it was read
};

struct TarIndex {
  std::vector<TarShard> shards;
  std::vector<TarImage> images;  ///< shard by shard, as they lie there
  std::vector<BadRow> bad;  ///< samples that cannot be used; their images are not among the others
  int64_t left_aside = 0;   ///< samples with neither an image nor a class

  /// "train-0.tar: member cat/1.jpg at offset 512".
  std::string place_of(const TarImage& image) const;
  /// "train-0.tar … train-9.tar", for people.
  std::string title() const;
};

/// "a/b.c.jpg" is the part "c.jpg" of the sample "a/b", in small letters: a sample's name ends at the first dot
/// of the file's name. Empty: it is part of none, since it has no dot, or begins with it, or is one of
/// WebDataset's own (__name__). Source: webdataset 1.0, group_by_keys and tar_file_iterator.
std::pair<std::string, std::string> sample_and_part(std::string_view name);

/// Where the class of a sample stands: "cls", or another part's name, whose text it is; "json", an object whose
/// value of "label", "cls", "class" or "target" it is; "json.FIELD", of "FIELD". "auto": cls where there is one,
/// else json.
struct TarIndexOptions {
  std::string label = "auto";
  /// Samples of which no class is said are none of TarIndex::bad, unless others have one.
  bool may_lack_labels = false;
  int64_t threads = 0;  ///< that read shards; 0: as many as there are cores
};

/// Reads all headers and classes, and no image. Of a sample that has more than one image, or none, or no class, or
/// whose parts are links, TarIndex::bad says so.
///
/// Throws what TarReader and FileBytes throw; an environment error for two members that are the same part of a
/// sample, and if there is no image; a usage error for options.label without sense.
TarIndex index_tar_shards(const std::vector<std::filesystem::path>& shards,
                          const TarIndexOptions& options = {});

}  // namespace muster::formats
