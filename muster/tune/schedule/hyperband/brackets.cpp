#include "muster/tune/schedule/hyperband/brackets.h"

#include <algorithm>

namespace muster::tune {

std::vector<HyperbandBracket> hyperband_brackets(int64_t min_t, int64_t max_t, int64_t eta) {
  std::vector<int64_t> powers{1};  // of eta, to eta^s_max; min_t * eta^s <= max_t without overflow
  while (powers.back() <= max_t / min_t / eta) powers.push_back(powers.back() * eta);
  const auto count = static_cast<int64_t>(powers.size());  // s_max + 1
  std::vector<HyperbandBracket> brackets;
  for (int64_t s = count - 1; s >= 0; --s) {
    HyperbandBracket bracket{.s = s};
    bracket.trials = (count * powers[static_cast<size_t>(s)] + s) / (s + 1);
    for (int64_t i = s; i >= 0; --i)
      bracket.rungs.push_back(max_t / powers[static_cast<size_t>(i)]);
    brackets.push_back(std::move(bracket));
  }
  return brackets;
}

int64_t survivors(int64_t trials, int64_t eta, int64_t i) {
  for (; i > 0 && trials > 1; --i) trials /= eta;
  return std::max<int64_t>(trials, 1);
}

}  // namespace muster::tune
