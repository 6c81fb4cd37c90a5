// What is recognised in a log, and which of it came first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/diagnose/catalogue/error_row.h"

namespace muster::diagnose {

/// A line by which a row was recognised.
struct Sighting {
  std::string source;           ///< the file's name as given, "-" for stdin, "the program"
  int64_t line = 0;             ///< from 1; 0 of what no line says: how a program ended
  std::optional<int64_t> rank;  ///< who said it, if it is known
  std::string text;             ///< the line, printable, at most kMostTextBytes
};

inline constexpr size_t kMostTextBytes = 400;

enum class Part {
  kFirstCause,   ///< the others follow from it, or nothing is known of what came before
  kConsequence,  ///< of the first cause
  kAlso,         ///< another error that follows from nothing here
  kWarning,      ///< said by warnings only: nothing has failed of it
};

enum class Confidence { kLow, kMedium, kHigh };

struct Finding {
  const ErrorRow* row = nullptr;
  const Cause* cause = nullptr;  ///< one of the row's
  bool cause_is_told = false;    ///< by its condition, and not only because it is the likeliest
  Part part = Part::kAlso;
  Confidence confidence = Confidence::kLow;
  bool by_likeness = false;        ///< no line of it is known: the log's end has its words
  std::string because;             ///< why it has this part; empty where that is plain
  std::vector<Sighting> evidence;  ///< the first few; never empty
  int64_t count = 0;               ///< of all sightings
  std::vector<int64_t> ranks;      ///< that are known to say it, ascending
};

struct LogDiagnosis {
  std::vector<Finding> findings;      ///< the first cause first, if there is one; then by part
  std::vector<Sighting> unexplained;  ///< the last few lines that speak of a failure without a row
  int64_t lines = 0;
  int64_t bytes = 0;

  /// Null if nothing was recognised but warnings.
  const Finding* first_cause() const;
};

/// "high", "medium" or "low"; "first cause", "consequence", "also", "warning".
std::string_view confidence_word(Confidence confidence);
std::string_view part_word(Part part);

/// Recognises the errors of the catalogue in a text. For logs that do not fit into memory see
/// LogReader.
LogDiagnosis classify(std::string_view text);

}  // namespace muster::diagnose
