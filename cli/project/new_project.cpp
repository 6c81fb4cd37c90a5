#include "cli/project/new_project.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;

/// What a study of such a project improves.
struct Goal {
  std::string_view task, metric, mode;
};
constexpr std::array<Goal, 3> kGoals = {
    {{"classify", "accuracy", "max"}, {"regress", "loss", "min"}, {"own", "loss", "min"}}};

const Goal& goal_of(const std::string& task) {
  for (const Goal& goal : kGoals) {
    if (goal.task == task) return goal;
  }
  const std::vector<std::string> known = project_tasks();
  throw usage_error({.refused = "--task",
                     .rule = join(known, ", "),
                     .value = task,
                     .hint = suggestion(task, known)});
}

/// A target of CMake, and a program.
std::string project_name(const fs::path& folder) {
  // What CMake calls by these names itself, whatever generates its files, and what LibTorch's package does.
  static const std::set<std::string_view> taken{"all",
                                                "clean",
                                                "help",
                                                "install",
                                                "main",
                                                "muster",
                                                "package",
                                                "test",
                                                "edit_cache",
                                                "torch",
                                                "torch_cpu",
                                                "torch_library",
                                                "c10",
                                                "ALL_BUILD",
                                                "rebuild_cache",
                                                "RUN_TESTS",
                                                "INSTALL",
                                                "PACKAGE"};
  const fs::path whole = fs::absolute(folder).lexically_normal();
  const std::string name = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
  };
  const bool is_word = !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) != 0 &&
                       std::ranges::all_of(name, fits);
  if (is_word && !taken.contains(name)) return name;
  throw usage_error({.refused = "muster new " + folder.string(),
                     .rule = is_word
                                 ? "the folder's name is the program's, and no target of CMake's"
                                 : "the folder's name is the program's: letters, digits, _ and -, "
                                   "a letter first",
                     .value = name.empty() ? "no name" : name});
}

void check_is_free(const fs::path& folder) {
  const auto refuse = [&](const char* rule) {
    throw usage_error({.refused = "muster new " + folder.string(),
                       .rule = rule,
                       .hint = "name a folder that is not there"});
  };
  std::error_code error;
  const fs::file_status there = fs::symlink_status(folder, error);
  if (!fs::exists(there)) return;
  if (!fs::is_directory(there)) refuse("there is a file of that name");
  if (!fs::is_empty(folder)) refuse("the folder is there and not empty");
  if (fs::equivalent(folder, fs::current_path(), error)) refuse("it is the current folder");
}

std::string filled(std::string text, std::span<const std::pair<std::string, std::string>> words) {
  for (const auto& [word, value] : words) {
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += value.size())
      text.replace(at, word.size(), value);
  }
  return text;
}

/// A folder beside `folder` that goes away unless it is put in its place.
class FolderToBe {
 public:
  explicit FolderToBe(const fs::path& folder) : folder_(folder) {
    const fs::path parent = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
    std::error_code error;
    fs::create_directories(parent, error);
    std::string pattern = (parent / ("." + folder.filename().string() + ".XXXXXX")).string();
    if (error || ::mkdtemp(pattern.data()) == nullptr) {
      throw environment_error({.refused = "cannot create a folder in " + parent.string(),
                               .rule = error ? error.message() : errno_text(errno)});
    }
    temporary_ = pattern;
  }
  FolderToBe(const FolderToBe&) = delete;
  FolderToBe& operator=(const FolderToBe&) = delete;
  ~FolderToBe() {
    std::error_code none;
    if (!temporary_.empty()) fs::remove_all(temporary_, none);
  }

  const fs::path& path() const { return temporary_; }

  void put_in_place() {
    // mkdtemp's is for its owner alone.
    const mode_t mask = ::umask(0);
    ::umask(mask);
    ::chmod(temporary_.c_str(), 0777 & ~mask);
    std::error_code error;
    fs::rename(temporary_, folder_, error);
    if (error) {
      throw environment_error(
          {.refused = "cannot create " + folder_.string(), .rule = error.message()});
    }
    temporary_.clear();
  }

 private:
  fs::path folder_, temporary_;
};

}  // namespace

std::vector<std::string> project_tasks() {
  std::vector<std::string> tasks;
  tasks.reserve(std::size(kGoals));
  for (const Goal& goal : kGoals) tasks.emplace_back(goal.task);
  return tasks;
}

void write_project(const fs::path& folder, const std::string& task) {
  const Goal& goal = goal_of(task);
  const std::string name = project_name(folder);
  check_is_free(folder);
  const std::array<std::pair<std::string, std::string>, 4> words = {
      {{"PROJECT_NAME", name},
       {"PROJECT_TASK", task},
       {"PROJECT_METRIC", std::string(goal.metric)},
       {"PROJECT_MODE", std::string(goal.mode)}}};
  const fs::path place = folder.has_filename() ? folder : folder.parent_path();
  FolderToBe project(place);
  for (const ProjectText& file : project_texts()) {
    if (file.task.empty() || file.task == task)
      write_file_atomic(project.path() / file.path, filled(std::string(file.text), words));
  }
  project.put_in_place();
}

}  // namespace muster::cli
