// The C++ side of benchmarks/peers/text: what peer.py does, by Muster.
//
//     build/bin/text_speed TEXTS [TOKENIZER]
//
// TEXTS has a text a line. Encodes each by TOKENIZER, a tokenizer.json, with everything that an
// encoding has, then for the ids alone, then decodes; without one splits and counts words. Prints
// the seconds of each as one JSON object, the second of two passes: what a word costs the first time is
// in neither side's.
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/text.h"

namespace {

namespace text = muster::text;

double processor_s() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Of the faster of two passes.
template <class Work>
double seconds(Work work) {
  double best = 1e300;
  for (int pass = 0; pass < 2; ++pass) {
    const double begin = processor_s();
    work();
    best = std::min(best, processor_s() - begin);
  }
  return best;
}

muster::Json measure_words(const std::vector<std::string>& lines) {
  muster::Json out;
  size_t count = 0;
  text::Words words;
  out["words"] = seconds([&] {
    count = 0;
    for (const std::string& line : lines) {
      text::basic_english(line, words);
      count += words.words.size();
    }
  });
  out["vocabulary"] = seconds([&] {
    text::Counter counter;
    for (const std::string& line : lines) {
      text::basic_english(line, words);
      counter.update(words.words);
    }
    text::build_vocab(counter, {.min_freq = 2, .specials = {"<unk>"}});
  });
  out["sum"] = count;
  return out;
}

muster::Json measure_tokens(const std::vector<std::string>& lines, const std::string& file) {
  muster::Json out;
  const double begin = processor_s();
  const text::Tokenizer tokenizer = text::Tokenizer::load(file);
  out["load"] = processor_s() - begin;
  uint64_t sum = 0;
  std::vector<std::vector<uint32_t>> all;
  out["encode"] = seconds([&] {
    all.clear();
    for (const std::string& line : lines) all.push_back(tokenizer.encode(line).ids);
  });
  std::vector<int64_t> ids;
  out["ids"] = seconds([&] {
    for (const std::string& line : lines) {
      ids.clear();
      tokenizer.append_ids(line, ids);
    }
  });
  size_t bytes = 0;
  out["decode"] = seconds([&] {
    bytes = 0;
    for (const auto& some : all) bytes += tokenizer.decode(some).size();
  });
  for (const auto& some : all) {
    for (const uint32_t id : some) sum = (sum * 31 + id) % 1'000'000'007;
  }
  out["sum"] = sum;
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: text_speed TEXTS [TOKENIZER]\n";
    return 2;
  }
  const std::vector<std::string> lines = muster::split(muster::read_file(argv[1]), '\n');
  std::cout << (argc > 2 ? measure_tokens(lines, argv[2]) : measure_words(lines)) << '\n';
}
