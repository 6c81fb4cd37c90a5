// The class of a sample, as a small text or JSON beside its image says it. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster::formats {

/// A class, or why it is none.
struct SaidClass {
  std::string text, fault;
};

/// Which part of a sample says its class: TarIndexOptions::label.
class LabelPart {
 public:
  /// Throws a usage error for what no part that says a class is called.
  explicit LabelPart(const std::string& said);

  /// 0: not this part. Where a sample has several that may say its class, the greatest counts.
  int rank(std::string_view part) const;
  /// More bytes say no class.
  static int64_t most_bytes(std::string_view part);
  /// Throws nothing.
  SaidClass read(std::string_view part, const std::string& contents) const;

 private:
  std::string part_, field_;
  bool is_auto_ = false;
};

/// Whether a part of a sample, in small letters, is its image: jpg, jpeg or png.
bool is_image_part(std::string_view part);

}  // namespace muster::formats
