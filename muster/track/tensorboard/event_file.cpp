#include "muster/track/tensorboard/event_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <system_error>
#include <utility>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/host.h"
#include "muster/base/text.h"
#include "muster/track/tensorboard/crc32c.h"

namespace muster::track {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";

template <class Integer>
void put_little_endian(std::string& out, Integer value) {
  for (size_t byte = 0; byte < sizeof value; ++byte) {
    out += static_cast<char>(value >> (8 * byte) & 0xff);
  }
}

/// The time in the name of an event file, or -1.
int64_t seconds_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return -1;
  const std::string_view rest = std::string_view(name).substr(kPrefix.size());
  return to_int(rest.substr(0, rest.find('.'))).value_or(-1);
}

int64_t seconds_behind_all(const std::filesystem::path& folder, int64_t now_s) {
  std::error_code unreadable;  // the folder can then not be written either, which is told below
  for (const auto& entry : std::filesystem::directory_iterator(folder, unreadable)) {
    const int64_t seconds = seconds_of(entry.path().filename().string());
    if (seconds < 9'999'999'999) now_s = std::max(now_s, seconds + 1);  // ten digits sort as text
  }
  return now_s;
}

}  // namespace

std::string to_record(std::string_view payload) {
  std::string record;
  record.reserve(payload.size() + 16);
  put_little_endian(record, uint64_t{payload.size()});
  put_little_endian(record, masked_crc32c(record));
  record += payload;
  put_little_endian(record, masked_crc32c(payload));
  return record;
}

std::string event_file_name(int64_t seconds, std::string_view host, int64_t pid, int64_t n) {
  std::array<char, 24> digits{};
  std::snprintf(digits.data(), digits.size(), "%010lld", static_cast<long long>(seconds));
  return concat(kPrefix, digits.data(), '.', host, '.', pid, '.', n);
}

EventFile::EventFile(const std::filesystem::path& folder, double now_s, size_t buffer_bytes)
    : buffer_bytes_(buffer_bytes) {
  make_writable_folder(folder, "folder for TensorBoard events");
  const int64_t seconds = seconds_behind_all(folder, static_cast<int64_t>(std::floor(now_s)));
  for (int64_t n = 0; !fd_; ++n) {
    path_ = folder / event_file_name(seconds, host_name(), ::getpid(), n);
    fd_.reset(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!fd_ && errno != EEXIST) {
      throw environment_error(
          {.refused = "cannot create " + path_.string(), .rule = errno_text(errno)});
    }
  }
}

EventFile::~EventFile() {
  try {
    if (fd_) flush();
  } catch (const Error&) {  // see the header
  }
}

void EventFile::append(std::string_view payload) {
  held_ += to_record(payload);
  if (held_.size() > buffer_bytes_) flush();
}

void EventFile::flush() {
  const std::string bytes = std::exchange(held_, {});
  if (bytes.empty()) return;
  try {
    write_all(fd_.get(), bytes, path_);
  } catch (const Error&) {
    // A reader never gets past half a record in the middle of a file.
    if (::ftruncate(fd_.get(), whole_bytes_) != 0) fd_.reset();
    throw;
  }
  whole_bytes_ += static_cast<int64_t>(bytes.size());
}

std::string end_of_newest_events(const std::filesystem::path& folder, size_t most) {
  std::filesystem::path newest;
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(folder, unreadable))
    if (seconds_of(entry.path().filename().string()) >= 0) newest = std::max(newest, entry.path());
  std::ifstream file(newest, std::ios::binary | std::ios::ate);
  if (newest.empty() || !file) return {};
  const auto length = std::min<std::streamoff>(file.tellg(), static_cast<std::streamoff>(most));
  std::string bytes(static_cast<size_t>(length), '\0');
  file.seekg(-length, std::ios::end);
  file.read(bytes.data(), length);
  return file ? bytes : std::string();
}

}  // namespace muster::track
