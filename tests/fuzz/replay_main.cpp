// Runs a fuzz target over its corpus and over alterations of it, the same in each run: what `make
// test` does with the targets, without libFuzzer.
//
//     fuzz_replay_idx tests/fuzz/corpus/idx 4000     FOLDER or FILE, then how many alterations
#include <algorithm>
#include <charconv>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace {

namespace fs = std::filesystem;

/// Small changes, as a damaged disk, a cut transfer or a slip of an editor would make them.
class Mutator {
 public:
  std::string operator()(std::string bytes, const std::string& other) {
    for (size_t changes = 1 + below(4); changes > 0; --changes) change(bytes, other);
    return bytes;
  }

  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

 private:
  void change(std::string& bytes, const std::string& other) {
    if (bytes.empty()) bytes.push_back('\0');
    const size_t at = below(bytes.size());
    switch (below(8)) {
      case 0:
        bytes.insert(at, 1, static_cast<char>(random_()));
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 2:
        bytes[at] = static_cast<char>(random_());
        break;
      case 3:
        bytes.erase(at, 1 + below(4));
        break;
      case 4:
        bytes.resize(at);
        break;
      case 5:
        bytes.insert(at, bytes.substr(below(bytes.size()), below(16)));
        break;
      case 6:
        bytes.insert(at, other.substr(below(other.size()), below(32)));
        break;
      default:
        bytes.replace(at, 1, kPieces[below(std::size(kPieces))]);
    }
  }

  static constexpr const char* kPieces[] = {
      "0", "-1", "9223372036854775808", "1e999", "\"", "{", "]", ",", "null", "=", "\n", "\xff"};
  std::mt19937_64 random_{20261121};
};

std::vector<std::string> read_corpus(const fs::path& path) {
  std::vector<fs::path> files;
  if (!fs::is_directory(path)) files.push_back(path);
  if (fs::is_directory(path)) {
    for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> corpus;
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return corpus;
}

// The input under way, so that a finding can be looked at.
std::string current;

void run(const std::string& bytes) {
  current = bytes;
  // An exact copy on the heap, so that a sanitizer sees a read behind its end.
  const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

void save_finding() {
  std::ofstream("fuzz-finding.bin", std::ios::binary) << current;
  std::cerr << "the input is in " << fs::absolute("fuzz-finding.bin").string() << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: fuzz_replay_TARGET FOLDER|FILE [ALTERATIONS]\n";
    return 2;
  }
  const std::vector<std::string> corpus = read_corpus(argv[1]);
  if (corpus.empty()) {
    std::cerr << argv[1] << " has no files\n";
    return 2;
  }
  int alterations = 0;
  if (argc > 2) std::from_chars(argv[2], argv[2] + std::strlen(argv[2]), alterations);
  std::set_terminate([] {
    save_finding();
    std::abort();
  });
  Mutator mutate;
  try {
    for (const std::string& bytes : corpus) run(bytes);
    for (int i = 0; i < alterations; ++i) {
      const std::string& base = corpus[mutate.below(corpus.size())];
      const std::string& other = corpus[mutate.below(corpus.size())];
      run(mutate(base, other));
    }
  } catch (const std::exception& error) {
    std::cerr << "an exception left the target: " << error.what() << '\n';
    save_finding();
    return 1;
  }
  std::cout << corpus.size() << " files, " << alterations << " alterations\n";
}
