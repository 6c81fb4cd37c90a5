// A trial of the tests of PBT: `muster_population_trial STEPS EVERY`. Each EVERY-th step it saves a
// checkpoint, a folder named by the step, as many a program does: written beside, then renamed over
// what is there. It holds a lock while it runs: whoever finds it held makes the file `twice`. One that
// cannot read what it is to go on from makes the file `lost`.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <string>

#include "muster/base/json.h"
#include "muster/tune/trial/report.h"

#include "tests/process/tune/locked_folder.h"
#include "tests/process/tune/small_training.h"

namespace {

namespace fs = std::filesystem;
using muster::testing_process::SmallTraining;

bool read(const fs::path& checkpoint, SmallTraining& model) {
  std::ifstream weights(checkpoint / "weights"), optimizer(checkpoint / "optimizer");
  weights >> model.step >> model.weights[0] >> model.weights[1];
  optimizer >> model.speeds[0] >> model.speeds[1];
  return weights && optimizer;
}

fs::path save(const SmallTraining& model, const fs::path& folder) {
  const fs::path place = folder / ("step-" + std::to_string(model.step));
  const fs::path beside = folder / "being-written";
  fs::remove_all(beside);
  fs::create_directory(beside);
  std::ofstream(beside / "weights") << std::setprecision(17) << model.step << ' '
                                    << model.weights[0] << ' ' << model.weights[1] << '\n';
  std::ofstream(beside / "optimizer")
      << std::setprecision(17) << model.speeds[0] << ' ' << model.speeds[1] << '\n';
  fs::remove_all(place);
  fs::rename(beside, place);
  return place;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const long steps = std::atol(argv[1]), every = std::atol(argv[2]);
  const muster::Json params = muster::tune::params();
  const fs::path folder = muster::tune::checkpoint_dir().value_or(".");
  // The lock's place is the trial's, whatever folder its checkpoints have.
  const char* params_file = std::getenv("MUSTER_PARAMS_FILE");
  const fs::path own = params_file != nullptr ? fs::path(params_file).parent_path() : ".";
  muster::testing_process::hold_lock(own);
  SmallTraining model;
  if (const auto from = muster::tune::resume_from(); from && !read(*from, model))
    std::ofstream(own / "lost") << *from;
  while (model.step < steps) {
    model.train(params["lr"], params["momentum"]);
    std::string checkpoint;
    if (model.step % every == 0) checkpoint = save(model, folder);
    const auto action = muster::tune::report({{"loss", model.loss()}},
                                             {.step = model.step, .checkpoint = checkpoint});
    if (action != muster::tune::Action::kContinue) return 0;
  }
}
