// The files in which CIFAR-10 and CIFAR-100 come, in their binary version.
#pragma once

#include <filesystem>
#include <memory>

#include "muster/data/dataset.h"
#include "muster/data/sets/image_dataset.h"

namespace muster::data {

/// What of the records is the class.
enum class CifarLabels { kTen, kHundredFine, kHundredCoarse };

/// Reads data_batch_1.bin … data_batch_5.bin or test_batch.bin of CIFAR-10, train.bin or test.bin of
/// CIFAR-100, in `folder` or in the folder in it that their archives make (cifar-10-batches-bin,
/// cifar-100-binary). Names of classes are taken from batches.meta.txt, fine_label_names.txt or
/// coarse_label_names.txt where that is beside them. `spec` gives the name and normalisation.
///
/// Throws a usage error if a file is missing, with `hint`; an environment error if one is damaged.
std::shared_ptr<const ImageDataset> read_cifar_files(const std::filesystem::path& folder,
                                                     Split split,
                                                     CifarLabels labels,
                                                     DataSpec spec,
                                                     std::string_view hint);

}  // namespace muster::data
