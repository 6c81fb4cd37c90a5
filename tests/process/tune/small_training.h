// What the trials of the tests of PBT train: two weights, by gradient descent with momentum. All that
// comes of it is a function of the parameters on the whole way from the first step.
#pragma once

#include <cstdint>

namespace muster::testing_process {

struct SmallTraining {
  double weights[2] = {1, -2};
  double speeds[2] = {0, 0};
  int64_t step = 0;

  void train(double lr, double momentum) {
    constexpr double kCurvature[2] = {1, 30};
    for (int i = 0; i < 2; ++i) {
      speeds[i] = momentum * speeds[i] - lr * kCurvature[i] * weights[i];
      weights[i] += speeds[i];
    }
    ++step;
  }
  double loss() const { return (weights[0] * weights[0] + 30 * weights[1] * weights[1]) / 2; }
};

}  // namespace muster::testing_process
