// Where the checkout and its build lie. The only place that knows: a path in a compiler's command line would make every other
// object of the tests useless to a compiler cache in another checkout.
#pragma once

#include <string>
#include <string_view>

namespace muster::test {

/// A file or folder of the checkout: source_path("tests/golden/resize/golden.json").
std::string source_path(std::string_view relative);

/// A program of the build: program_path("muster").
std::string program_path(std::string_view name);

/// The folder of the build's programs, for PATH.
std::string program_folder();

}  // namespace muster::test
