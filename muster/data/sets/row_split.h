// Which rows or images of a user's own are held out.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "muster/data/sets/split.h"

namespace muster::data {

/// What is trained on and what is held out, by stratified_split(), of rows of these classes. The data
/// are the rows' numbers: SubsetDataset::over() puts others in their place. Throws a usage error that
/// names test_fraction of `owner` where one of the two is empty.
SubsetList split_rows(const std::vector<int64_t>& targets,
                      double test_fraction,
                      int64_t seed,
                      std::string_view owner);

/// The same of images, by their targets(); an error where none is held out.
SubsetList split_images(const std::shared_ptr<const Dataset>& images,
                        double test_fraction,
                        int64_t seed,
                        std::string_view owner);

/// The numbers of a part's rows, in its order.
std::vector<int64_t> rows_of(const SubsetDataset& part);

}  // namespace muster::data
