#include "muster/tune/space/draw_function.h"

#include <array>

namespace muster::tune {
namespace {

using Arguments = std::vector<Value>;

double number_at(const Arguments& a, size_t i, double otherwise = 0) {
  return i < a.size() ? a[i].as_double() : otherwise;
}

constexpr std::array kDrawFunctions = {
    DrawFunction{"choice", "choice(A, B, …)", 1, 0, [](const Arguments& a) { return choice(a); }},
    DrawFunction{"grid_search",
                 "grid_search(A, B, …)",
                 1,
                 0,
                 [](const Arguments& a) { return grid_search(a); }},
    DrawFunction{"uniform",
                 "uniform(LOW, HIGH)",
                 2,
                 2,
                 [](const Arguments& a) { return uniform(number_at(a, 0), number_at(a, 1)); }},
    DrawFunction{"loguniform",
                 "loguniform(LOW, HIGH)",
                 2,
                 2,
                 [](const Arguments& a) { return loguniform(number_at(a, 0), number_at(a, 1)); }},
    DrawFunction{"quniform",
                 "quniform(LOW, HIGH, Q)",
                 3,
                 3,
                 [](const Arguments& a) {
                   return quniform(number_at(a, 0), number_at(a, 1), number_at(a, 2));
                 }},
    DrawFunction{"qloguniform",
                 "qloguniform(LOW, HIGH, Q)",
                 3,
                 3,
                 [](const Arguments& a) {
                   return qloguniform(number_at(a, 0), number_at(a, 1), number_at(a, 2));
                 }},
    DrawFunction{"randint",
                 "randint(LOW, HIGH)",
                 2,
                 2,
                 [](const Arguments& a) { return randint(a[0].as_int(), a[1].as_int()); }},
    DrawFunction{
        "qrandint",
        "qrandint(LOW, HIGH, Q)",
        3,
        3,
        [](const Arguments& a) { return qrandint(a[0].as_int(), a[1].as_int(), a[2].as_int()); }},
    DrawFunction{"lograndint",
                 "lograndint(LOW, HIGH)",
                 2,
                 2,
                 [](const Arguments& a) { return lograndint(a[0].as_int(), a[1].as_int()); }},
    DrawFunction{"qlograndint",
                 "qlograndint(LOW, HIGH, Q)",
                 3,
                 3,
                 [](const Arguments& a) {
                   return qlograndint(a[0].as_int(), a[1].as_int(), a[2].as_int());
                 }},
    DrawFunction{"randn",
                 "randn(MEAN, SD)",
                 0,
                 2,
                 [](const Arguments& a) { return randn(number_at(a, 0), number_at(a, 1, 1)); }},
    DrawFunction{"qrandn",
                 "qrandn(MEAN, SD, Q)",
                 3,
                 3,
                 [](const Arguments& a) {
                   return qrandn(number_at(a, 0), number_at(a, 1), number_at(a, 2));
                 }},
};

}  // namespace

std::span<const DrawFunction> draw_functions() { return kDrawFunctions; }

const DrawFunction* find_draw(std::string_view name) {
  for (const DrawFunction& function : kDrawFunctions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

}  // namespace muster::tune
