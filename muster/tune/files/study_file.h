// Study files: TOML that says what `muster tune` runs. The keys are those of StudySpec; see
// docs/tune-space.md.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "muster/tune/core/study_spec.h"

namespace muster::tune {

/// Throws a usage error that begins with FILE:LINE:COL for what is not TOML, an unknown key (the
/// nearest is the hint), a value of the wrong type or beyond its bounds, and everything that Space,
/// parse_stop_criterion and check_command refuse. Paths are relative to the file; storage is
/// NAME.db beside it unless said; name is the file's stem. metric, mode, space and command may be
/// missing, as flags may say them; what is wrong only then is check_study's.
/// `parameters` are those of --param: they replace or join the file's.
StudySpec read_study_file(const std::filesystem::path& file,
                          std::span<const Parameter> parameters = {});
StudySpec parse_study(std::string_view text,
                      const std::filesystem::path& file,
                      std::span<const Parameter> parameters = {});

/// Reads "lr=loguniform(1e-4,1e-1)", "epochs=10", "momentum=uniform(0.8,0.99) when optimizer ==
/// 'sgd'": what is not in brackets is true, false, a number or a text. Throws a usage error that
/// begins with --param.
Parameter parse_param_flag(std::string_view text);

/// `more` in the place of those of the same name, or behind the others.
std::vector<Parameter> merge_parameters(std::span<const Parameter> parameters,
                                        std::span<const Parameter> more);

}  // namespace muster::tune
