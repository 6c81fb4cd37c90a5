#include "muster/tune/views/front_volume.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

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
  std::vector<std::string> words;
  for (size_t i = 0; i < objectives.size(); ++i) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%g", score_of(-worst[i], objectives[i].mode));
    words.push_back(concat(objectives[i].metric, ' ', digits));
  }
  return {.volume = hypervolume(losses, worst), .from = join(words, ", ")};
}

}  // namespace muster::tune
