// What all ranks of a group that fails are told, as it travels through the group's store.
#pragma once

#include <string>
#include <vector>

#include "muster/diagnose/record/diagnosis.h"

namespace muster::distributed {

struct Verdict {
  std::string text;  ///< who is to blame, and what for
  std::string hint;  ///< without line ends
  diagnose::Diagnosis::Kind kind = diagnose::Diagnosis::Kind::kUnknown;
  std::vector<int> culprits;

  bool operator==(const Verdict&) const = default;
};

/// The text and two more lines: the hint, and numbers.
std::string verdict_text(const Verdict& verdict);

/// Reads that. All of a text of another form is taken for words.
Verdict verdict_from(const std::string& text);

}  // namespace muster::distributed
