// What a peer gave, written down by the script beside it: tests/golden/NAME/make_golden.py.
#pragma once

#include <string>
#include <string_view>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/support/paths.h"

namespace muster::test {

/// tests/golden/NAME/golden.json. The test fails with the file's name if it cannot be read.
inline Json read_golden(std::string_view name, std::string_view file = "golden.json") {
  const std::string path = source_path(concat("tests/golden/", name, "/", file));
  return parse_json(read_file(path), path);
}

}  // namespace muster::test
