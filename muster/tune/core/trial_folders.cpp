#include "muster/tune/core/trial_folders.h"

#include <system_error>
#include <utility>
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

bool is_below(const std::string& folder, const std::string& path) {
  return path.size() > folder.size() && path[folder.size()] == '/' && path.starts_with(folder);
}

}  // namespace

TrialFolders::TrialFolders(const std::filesystem::path& now) : now_(spelled(now)) {}

void TrialFolders::put_right(Event& event) {
  if (auto* note = std::get_if<TunerNote>(&event.what)) {
    if (note->folder.empty()) return;
    newest_ = note->folder;
    if (!now_.empty() && newest_ != now_) before_.insert(newest_);
  } else if (auto* started = std::get_if<AttemptStarted>(&event.what)) {
    put_right(started->from_checkpoint);
  } else if (auto* reported = std::get_if<Reported>(&event.what)) {
    put_right(reported->report.checkpoint);
  } else if (auto* saved = std::get_if<CheckpointSaved>(&event.what)) {
    put_right(saved->checkpoint);
  }
}

void TrialFolders::put_right(std::string& checkpoint) const {
  // What is within another one comes behind it.
  for (auto folder = before_.rbegin(); folder != before_.rend(); ++folder) {
    if (!is_below(*folder, checkpoint)) continue;
    if (now_.size() > folder->size() && is_below(now_, checkpoint)) return;
    checkpoint.replace(0, folder->size(), now_);
    return;
  }
}

void TrialFolders::go_on_from(std::string newest, std::set<std::string> before) {
  newest_ = std::move(newest);
  before_ = std::move(before);
}

}  // namespace muster::tune
