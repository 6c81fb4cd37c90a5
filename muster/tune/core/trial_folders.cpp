#include "muster/tune/core/trial_folders.h"

#include <system_error>
#include <variant>

namespace muster::tune {
namespace {

/// As programs spell what is below it: absolute, without a slash at its end.
std::string spelled(const std::filesystem::path& folder) {
  if (folder.empty()) return "";
  std::error_code error;
  std::string path = std::filesystem::absolute(folder, error).lexically_normal().string();
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

TrialFolders::TrialFolders(const std::filesystem::path& now) : now_(spelled(now)) {}

void TrialFolders::put_right(Event& event) {
  if (auto* note = std::get_if<TunerNote>(&event.what)) {
    if (note->folder.empty()) return;
    newest_ = note->folder;
    if (!now_.empty() && newest_ != now_) before_.insert(newest_);
  } else if (auto* started = std::get_if<AttemptStarted>(&event.what)) {
    move(started->from_checkpoint);
  } else if (auto* reported = std::get_if<Reported>(&event.what)) {
    move(reported->report.checkpoint);
  } else if (auto* saved = std::get_if<CheckpointSaved>(&event.what)) {
    move(saved->checkpoint);
  }
}

void TrialFolders::move(std::string& checkpoint) const {
  for (const std::string& folder : before_) {
    if (!checkpoint.starts_with(folder) || checkpoint.substr(folder.size(), 1) != "/") continue;
    checkpoint.replace(0, folder.size(), now_);
    return;
  }
}

}  // namespace muster::tune
