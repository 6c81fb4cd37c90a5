// The secret of a job: what its launcher gives its ranks, and nobody else on the machine can read.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

/// In the environment, which other users cannot see, and not among the arguments, which all can.
inline constexpr std::string_view kJobKeyEnv = "MUSTER_JOB_KEY";

/// 128 bits. `muster run` makes one for each job of one machine; a job of several machines has one
/// if the variable is set for the launchers on all of them.
class JobKey {
 public:
  /// From the kernel's generator. Throws an environment error.
  static JobKey make();
  /// From text(). Throws a usage error that names the variable.
  static JobKey parse(std::string_view text);

  std::string text() const;  ///< 32 hexadecimal digits

  /// What only those can compute who have the key: 64 bits. Source: SipHash-2-4 (Aumasson and
  /// Bernstein 2012).
  uint64_t tag(std::string_view bytes) const;

  bool operator==(const JobKey&) const = default;

 private:
  std::array<uint64_t, 2> words_{};
};

}  // namespace muster
