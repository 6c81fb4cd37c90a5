// A trial in C++, as docs/trial-protocol.md has it.
#include "muster/tune.h"

int main() {
  using namespace muster;
  const Json params = tune::params();
  const double lr = params.value("lr", 0.1);
  double loss = 1;
  for (int64_t epoch = 1; epoch <= 10; ++epoch) {
    loss *= 1 - lr;
    if (tune::report({{"loss", loss}}, {.step = epoch}) != tune::Action::kContinue) break;
  }
}
