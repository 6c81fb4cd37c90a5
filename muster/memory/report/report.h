// Out of memory, explained: what is told a person, and a program.
#pragma once

#include <cstddef>
#include <string>

#include "muster/base/json_fwd.h"
#include "muster/memory/report/cause.h"
#include "muster/memory/report/facts.h"

namespace muster::memory {

struct OomReport {
  OomFacts facts;
  OomCause cause;

  /// "live tensors: tensors hold 492 KiB of …", one line of any length.
  std::string headline() const;
  /// Several lines of at most `width` columns, the last one ended.
  std::string text(size_t width = 80, size_t holders = 10) const;
};

/// Everything; bytes as numbers, what is not known left out.
Json json_of(const OomReport& report);

}  // namespace muster::memory
