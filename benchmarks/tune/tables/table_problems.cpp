#include "benchmarks/tune/tables/table_problems.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "muster/base/file.h"
#include "muster/base/json.h"

namespace muster::benchmarks {
namespace {

/// A grid's losses in the order of nested loops, the last parameter fastest.
struct Grid {
  std::vector<std::vector<std::string>> choices;  ///< empty where the place itself is searched
  std::vector<size_t> sizes;
  std::vector<double> losses;

  double at(const tune::Values& values) const {
    size_t place = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      size_t own = 0;
      if (choices[i].empty())
        own = static_cast<size_t>(values[i].as_int());
      else
        own = static_cast<size_t>(std::ranges::find(choices[i], values[i].as_text()) -
                                  choices[i].begin());
      place = place * sizes[i] + own;
    }
    return losses.at(place);
  }
};

Problem read_table(const std::filesystem::path& file) {
  const Json table = parse_json(read_file(file), file.string());
  auto grid = std::make_shared<Grid>();
  std::vector<tune::Parameter> parameters;
  size_t networks = 1;
  for (const Json& parameter : table.at("parameters")) {
    const Json& choices = parameter.at("choices");
    grid->sizes.push_back(choices.size());
    networks *= choices.size();
    const bool is_ordered = parameter.at("ordered").get<bool>();
    grid->choices.emplace_back();
    std::vector<tune::Value> values;
    for (const Json& choice : choices) {
      if (is_ordered) continue;
      grid->choices.back().push_back(choice.get<std::string>());
      values.emplace_back(choice.get<std::string>());
    }
    parameters.push_back({.name = parameter.at("name").get<std::string>(),
                          .domain = is_ordered
                                        ? tune::randint(0, static_cast<int64_t>(choices.size()))
                                        : tune::choice(std::move(values))});
  }
  grid->losses = table.at("losses").get<std::vector<double>>();
  if (grid->losses.size() != networks) throw std::runtime_error(file.string() + " is incomplete");
  return {.name = table.at("name").get<std::string>(),
          .space = tune::Space(std::move(parameters)),
          .least = table.at("least").get<double>(),
          .value = [grid](const tune::Values& values) { return grid->at(values); }};
}

}  // namespace

std::vector<Problem> read_table_problems(const std::filesystem::path& folder) {
  std::vector<Problem> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".json") all.push_back(read_table(entry.path()));
  std::ranges::sort(all, {}, &Problem::name);
  return all;
}

}  // namespace muster::benchmarks
