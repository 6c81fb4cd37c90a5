// A trial in the tests of the tuner: `muster_killable_trial LR L1 STEPS CHECKPOINTS`. Its accuracy
// is a function of LR, L1 and the step alone. With CHECKPOINTS (0 or 1) each step leaves a file,
// from which a resumed trial goes on. It holds a lock while it runs: whoever finds it held makes
// the file `twice`. One that cannot read what it is to go on from makes the file `lost`.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "muster/tune/trial/report.h"

#include "tests/process/tune/locked_folder.h"

namespace {

namespace fs = std::filesystem;

double accuracy(double lr, double l1, double step) {
  const double distance = std::log10(lr) + 2;
  return 0.9 - 0.1 * distance * distance - 0.5 / (step + 1) + std::log2(l1) / 100;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const double lr = std::atof(argv[1]), l1 = std::atof(argv[2]);
  const long steps = std::atol(argv[3]);
  const bool checkpoints = argv[4][0] == '1';
  const fs::path folder = muster::tune::checkpoint_dir().value_or(".");
  muster::testing_process::hold_lock(folder);
  long step = 0;
  if (const auto from = muster::tune::resume_from()) {
    if (!(std::ifstream(*from) >> step)) std::ofstream(folder / "lost") << *from;
  }
  while (++step <= steps) {
    std::string checkpoint;
    if (checkpoints) {
      checkpoint = (folder / ("step-" + std::to_string(step))).string();
      std::ofstream(checkpoint) << step;
    }
    const auto action =
        muster::tune::report({{"accuracy", accuracy(lr, l1, double(step))}, {"size", l1}},
                             {.step = step, .checkpoint = checkpoint});
    if (action != muster::tune::Action::kContinue) return 0;
  }
}
