#include "cli/doctor/read_logs.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = 1 << 17;

/// What is no text, though patterns may be found in it: by its first bytes.
struct OtherFormat {
  std::string_view magic;
  const char* what;
  const char* hint;
};

constexpr std::array kOtherFormats{
    OtherFormat{
        "\x7f"
        "ELF",
        "a program or a library",
        "muster doctor --program FILE looks at its libraries; muster doctor -- FILE runs it"},
    OtherFormat{"\x1f\x8b", "compressed by gzip", "zcat FILE | muster doctor -"},
    OtherFormat{"\x28\xb5\x2f\xfd", "compressed by zstd", "zstdcat FILE | muster doctor -"},
    OtherFormat{"\xfd"
                "7zXZ",
                "compressed by xz",
                "xzcat FILE | muster doctor -"},
    OtherFormat{"BZh", "compressed by bzip2", "bzcat FILE | muster doctor -"},
    OtherFormat{"PK\x03\x04",
                "a ZIP archive, as .pt files are",
                "muster doctor reads what a program printed: its stderr and stdout"},
    OtherFormat{"SQLite format 3",
                "a database",
                "muster doctor reads what a program printed; muster study shows a study"}};

/// Null for text, and for what cannot be read twice (a pipe).
const OtherFormat* other_format_of(int fd) {
  std::array<char, 16> first{};
  const ssize_t count = ::pread(fd, first.data(), first.size(), 0);
  if (count <= 0) return nullptr;
  const std::string_view head(first.data(), static_cast<size_t>(count));
  const auto found = std::ranges::find_if(
      kOtherFormats, [&](const OtherFormat& format) { return head.starts_with(format.magic); });
  return found == kOtherFormats.end() ? nullptr : &*found;
}

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

enum class Others { kRefuse, kSkip };

void read_one(const fs::path& path,
              std::optional<int64_t> rank,
              Others others,
              diagnose::LogReader& reader) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    throw usage_error({.refused = "cannot read the log " + path.string(),
                       .rule = errno_text(errno),
                       .hint = "name a file, a folder of logs, or - for stdin"});
  }
  if (const OtherFormat* format = other_format_of(fd.get())) {
    if (others == Others::kSkip) return;
    throw usage_error({.refused = path.string() + " is no log",
                       .rule = "logs are text",
                       .value = format->what,
                       .hint = format->hint});
  }
  reader.begin(path.string(), rank);
  read_descriptor(fd.get(), path.string(), reader);
  reader.end();
}

bool is_log_name(const fs::path& name) {
  constexpr std::array<std::string_view, 4> kKinds{".log", ".err", ".out", ".txt"};
  return std::ranges::find(kKinds, name.extension().string()) != kKinds.end();
}

std::vector<fs::path> logs_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code none;
    if (at->is_regular_file(none) && is_log_name(at->path())) files.push_back(at->path());
  }
  if (error) {
    throw environment_error(
        {.refused = "cannot read the folder " + folder.string(), .rule = error.message()});
  }
  std::ranges::sort(files);
  if (files.empty()) {
    throw usage_error({.refused = "no logs in " + folder.string(),
                       .rule = "a folder has files named *.log, *.err, *.out or *.txt"});
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
        read_one(file, to_int(file.parent_path().filename().string()), Others::kSkip, reader);
    } else {
      read_one(name, std::nullopt, Others::kRefuse, reader);
    }
  }
}

}  // namespace muster::cli
