// Texts that ranks gather for calls of ours, which do not take each other's for their own.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/distributed/process_group.h"

namespace muster::distributed {

/// What texts are gathered for.
enum class TextCall : uint8_t { kAllGatherText, kGatherText, kSplit, kSubgroup, kMesh };

/// ProcessGroup::all_gather_text() for that call. Throws a usage error on all ranks, with who called
/// what, before any of them has a text, where they do not call the same.
std::vector<std::string> gather_texts_for(TextCall call,
                                          const ProcessGroup& group,
                                          const std::string& text,
                                          std::chrono::milliseconds timeout = {});

}  // namespace muster::distributed
