// A piece of what searcher and scheduler of a study were told, as it is stored beside the log.
#pragma once

#include <cstdint>
#include <string>

namespace muster::tune {

// Note [Calls beside the log]
// A searcher is what it was told and a scheduler what it was called with (Notes [Searchers], [Schedulers]),
// so the same calls in the same order make the same one, whoever wrote it: it needs no save and no load
// of its own. They are a small part of the log: numbers, without reasons, values, checks and the core that
// they went through. They are kept in pieces, each of the events since the one before; a reader
// takes the pieces up to an outline's event, and replays what is behind it (Note [Outlines]).
// `chain` is a digest of `rules` and of all calls so far. The outline has the newest one, so that pieces
// and outline belong together or are not taken; the log stays the truth.

struct CallPiece {
  int64_t after = 0;  ///< it begins behind this event; 0: it is the first, and replaces all others
  int64_t event = 0;  ///< and ends with this one; 0: there is none
  std::string rules;  ///< what calls hang on besides the log: StudyCore::call_rules
  std::string chain;
  std::string calls;  ///< a line each
};

}  // namespace muster::tune
