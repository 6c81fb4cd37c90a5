// Bytes by their place: of a file, or in memory. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "muster/base/file.h"

namespace muster::formats {

/// Bytes that are read where they are wanted. Every member is const and may be called from many threads
/// at once.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual int64_t size() const = 0;
  /// Fills `out` with the bytes from `offset` on; offset + out.size() is at most size().
  virtual void read(int64_t offset, std::span<char> out) const = 0;
};

/// A text that outlives it.
class MemoryBytes final : public ByteSource {
 public:
  explicit MemoryBytes(std::string_view bytes) : bytes_(bytes) {}
  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  void read(int64_t offset, std::span<char> out) const override {
    bytes_.copy(out.data(), out.size(), static_cast<size_t>(offset));
  }

 private:
  std::string_view bytes_;
};

/// A file that stays open. Nothing is read ahead.
class FileBytes final : public ByteSource {
 public:
  /// Throws a usage error if there is no such file, an environment error for what is no file, and for one
  /// that cannot be opened.
  explicit FileBytes(const std::filesystem::path& path);
  int64_t size() const override { return size_; }
  /// Throws an environment error if it cannot be read, or has become shorter.
  void read(int64_t offset, std::span<char> out) const override;

 private:
  std::filesystem::path path_;
  UniqueFd fd_;
  int64_t size_ = 0;
};

}  // namespace muster::formats
