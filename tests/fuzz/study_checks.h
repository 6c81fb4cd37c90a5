// What holds of every study that a file may describe.
#pragma once

#include <string>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/tune/core/study_spec.h"
#include "muster/tune/space/command_template.h"

#include "tests/fuzz/fuzz.h"

namespace muster::fuzz {

/// Its space can be drawn from and described, and its command can be expanded.
inline void check_spec(const tune::StudySpec& spec) {
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

/// `parse` reads the file of that name: a study, or one usage error that names the place.
template <class Parse>
void check_study_file(const std::string& name, const Parse& parse) {
  tune::StudySpec spec;
  try {
    spec = parse(name);
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kUsage, "a bad file is a usage error");
    require(std::string(error.what()).starts_with(name), "the place is named");
    return;
  }
  check_spec(spec);
}

}  // namespace muster::fuzz
