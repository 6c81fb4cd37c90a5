// What a rank that fails leaves for its launcher: the file that TORCHELASTIC_ERROR_FILE names, in
// torchelastic's form, so that torchrun shows what a Muster program wrote, and `muster run` what
// Python's `@record` did. Both sides, `diagnose` and `launch`, know the form from here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

inline constexpr std::string_view kErrorFileEnv = "TORCHELASTIC_ERROR_FILE";

struct ErrorReport {
  std::string message;
  std::optional<int64_t> timestamp_s;  ///< seconds since 1970: cut off, of a consequence rounded up
  /// CLOCK_MONOTONIC, which all processes of a host share and nobody sets. Muster's own.
  std::optional<int64_t> monotonic_ns;
  /// The rank fails only because others had failed before. Muster's own.
  bool is_consequence = false;
  /// Of these others, the ranks that had ended.
  std::vector<int64_t> after;

  bool operator==(const ErrorReport&) const = default;
};

/// {"message": {"message": …, "extraInfo": {"timestamp": "1700000000", "muster": {…}}}}
std::string error_report_text(const ErrorReport& report);

/// Reads that, what `@record` writes, and the short form {"message": "…"}. Nothing for all else.
/// Never throws; pure.
std::optional<ErrorReport> parse_error_report(std::string_view text);

}  // namespace muster
