#include "muster/tune/views/front_volume.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/objective/hypervolume.h"

namespace muster::tune {

FrontVolume front_volume(std::span<const std::vector<double>> results,
                         std::span<const Objective> objectives) {
  std::vector<Losses> losses;
  Losses worst;
  for (const std::vector<double>& one : results) {
    if (!std::ranges::all_of(one, [](double result) { return std::isfinite(result); })) continue;
    Losses& loss = losses.emplace_back(scores_of(one, objectives));
    for (double& number : loss) number = -number;
    if (worst.empty()) worst = loss;
    for (size_t i = 0; i < worst.size(); ++i) worst[i] = std::max(worst[i], loss[i]);
  }
  if (losses.empty()) return {};
  FrontVolume out{.volume = hypervolume(losses, worst)};
  std::vector<std::string> words;
  for (size_t i = 0; i < objectives.size(); ++i) {
    out.worst.push_back(score_of(-worst[i], objectives[i].mode));
    char digits[32];
    std::snprintf(digits, sizeof digits, "%g", out.worst.back());
    words.push_back(concat(objectives[i].metric, ' ', digits));
  }
  out.from = join(words, ", ");
  return out;
}

void add_json(const FrontVolume& volume, std::span<const Objective> objectives, Json& json) {
  json["hypervolume"] = nullptr;
  json["hypervolume_from"] = nullptr;
  if (volume.worst.empty()) return;
  json["hypervolume"] = volume.volume;
  for (size_t i = 0; i < objectives.size(); ++i)
    json["hypervolume_from"][objectives[i].metric] = volume.worst[i];
}

}  // namespace muster::tune
