// Where the files of a study's trials have lain, and where they lie now.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "muster/tune/core/event.h"

namespace muster::tune {

// Note [Moved trial folders]
// Trials report checkpoints by absolute paths, and the log keeps what they said. A study that was
// moved or copied has its trials' folder elsewhere, so each tuner that finds it at a new place says
// so in the log (TunerNote::folder), and whoever reads the log reads a path below one of the
// places before as the same path below the present one. Never is the old place looked at: the
// files there are another study's by now. Paths outside of these folders stay as they are. Of
// folders within each other the innermost counts. Who asks says it, too, where the log names
// another folder or none: it writes paths as they are here, and a tuner may never come.

class TrialFolders {
 public:
  /// `now`: the folder of this study's trials. Empty, and that of no file: paths stay as they are.
  explicit TrialFolders(const std::filesystem::path& now);

  /// All events in their order: puts their checkpoints where they lie now.
  void put_right(Event& event);

  /// The same for a path of which no event has been made yet.
  void put_right(std::string& checkpoint) const;

  /// put_right may change an event.
  bool has_places_before() const { return !before_.empty(); }
  /// The newest folder that the log names is another one, or it names none.
  bool has_moved() const { return !now_.empty() && newest_ != now_; }
  const std::string& now() const { return now_; }
  /// The newest folder that the log names; empty: none.
  const std::string& newest() const { return newest_; }
  /// Those that it names besides the present one.
  const std::set<std::string>& before() const { return before_; }
  /// As if the events that named these had been put right.
  void go_on_from(std::string newest, std::set<std::string> before);

 private:
  std::string now_, newest_;
  std::set<std::string> before_;
};

}  // namespace muster::tune
