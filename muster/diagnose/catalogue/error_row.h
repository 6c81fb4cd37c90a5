// The catalogue of errors: what programs on LibTorch say when they fail, why they do, and what to do
// next. One file of muster/diagnose/errors/ adds a family of rows.
#pragma once

#include <span>
#include <string_view>

#include "muster/base/entry.h"

namespace muster::diagnose {

// Note [Depth]
// One failure leaves many messages: the rank that ran out of memory says so, its peers say that a
// connection was closed, the launcher says that it sent SIGTERM, and a device whose kernel has failed
// answers every later call with that error or another. Which of them came first is not to be seen
// from their places in a log, since several processes write into it and each buffers. So each row
// says how far from the beginning its words are spoken, and of two rows the nearer one is taken for
// the cause; places decide between rows of the same depth.
//
// Nobody knows all wordings. A pattern of depth kGuess ("size*got") is only asked where a line speaks
// of a failure, is no warning, and nothing else of the catalogue fits it; a row that is seen so is no
// nearer than its own depth, and said with low confidence.
enum class Depth {
  kAsRow,    ///< of a pattern: as its row has it
  kCause,    ///< says by itself what is wrong
  kLate,     ///< an error of the device that some later call reports
  kGuess,    ///< of a pattern: words of the row's subject, in a line that speaks of a failure
  kEnd,      ///< how a process was ended: the cause, where it is not by one of those above
  kPeer,     ///< of ranks that waited for one that had failed before
  kPerhaps,  ///< others say this, too
};

/// What a row is recognised by.
struct Pattern {
  /// Parts that follow each other on a line, with '*' between them. Case of letters does not count.
  std::string_view text;
  bool (*holds)(std::string_view line) = nullptr;  ///< and this is true of the line
  Depth depth = Depth::kAsRow;
  bool in_warnings = false;  ///< is meant even where the line is a warning's
};

/// A reason for the error of a row, with the next step. Of the causes of a row the first is taken
/// whose condition holds; one without conditions is taken if there is no other.
struct Cause {
  std::string_view why;   ///< a sentence
  std::string_view step;  ///< what to do next: sentences
  /// A pattern that is to be seen within kNearLines of the row's lines.
  std::string_view when = {};
  bool (*holds)(std::string_view line) = nullptr;  ///< is true of one of the row's lines
};

inline constexpr int kNearLines = 50;

struct ErrorRow {
  int number;              ///< in the catalogue, from 1
  std::string_view name;   ///< "cuda-out-of-memory"
  std::string_view title;  ///< "a device is out of memory"
  Depth depth;
  std::span<const Pattern> patterns;
  std::span<const Cause> causes;  ///< the likeliest first; at least one is without conditions
  std::string_view checks;        ///< of muster/diagnose/checks/ that tell more here: "shm, limits"
  std::string_view confirm;       ///< what would prove it, in words
  std::string_view source;        ///< an address where the error is explained; empty: known to all
  bool counts_as_warning = false;  ///< is meant even where the line is a warning's
};

struct ErrorFamilyEntry {
  static constexpr std::string_view kKind = "family of errors";
  std::string_view name;
  std::string_view help;
  std::span<const ErrorRow> rows;
};

/// The families of this build (generated; see Note [Generated tables]).
EntryTable<ErrorFamilyEntry> error_families();

/// The row of that name, or null.
const ErrorRow* find_error_row(std::string_view name);

}  // namespace muster::diagnose
