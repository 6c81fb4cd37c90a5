// A study file is refused by one usage error that names its place, or it is a study whose space can
// be drawn from and described, and whose command can be expanded.
#include <string>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/tune/files/study_file.h"
#include "muster/tune/space/command_template.h"

#include "tests/fuzz/fuzz.h"

namespace muster::fuzz {
namespace {

constexpr const char* kFile = "folder/fuzz.toml";

void check_spec(const tune::StudySpec& spec) {
  require(tune::Space::from_description(spec.space.description()).description() ==
              spec.space.description(),
          "a description reads back");
  tune::Point point = spec.space.draw({}, spec.seed, 0);
  for (const size_t d : spec.space.grid_dimensions()) point[d] = 0;
  try {
    const tune::Values values = spec.space.resolve(spec.space.with_conditions(point));
    if (!spec.command.empty()) tune::expand_command(spec.command, spec.space, values);
  } catch (const Error& error) {  // an expression without a value just there
    require(error.kind() == ErrorKind::kUsage, "what has no value is a usage error");
  }
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  tune::StudySpec spec;
  try {
    spec = tune::parse_study(fuzz::text_of(data, size), fuzz::kFile);
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kUsage, "a bad file is a usage error");
    fuzz::require(std::string(error.what()).starts_with(fuzz::kFile), "the place is named");
    return 0;
  }
  fuzz::check_spec(spec);
  return 0;
}
