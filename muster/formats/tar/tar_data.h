// What a user says of tar shards, and what is in them. Torch-free.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/params.h"
#include "muster/formats/image_params.h"
#include "muster/formats/tar/shard_pattern.h"
#include "muster/formats/tar/tar_images.h"

namespace muster::formats {

struct TarDataOptions : ImageDataOptions {
  std::string path;
  std::string test;
  std::string label = "auto";
  std::string classes;
};

inline constexpr auto kTarDataParams = with_image_params<TarDataOptions>(std::array{
    param<&TarDataOptions::path>(
        "path",
        "shards: train-{000..127}.tar, train-*.tar, or a folder; it may stand first, alone"),
    param<&TarDataOptions::test>("test", "shards of the test samples; none: some are held out"),
    param<&TarDataOptions::label>(
        "label",
        "part of a sample that says its class: cls, txt, json.FIELD; auto: cls, else json"),
    param<&TarDataOptions::classes>("classes", "a file with the names of the classes, a line each"),
});

inline constexpr std::string_view kTarDataOwner = "dataset tar";

/// `data_dir` takes the place of a path. Throws a usage error for unknown parameters, values without sense, and
/// if there is no path.
TarDataOptions tar_data_options(const ParamValues& values, const std::filesystem::path& data_dir);

struct FoundTar {
  TarIndex index;
  TarClasses classes;
};

struct FindTarOptions {
  bool may_lack_labels = false;  ///< TarIndexOptions::may_lack_labels
  bool keeps_bad = false;        ///< bad samples are no error, whatever options.bad_files says
  int64_t threads = 0;           ///< TarIndexOptions::threads
};

/// The samples of some shards, their classes numbered. `classes`: those of the training split, where they are
/// known; else options.classes, or what is found. Throws as index_tar_shards(), read_class_names() and
/// classes_in(); an environment error for the first bad sample, unless options.bad_files is skip, and if nothing
/// else is left.
FoundTar find_tar_samples(const TarDataOptions& options,
                          const std::vector<std::filesystem::path>& shards,
                          const std::optional<TarClasses>& classes = std::nullopt,
                          const FindTarOptions& how = {});

}  // namespace muster::formats
