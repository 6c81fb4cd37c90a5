// What a run has learned of its data, as its checkpoints keep it: JSON that only a training writes. Torch-free.
#pragma once

#include <string>
#include <string_view>

#include "muster/base/json.h"

namespace muster::formats {

/// Throws an environment error: `what`, "what the run's rows were read by", is not as a training keeps it.
[[noreturn]] void refuse_learned(std::string_view what, const std::string& why);

/// read(json), for whose errors of type or name it throws that.
template <class Read>
auto read_learned(std::string_view what, const Json& json, const Read& read) {
  try {
    return read(json);
  } catch (const Json::exception& error) {
    refuse_learned(what, error.what());
  }
}

/// The same of JSON that is yet to be read. Throws as parse_json(), too.
template <class Read>
auto parse_learned(std::string_view what, const std::string& text, const Read& read) {
  return read_learned(what, parse_json(text, std::string(what)), read);
}

}  // namespace muster::formats
