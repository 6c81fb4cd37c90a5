// One file of TensorBoard events: its name, its framing, and how bytes reach the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "muster/base/file.h"

namespace muster::track {

/// `payload` framed as TFRecord: its length as uint64, the masked CRC-32C of those eight bytes, the
/// payload, its masked CRC-32C; all little-endian. Source: TensorFlow, core/lib/io/record_writer.h.
/// Pure; any thread.
std::string to_record(std::string_view payload);

/// "events.out.tfevents.<seconds, ten digits>.<host>.<pid>.<n>".
std::string event_file_name(int64_t seconds, std::string_view host, int64_t pid, int64_t n);

/// A new event file that records are appended to. A record is in the file whole or, after a kill,
/// cut at its end, which TensorBoard's reader waits for and passes over. One thread.
class EventFile {
 public:
  /// Creates the folder and a file in it that sorts behind every event file already there, since
  /// TensorBoard reads the files of a run in the order of their names: its time is `now_s` or one
  /// second after the latest. Up to `buffer_bytes` are held back; 0 writes each record at once.
  /// Throws an environment error.
  EventFile(const std::filesystem::path& folder, double now_s, size_t buffer_bytes);

  EventFile(EventFile&&) = default;

  /// Flushes; what cannot be written then is lost without a word, so flush() before where it
  /// counts.
  ~EventFile();

  /// Appends one record. Throws an environment error (a full disk, say) after cutting the file back
  /// to its last whole record; what was held back is lost, and a later append may succeed.
  void append(std::string_view payload);

  /// Gives what was held back to the kernel, in one write(2). Throws as append() does.
  void flush();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  UniqueFd fd_;
  std::string held_;
  size_t buffer_bytes_ = 0;
  int64_t whole_bytes_ = 0;  // length of the file up to its last whole record
};

/// The last bytes, `most` of them at most, of the event file of `folder` that readers take last.
/// Empty where there is none, or none that can be read.
std::string end_of_newest_events(const std::filesystem::path& folder, size_t most);

}  // namespace muster::track
