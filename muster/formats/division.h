// Samples divided into parts, for training, validation and test, and the folder that they go to. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace muster::formats {

/// The part of each sample, by number. `labels`: the class of each, a number in `classes`. Of each class every part
/// gets its share, in whole samples: first rounded down, then one more for those that lost most by it, the first ones
/// first; and one at least where the class has as many samples as there are parts. Which ones is drawn from the seed,
/// the class's name and the order of its samples, so that another class changes nothing. Throws a usage error unless
/// there are two shares or more, all above 0, which add up to 1.
std::vector<size_t> divide_labels(const std::vector<int64_t>& labels,
                                  const std::vector<std::string>& classes,
                                  const std::vector<double>& shares,
                                  uint64_t seed);

/// Throws a usage error if `target` is `source`, or below or above it, links resolved: what is written would be among
/// what it was made of.
void require_apart(const std::filesystem::path& source, const std::filesystem::path& target);

/// Throws a usage error if something is there.
void require_absent(const std::filesystem::path& target);

/// Removes what calls for `target` that were killed left beside it, and says what that was. Of processes that live, and
/// on file systems that know no locks, all stays.
std::vector<std::filesystem::path> remove_left_behind(const std::filesystem::path& target);

/// Asked before each file or sample.
using DivisionStops = std::function<bool()>;

}  // namespace muster::formats
