// The C++ side of test_safetensors_live.py.
//
//     safetensors_twin copy IN OUT      reads IN and writes its tensors and texts to OUT
//     safetensors_twin judge FOLDER     for each FOLDER/*.safetensors a line "NAME read|refused"
#include <filesystem>
#include <iostream>
#include <string>

#include "muster/base/error.h"
#include "muster/tensor/safetensors.h"

namespace {

void judge(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::string verdict = "read";
    try {
      muster::tensor::read_safetensors(entry.path());
    } catch (const muster::Error&) {
      verdict = "refused";
    }
    std::cout << entry.path().filename().string() << ' ' << verdict << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  try {
    if (command == "copy" && argc == 4) {
      muster::tensor::write_safetensors(
          argv[3], muster::tensor::read_safetensors(argv[2]), {.sync = false});
    } else if (command == "judge" && argc == 3) {
      judge(argv[2]);
    } else {
      std::cerr << "usage: safetensors_twin copy IN OUT | judge FOLDER\n";
      return 2;
    }
  } catch (const muster::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
