// The command line of a command of `muster`.
#pragma once

#include <memory>
#include <string>

#include "muster/program/line/parse.h"

namespace muster::cli {

/// An App named `muster <name>`; see program::make_app.
inline std::unique_ptr<CLI::App> make_app(const std::string& name,
                                          const std::string& description,
                                          const std::string& examples,
                                          const std::string& usage = "") {
  return program::make_app("muster " + name, description, examples, usage);
}

}  // namespace muster::cli
