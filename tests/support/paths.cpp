#include "tests/support/paths.h"

namespace muster::test {

std::string source_path(std::string_view relative) {
  return std::string(MUSTER_SOURCE_DIR "/").append(relative);
}

std::string program_path(std::string_view name) {
  return std::string(MUSTER_TEST_BIN_DIR "/").append(name);
}

std::string program_folder() { return MUSTER_TEST_BIN_DIR; }

}  // namespace muster::test
