// Samples of tar shards, divided into new shards for training, validation and test. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "muster/formats/division.h"
#include "muster/formats/tar/tar_data.h"
#include "muster/formats/tar/tar_index.h"

namespace muster::formats {

/// Bytes of a shard: headers and contents of members that lie one behind the other.
struct TarPiece {
  int64_t begin = 0, end = 0;
};

/// All members of one name up to the first dot: sample_and_part().
struct TarSample {
  std::string image;   ///< name of the member that is its image
  uint32_t shard = 0;  ///< number in TarSamples::shards
  int64_t header = 0;  ///< of the image, for errors
  int64_t label = 0;   ///< number in TarSamples::classes
  int64_t bytes = 0;   ///< of all pieces
  std::vector<TarPiece> pieces;
};

struct TarSamples {
  std::vector<TarShard> shards;
  std::vector<std::string> classes;  ///< by number, which is the name where there are only numbers
  bool are_labelled = true;          ///< else there is one class, without a name
  std::vector<TarSample> samples;    ///< shard by shard, as they lie there
  int64_t other_files = 0;  ///< that are part of no sample, be it one of these or a bad one
};

/// Reads all headers once more. Samples that find_tar_samples() has found bad or left aside are none.
///
/// Throws as TarReader and FileBytes; an environment error if a shard is no longer as long as it was, for a sample of
/// which another shard has an image, too, for a link among the members of a sample, and for a member of which a global
/// header says more than a comment: in another shard these would say something else.
TarSamples list_tar_samples(const FoundTar& found);

/// The part of each sample, by number, as divide_labels() draws it from the samples of a class in the order of their
/// images' names: which shards they lie in changes nothing, and files of class folders that are called as the images
/// are go to the same parts. Throws as that.
std::vector<size_t> divide_samples(const TarSamples& samples,
                                   const std::vector<double>& shares,
                                   uint64_t seed);

/// Of a shard that holds as many bytes of samples: two blocks of zeros follow them.
inline constexpr int64_t kTarEndBytes = 1024;

/// Makes the folder `target` with shards "NAME-000000.tar", "NAME-000001.tar", … of each part, none above `most_bytes`.
/// Samples stay in their order, the members of one behind each other; headers and contents have the bytes that they
/// had. As a whole or not at all: beside it, then renamed, each shard on the disk. The number of shards of each part;
/// nothing, and nothing is left, where `stops` says so before a sample.
///
/// Throws a usage error if `target` is there, or as require_apart() of the shards, or for a sample that is too large
/// for a shard; an environment error, which names the file at fault, if it cannot be made, or a shard cannot be read or
/// is no longer as long as it was.
std::optional<std::vector<int64_t>> write_divided_shards(const TarSamples& samples,
                                                         const std::vector<size_t>& part_of,
                                                         const std::vector<std::string>& names,
                                                         const std::filesystem::path& target,
                                                         int64_t most_bytes,
                                                         const DivisionStops& stops = {});

}  // namespace muster::formats
