// The four files in which MNIST and its successors come.
#pragma once

#include <filesystem>
#include <memory>

#include "muster/data/dataset.h"
#include "muster/data/sets/image_dataset.h"

namespace muster::data {

/// Reads train-images-idx3-ubyte and train-labels-idx1-ubyte (or t10k-…) of `folder`, each with or
/// without .gz. `spec` gives name, classes and normalisation; its sample_shape is what the images
/// must have. Throws a usage error if a file is missing, with `hint`; an environment error if one
/// is damaged, holds the wrong kind of array (labels where images belong), the numbers of images
/// and labels differ, or a label is out of range.
std::shared_ptr<const ImageDataset> read_mnist_files(const std::filesystem::path& folder,
                                                     Split split,
                                                     const DataSpec& spec,
                                                     std::string_view hint);

}  // namespace muster::data
