#include "cli/doctor/read_logs.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include <fcntl.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = 1 << 17;

void read_descriptor(int fd, const std::string& name, diagnose::LogReader& reader) {
  std::vector<char> bytes(kReadBytes);
  while (true) {
    const ssize_t count = ::read(fd, bytes.data(), bytes.size());
    if (count == 0) return;
    if (count > 0) {
      reader.read({bytes.data(), static_cast<size_t>(count)});
    } else if (errno != EINTR) {
      throw environment_error({.refused = "cannot read " + name, .rule = errno_text(errno)});
    }
  }
}

void read_one(const fs::path& path, std::optional<int64_t> rank, diagnose::LogReader& reader) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    throw usage_error({.refused = "cannot read the log " + path.string(),
                       .rule = errno_text(errno),
                       .hint = "name a file, a folder of logs, or - for stdin"});
  }
  reader.begin(path.string(), rank);
  read_descriptor(fd.get(), path.string(), reader);
  reader.end();
}

std::vector<fs::path> logs_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string kind = at->path().extension().string();
    std::error_code none;
    if (at->is_regular_file(none) && (kind == ".log" || kind == ".txt" || kind == ".err"))
      files.push_back(at->path());
  }
  std::ranges::sort(files);
  if (files.empty()) {
    throw usage_error({.refused = "no logs in " + folder.string(),
                       .rule = "a folder has files named *.log, *.err or *.txt"});
  }
  return files;
}

}  // namespace

void read_logs(const std::vector<std::string>& names, diagnose::LogReader& reader) {
  for (const std::string& name : names) {
    std::error_code none;
    if (name == "-") {
      reader.begin("stdin");
      read_descriptor(STDIN_FILENO, "stdin", reader);
      reader.end();
    } else if (fs::is_directory(name, none)) {
      for (const fs::path& file : logs_below(name))
        read_one(file, to_int(file.parent_path().filename().string()), reader);
    } else {
      read_one(name, std::nullopt, reader);
    }
  }
}

}  // namespace muster::cli
