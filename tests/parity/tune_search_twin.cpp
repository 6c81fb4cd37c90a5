// The C++ side of test_tune_asha.py and test_tune_variants.py. Reads JSON lines, writes one for
// each.
//
//     tune_search_twin schedule    {"spec", "mode", "seed", "events"}: the answers to the events.
//                                  [trial, t, metric]: "C", "S" or "P"; [trial, "end", state] and
//                                  [trial, "paused"]: nothing; ["promote"]: a trial or null
//     tune_search_twin rungs       {"max_t", "grace_period", "reduction_factor", "brackets"}: of Ray
//     tune_search_twin bracket     {"rungs", "seed", "trials"}: the bracket of each trial
//     tune_search_twin variants    {"space", "points", …}: {"trials", "configs"}
#include <iostream>
#include <string>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/tune/core/variants.h"
#include "muster/tune/schedule/asha/rung_ladder.h"
#include "muster/tune/schedule/scheduler.h"
#include "muster/tune/search/searcher.h"

#include "tests/tune/golden_values.h"

namespace muster::tune {
namespace {

using test::number_of;
using test::state_of;

Json schedule(const Json& request) {
  const Mode mode = parse_mode(request.at("mode").get<std::string>());
  const auto scheduler =
      make_scheduler(request.at("spec"), {.seed = request.at("seed"), .mode = mode, .metric = "m"});
  Json answers = Json::array();
  for (const Json& event : request.at("events")) {
    if (event[0] == "promote") {
      const auto promotion = scheduler->promote();
      answers.push_back(promotion ? Json(promotion->number) : Json());
    } else if (event[1] == "end") {
      scheduler->on_end(event[0], state_of(event[2]));
    } else if (event[1] == "paused") {
      scheduler->on_pause(event[0]);
    } else {
      const Decision decision =
          scheduler->on_report(event[0], event[1], score_of(number_of(event[2]), mode));
      answers.push_back(decision.action == Action::kContinue ? "C"
                        : decision.action == Action::kPause  ? "P"
                                                             : "S");
    }
  }
  return answers;
}

Json rungs(const Json& request) {
  Json out = Json::array();
  for (int64_t s = 0; s < request.at("brackets"); ++s)
    out.push_back(ray_rung_ladder(
        request.at("grace_period"), request.at("max_t"), request.at("reduction_factor"), s));
  return out;
}

Json bracket(const Json& request) {
  const auto counts = request.at("rungs").get<std::vector<size_t>>();
  Json out = Json::array();
  for (int64_t number = 0; number < request.at("trials"); ++number)
    out.push_back(draw_bracket(counts, request.at("seed"), number));
  return out;
}

std::map<std::string, Value> point_of(const Json& json) {
  std::map<std::string, Value> point;
  for (const auto& [name, value] : json.items()) point.emplace(name, value_from(value, name));
  return point;
}

Json variants(const Json& request) {
  std::vector<Parameter> parameters;
  const Json& space = request.at("space");
  for (const auto& [name, domain] : space.items())
    parameters.push_back({name, Domain::parse(domain.get<std::string>(), name), ""});
  StudySpec spec{.num_samples = request.at("num_samples"),
                 .space = Space(std::move(parameters)),
                 .constant_grid_search = request.at("constant_grid_search")};
  for (const Json& point : request.at("points")) spec.points_to_evaluate.push_back(point_of(point));
  const Variants made(spec);
  const auto searcher = make_searcher("random", {.space = spec.space, .seed = spec.seed});
  Json configs = Json::array();
  for (int64_t number = 0; number < made.trials(); ++number) {
    const Point point = searcher->suggest(number, made.partial(number)).point;
    configs.push_back(to_json(spec.space, spec.space.resolve(point)));
  }
  return {{"trials", made.trials()}, {"configs", configs}};
}

int run(const std::string& command) {
  for (std::string line; std::getline(std::cin, line);) {
    const Json request = parse_json(line, "a line of stdin");
    if (command == "schedule") {
      std::cout << json_text(schedule(request)) << '\n';
    } else if (command == "rungs") {
      std::cout << json_text(rungs(request)) << '\n';
    } else if (command == "bracket") {
      std::cout << json_text(bracket(request)) << '\n';
    } else if (command == "variants") {
      std::cout << json_text(variants(request)) << '\n';
    } else {
      std::cerr << "usage: tune_search_twin schedule|rungs|bracket|variants <LINES\n";
      return 2;
    }
  }
  return 0;
}

}  // namespace
}  // namespace muster::tune

int main(int argc, char** argv) {
  try {
    return muster::tune::run(argc == 2 ? argv[1] : "");
  } catch (const muster::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
