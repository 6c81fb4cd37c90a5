// The projects that `muster new` writes.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::cli {

/// A file of a project, as examples/new has it.
struct ProjectText {
  std::string_view task;  ///< empty: of every project
  std::string_view path;  ///< in the project
  std::string_view text;  ///< with PROJECT_NAME and the like
};

/// All of them (written by cmake/ProjectTexts.cmake).
std::span<const ProjectText> project_texts();

/// What --task may say.
std::vector<std::string> project_tasks();

/// Writes the project into `folder`, whose last part is its name. The folder appears when it is
/// whole. Throws a usage error for an unknown task, a name that CMake cannot take, or a folder that
/// is there and not empty; an environment error for what cannot be written.
void write_project(const std::filesystem::path& folder, const std::string& task);

}  // namespace muster::cli
