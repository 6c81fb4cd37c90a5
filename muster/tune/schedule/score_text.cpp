#include "muster/tune/schedule/score_text.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace muster::tune {
namespace {

constexpr int kDigits = 6;
constexpr int kAllDigits = 17;  // which tell any two doubles apart

std::string rounded_text(double number, int digits) {
  if (std::isnan(number)) return "nan";  // whatever its sign
  std::array<char, 40> text{};
  // Adding 0 makes the zero of a negated score a plain one.
  std::snprintf(text.data(), text.size(), "%.*g", digits, number + 0.0);
  return text.data();
}

}  // namespace

std::string metric_text(double score, Mode mode) {
  return rounded_text(score_of(score, mode), kDigits);
}

std::string worse_than_text(double score, double cutoff, Mode mode) {
  const double ours = score_of(score, mode), theirs = score_of(cutoff, mode);
  int digits = kDigits;
  while (digits < kAllDigits && rounded_text(ours, digits) == rounded_text(theirs, digits))
    ++digits;
  return rounded_text(ours, digits) + (mode == Mode::kMax ? " < cutoff " : " > cutoff ") +
         rounded_text(theirs, digits);
}

}  // namespace muster::tune
