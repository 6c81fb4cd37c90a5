// What a suggestion costs when a study has N finished trials: suggest() and
// the suggested() and told() after it.
//
//     suggest_cost --searcher SPEC --space mixed3|float20 --trials N [--suggestions 50] [--slots 1]
//
// Prints one JSON object: milliseconds of processor time per suggestion (median, least, most), and
// those that the N trials took to be told.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include <time.h>

#include "muster/tune/search/searcher.h"

namespace tune = muster::tune;

namespace {

struct Options {
  std::string searcher = "tpe", space = "mixed3";
  int64_t trials = 1000, suggestions = 50, slots = 1;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string word = argv[i];
    if (word == "--searcher")
      options.searcher = argv[i + 1];
    else if (word == "--space")
      options.space = argv[i + 1];
    else if (word == "--trials")
      options.trials = std::stoll(argv[i + 1]);
    else if (word == "--suggestions")
      options.suggestions = std::stoll(argv[i + 1]);
    else if (word == "--slots")
      options.slots = std::stoll(argv[i + 1]);
  }
  return options;
}

/// "mixed3": a learning rate, a whole number, a choice. "float20", "int20", …: N of a kind.
tune::Space space_of(const std::string& name) {
  if (name == "mixed3")
    return {{"lr", tune::loguniform(1e-4, 1e-1)},
            {"l1", tune::randint(2, 9)},
            {"batch_size", tune::choice({2, 4, 8, 16})}};
  const size_t digits = name.find_first_of("0123456789");
  const std::string kind = name.substr(0, digits);
  std::vector<tune::Parameter> parameters;
  for (int i = 0; i < std::stoi(name.substr(digits)); ++i)
    parameters.push_back({.name = "x" + std::to_string(i),
                          .domain = kind == "int"      ? tune::lograndint(1, 100'000)
                                    : kind == "choice" ? tune::choice({1, 2, 3, 4, 5})
                                                       : tune::uniform(0, 1)});
  return tune::Space(std::move(parameters));
}

double score(const tune::Point& point) {
  double sum = 0;
  for (const double x : point) sum -= std::abs(x - 0.3);
  return sum;
}

double now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  const tune::Space space = space_of(options.space);
  const tune::Point open(space.dimensions().size(), std::numeric_limits<double>::quiet_NaN());
  const auto searcher =
      tune::make_searcher(options.searcher, {.space = space, .seed = 1, .num_samples = -1});
  const double start = now_ms();
  for (int64_t number = 0; number < options.trials; ++number) {
    const tune::Point point = space.draw({}, 1, number);
    searcher->told({.number = number, .point = point, .score = score(point), .step = 1});
  }
  const double told_ms = now_ms() - start;
  std::vector<double> times;
  std::deque<std::pair<int64_t, tune::Point>> running;
  for (int64_t i = 0; i < options.suggestions; ++i) {
    const int64_t number = options.trials + i;
    const double before = now_ms();
    const auto suggestion = searcher->suggest(number, open);
    searcher->suggested(number, suggestion.point, suggestion.memo);
    running.emplace_back(number, suggestion.point);
    if (static_cast<int64_t>(running.size()) == options.slots) {
      const auto& [first, its_point] = running.front();
      searcher->told({.number = first, .point = its_point, .score = score(its_point), .step = 1});
      running.pop_front();
    }
    times.push_back(now_ms() - before);
  }
  const double first_ms = times.front();  // may build the model that the others go on from
  std::ranges::sort(times);
  std::printf(
      "{\"median_ms\": %.6f, \"least_ms\": %.6f, \"most_ms\": %.6f, \"first_ms\": %.6f, "
      "\"told_ms\": %.3f}\n",
      times[times.size() / 2],
      times.front(),
      times.back(),
      first_ms,
      told_ms);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
