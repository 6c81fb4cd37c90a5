#include "muster/launch/process/program.h"

#include <errno.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::launch {
namespace {

/// Empty if `file` can be executed, else why not.
std::string why_not(const std::filesystem::path& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) return "no such file";
  if (std::filesystem::is_directory(status)) return "it is a folder";
  if (::access(file.c_str(), X_OK) != 0) return "it is not executable";
  return "";
}

std::string advice(const std::string& name, const std::string& reason) {
  if (reason != "it is not executable") return "";
  return name.ends_with(".py") ? "muster run … -- python3 " + name : "chmod +x " + name;
}

}  // namespace

std::filesystem::path find_program(const std::string& name, std::string_view path) {
  if (name.find('/') != std::string::npos) {
    const std::string reason = why_not(name);
    if (reason.empty()) return name;
    throw usage_error(
        {.refused = "cannot run " + name, .rule = reason, .hint = advice(name, reason)});
  }
  std::string near_miss;
  for (const std::string& folder : split(path, ':')) {
    const std::filesystem::path file = std::filesystem::path(folder.empty() ? "." : folder) / name;
    const std::string reason = why_not(file);
    if (reason.empty()) return file;
    if (reason == "it is not executable" && near_miss.empty()) near_miss = file.string();
  }
  if (!near_miss.empty()) {
    throw usage_error({.refused = "cannot run " + near_miss,
                       .rule = "it is not executable",
                       .hint = "chmod +x " + near_miss});
  }
  if (name.ends_with(".py")) {
    throw usage_error({.refused = "cannot run " + name,
                       .rule = "it is a Python script",
                       .hint = "muster run … -- python3 " + name});
  }
  const bool here = std::filesystem::exists(name);
  throw usage_error({.refused = "program not found: " + name,
                     .rule = "it is in no folder of PATH",
                     .hint = here ? "a program of this folder is written ./" + name : ""});
}

std::string exec_failure(const std::filesystem::path& program, int errno_value) {
  std::string hint;
  if (errno_value == ENOEXEC) hint = "a script needs a first line such as #!/bin/sh";
  if (errno_value == ENOENT) hint = "its interpreter (first line, or ELF loader) is missing";
  if (errno_value == E2BIG) hint = "arguments and environment together are too long";
  return concat("cannot run ",
                program.string(),
                ": ",
                errno_text(errno_value),
                hint.empty() ? "" : "\nhint: ",
                hint);
}

}  // namespace muster::launch
