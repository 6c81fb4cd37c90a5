// One visitor of several lambdas.
#pragma once

namespace muster {

/// std::visit(Overloaded{[](int) {…}, [](const std::string&) {…}}, variant)
template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;  // clang 14 deduces no aggregates by itself

}  // namespace muster
