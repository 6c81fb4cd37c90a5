// A file's bytes, for files that may be gone by now.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace muster::test {

/// Empty where the file cannot be read, as those of a process in /proc that has ended meanwhile.
inline std::string slurp(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

}  // namespace muster::test
