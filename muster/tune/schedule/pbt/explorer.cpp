#include "muster/tune/schedule/pbt/explorer.h"

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/philox.h"
#include "muster/base/text.h"
#include "muster/tune/schedule/pbt/population.h"
#include "muster/tune/schedule/score_text.h"
#include "muster/tune/space/distribution.h"

namespace muster::tune {
namespace {

/// Keeps the stream apart from that of brackets, and of dimensions, which count from 0 in this place.
constexpr uint32_t kPbtStream = 0xB07;
constexpr int kPlaceBits = 12;  // dimensions of a space, in the fourth word
/// Rounds of Space::draw_dimension that no searcher comes to.
constexpr uint64_t kPbtRounds = uint64_t{1} << 40;

double unit_of(uint32_t high, uint32_t low) {
  return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

[[noreturn]] void refuse_mutate(std::string rule, const std::string& value, std::string hint = "") {
  throw usage_error({.refused = "mutate of scheduler pbt",
                     .rule = std::move(rule),
                     .value = value,
                     .hint = std::move(hint)});
}

bool is_real(const Distribution& distribution) {
  return std::holds_alternative<FloatDistribution>(distribution) ||
         std::holds_alternative<NormalDistribution>(distribution);
}

}  // namespace

Explorer::Explorer(Space space, const PbtOptions& options, uint64_t seed)
    : space_(std::move(space)), options_(options), seed_(seed) {
  choose_dimensions();
}

void Explorer::choose_dimensions() {
  std::vector<bool> named(space_.parameters().size(), options_.mutate.empty());
  std::vector<std::string> names;
  for (const Parameter& parameter : space_.parameters()) names.push_back(parameter.name);
  for (const auto& word : split(options_.mutate, ' ')) {
    if (word.empty()) continue;
    const auto index = space_.index_of(word);
    if (!index) {
      refuse_mutate("it names parameters of the space, with blanks between",
                    '"' + std::string(word) + '"',
                    suggestion(word, names));
    }
    named[*index] = true;
    if (!std::ranges::any_of(space_.dimensions(), [&](const Dimension& dimension) {
          return dimension.parameter == *index && !dimension.grid;
        }))
      refuse_mutate("what it names is drawn, and not constant, of a grid or a function's",
                    '"' + std::string(word) + '"');
  }
  for (size_t d = 0; d < space_.dimensions().size(); ++d) {
    const Dimension& dimension = space_.dimensions()[d];
    if (!dimension.grid && named[dimension.parameter] &&
        (!options_.mutate.empty() || is_real(dimension.distribution)))
      dimensions_.push_back(d);
  }
  if (dimensions_.empty() && !names.empty()) {
    refuse_mutate("it names a parameter to change, where none is drawn from real numbers",
                  "nothing",
                  concat("mutate=", names.front(), ", if a checkpoint fits whatever it is"));
  }
}

Explorer::Chances Explorer::chances(int64_t trial, int64_t copies, size_t place) const {
  const auto n = static_cast<uint64_t>(trial);
  const auto bits =
      philox4x32_10({static_cast<uint32_t>(n),
                     static_cast<uint32_t>(n >> 32),
                     kPbtStream,
                     static_cast<uint32_t>(copies << kPlaceBits | static_cast<int64_t>(place))},
                    {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
  return {unit_of(bits[1], bits[0]), unit_of(bits[3], bits[2])};
}

size_t Explorer::draw_donor(size_t count, int64_t trial, int64_t copies) const {
  const double at = chances(trial, copies, 0).first * static_cast<double>(count);
  return std::min(static_cast<size_t>(at), count - 1);
}

Explorer::Explored Explorer::explore(const Point& donor, int64_t trial, int64_t copies) const {
  Explored out{.point = donor, .text = ""};
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    const size_t d = dimensions_[i];
    if (d >= donor.size() || std::isnan(donor[d])) continue;  // does not apply
    const Chances chance = chances(trial, copies, i + 1);
    const bool is_drawn = chance.first < options_.resample_probability;
    const bool up = chance.second < 0.5;
    const double factor = up ? options_.perturb_up : options_.perturb_down;
    const auto round = kPbtRounds + static_cast<uint64_t>(copies);
    out.point[d] = is_drawn ? space_.draw_dimension(d, seed_, trial, round)
                            : perturbed(space_.dimensions()[d].distribution, donor[d], up, factor);
    if (!out.text.empty()) out.text += ", ";
    out.text += change_text(d, donor[d], out.point[d], is_drawn);
  }
  return out;
}

std::string Explorer::change_text(size_t d, double from, double to, bool is_drawn) const {
  const Dimension& dimension = space_.dimensions()[d];
  const auto text = [&](double number) {
    const Value value = value_of(dimension.distribution, number);
    return value.is_double() ? metric_text(value.as_double(), Mode::kMax) : value_text(value);
  };
  if (from == to) return concat(dimension.name, " stays ", text(from));
  return concat(dimension.name, ' ', text(from), " -> ", text(to), is_drawn ? " (drawn)" : "");
}

}  // namespace muster::tune
