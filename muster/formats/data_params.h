// What is wrong with what a user says of data, wherever they lie. Torch-free.
#pragma once

#include <string>
#include <string_view>

namespace muster::formats {

/// Throws a usage error of a parameter of `owner`, "dataset folder".
[[noreturn]] void refuse_data_param(std::string_view owner,
                                    std::string_view name,
                                    std::string rule,
                                    std::string value);

/// Throws it for a share that is none.
void check_test_fraction(std::string_view owner, double share);

/// Throws a usage error for a path that begins with ~/, which no shell has made one of. `what`: "tar
/// shards"; `scheme`: "tar", as in tar:PATH.
void refuse_home_sign(std::string_view what, std::string_view scheme, const std::string& path);

}  // namespace muster::formats
