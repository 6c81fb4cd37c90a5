// A file as memory, without reading it first.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string_view>

namespace muster {

/// All bytes of a regular file, mapped privately: pages come from the page cache when they are
/// first read, and a page that is written to becomes our own copy; the file never changes. The
/// mapping stands until the object goes, also when the file is removed or another is renamed over
/// it. Whoever shortens the file in place meanwhile ends readers by SIGBUS; files of Muster are
/// never written in place. Reads from any thread.
class MappedFile {
 public:
  /// Throws a usage error if there is no such file or it is no regular file, an environment error
  /// if it cannot be opened or mapped. An empty file is fine.
  static std::shared_ptr<MappedFile> open(const std::filesystem::path& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::string_view bytes() const { return {data_, size_}; }
  char* data() { return data_; }

 private:
  MappedFile(char* data, size_t size) : data_(data), size_(size) {}

  char* data_;
  size_t size_;
};

}  // namespace muster
