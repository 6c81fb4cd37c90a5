// Draws of search spaces, for test_tune_space.py:
//
//     tune_space_twin DOMAIN COUNT SEED       values of trials 0 … COUNT - 1, a line of JSON each
//     tune_space_twin --grid SPACE SAMPLES    of {name: [values]}: the configurations in order
#include <cstdint>
#include <iostream>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/core/variants.h"
#include "muster/tune/space/space.h"

namespace {

using namespace muster;

void print_draws(const std::string& domain, int64_t count, uint64_t seed) {
  const tune::Space space(
      std::vector<tune::Parameter>{{"x", tune::Domain::parse(domain, "DOMAIN"), ""}});
  for (int64_t number = 0; number < count; ++number) {
    const tune::Values values = space.resolve(space.draw({}, seed, number));
    std::cout << json_text(tune::to_json(values[0])) << '\n';
  }
}

void print_grid(const std::string& json, int64_t samples) {
  const Json grids = parse_json(json, "SPACE");
  std::vector<tune::Parameter> parameters;
  for (const auto& [name, values] : grids.items()) {
    std::vector<tune::Value> choices;
    for (const Json& value : values) choices.push_back(tune::value_from(value, name));
    parameters.push_back({name, tune::grid_search(std::move(choices)), ""});
  }
  const tune::StudySpec spec{.num_samples = samples, .space = tune::Space(std::move(parameters))};
  const tune::Variants variants(spec);
  for (int64_t number = 0; number < variants.trials(); ++number) {
    const tune::Values values = spec.space.resolve(variants.partial(number));
    std::cout << json_text(tune::to_json(spec.space, values)) << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 4) {
      std::cerr << "usage: tune_space_twin DOMAIN COUNT SEED or --grid SPACE SAMPLES\n";
      return 2;
    }
    const int64_t last = to_int(argv[3]).value_or(0);
    if (std::string(argv[1]) == "--grid")
      print_grid(argv[2], last);
    else
      print_draws(argv[1], to_int(argv[2]).value_or(0), static_cast<uint64_t>(last));
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
  return 0;
}
