// The scalars of a run's event files as TensorBoard shows them: all files in the order of their
// names, points purged that a later process said are made again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file.h"

namespace muster::test {

/// The fields of a protobuf message, by number: whole numbers, doubles and floats as bits, others as
/// bytes. Source: protobuf.dev, encoding.
struct WireMessage {
  std::map<int, std::vector<std::string_view>> bytes;
  std::map<int, uint64_t> numbers;

  explicit WireMessage(std::string_view text) {
    while (!text.empty()) {
      const uint64_t key = varint(text);
      const int field = static_cast<int>(key >> 3);
      if ((key & 7) == 0) numbers[field] = varint(text);
      if ((key & 7) == 1) numbers[field] = fixed(text, 8);
      if ((key & 7) == 5) numbers[field] = fixed(text, 4);
      if ((key & 7) != 2) continue;
      const uint64_t size = varint(text);
      bytes[field].push_back(text.substr(0, size));
      text.remove_prefix(size);
    }
  }

 private:
  static uint64_t varint(std::string_view& text) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(text.front());
      text.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
  }
  static uint64_t fixed(std::string_view& text, size_t size) {
    uint64_t value = 0;
    std::memcpy(&value, text.data(), size);
    text.remove_prefix(size);
    return value;
  }
};

/// By tag, step and value. Purging as TensorBoard's EventAccumulator: a session log START (field 7,
/// status 1) drops what has its step or a later one.
inline std::map<std::string, std::vector<std::pair<int64_t, float>>> tensorboard_points(
    const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::map<std::string, std::vector<std::pair<int64_t, float>>> points;
  for (const auto& file : files) {
    const std::string text = read_file(file);
    for (size_t at = 0; at + 16 <= text.size();) {
      uint64_t size = 0;
      std::memcpy(&size, text.data() + at, sizeof size);
      const WireMessage event(std::string_view(text).substr(at + 12, size));
      at += size + 16;
      const auto step = event.numbers.contains(2) ? static_cast<int64_t>(event.numbers.at(2)) : 0;
      if (event.bytes.contains(7)) {
        for (auto& [tag, curve] : points)
          std::erase_if(curve, [&](const auto& point) { return point.first >= step; });
      }
      if (!event.bytes.contains(5)) continue;
      const WireMessage summary(event.bytes.at(5)[0]);
      for (const std::string_view bytes : summary.bytes.at(1)) {
        const WireMessage value(bytes);
        if (!value.numbers.contains(2)) continue;  // no scalar
        float number = 0;
        std::memcpy(&number, &value.numbers.at(2), sizeof number);
        points[std::string(value.bytes.at(1)[0])].emplace_back(step, number);
      }
    }
  }
  return points;
}

}  // namespace muster::test
