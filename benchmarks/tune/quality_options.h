// The command line of the programs that compare searchers: tune_quality, pareto_quality.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace muster::benchmarks {

struct QualityOptions {
  std::vector<std::string> searchers, problems;
  int64_t trials = 0, seeds = 20, first_seed = 0, slots = 1;
  bool check = false;
  std::string tables;  ///< a folder; tune_quality's
};

/// `trials`: where --trials is not given. Throws std::runtime_error in the name of `program`.
inline QualityOptions parse_quality_options(const std::string& program,
                                            int64_t trials,
                                            int argc,
                                            char** argv) {
  QualityOptions options{.trials = trials};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--check") {
      options.check = true;
      continue;
    }
    if (++i == argc) throw std::runtime_error(program + ": " + word + " takes a value");
    if (word == "--searcher")
      options.searchers.emplace_back(argv[i]);
    else if (word == "--problem")
      options.problems.emplace_back(argv[i]);
    else if (word == "--tables")
      options.tables = argv[i];
    else if (word == "--trials")
      options.trials = std::stoll(argv[i]);
    else if (word == "--seeds")
      options.seeds = std::stoll(argv[i]);
    else if (word == "--first-seed")
      options.first_seed = std::stoll(argv[i]);
    else if (word == "--slots")
      options.slots = std::stoll(argv[i]);
    else
      throw std::runtime_error(program + ": what is " + word + "?");
  }
  return options;
}

}  // namespace muster::benchmarks
