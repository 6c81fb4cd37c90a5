// One exception type for all of Muster, in three kinds that decide the exit code and the advice.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace muster {

/// Who can mend it: the caller (kUsage, exit 2), the machine around us (kEnvironment, exit 1), or
/// we (kInternal, exit 1).
enum class ErrorKind { kUsage, kEnvironment, kInternal };

/// What every error of Muster says. Empty parts are left out of the text.
struct ErrorText {
  std::string refused;  ///< what was refused: "world size 0"
  std::string rule;     ///< the rule it broke: "the world size is at least 1"
  std::string value;    ///< the value given, as it was given: "WORLD_SIZE=0"
  std::string hint;     ///< the next step: "start the program with `muster run`"
};

/// what() is "refused: rule (got value)\nhint: hint".
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, ErrorText text);

  ErrorKind kind() const { return kind_; }
  const ErrorText& text() const { return text_; }

  /// The exit code of a program that ends with this error: 2 for usage, 1 for the rest.
  int exit_code() const { return kind_ == ErrorKind::kUsage ? 2 : 1; }

 private:
  ErrorKind kind_;
  ErrorText text_;
};

/// `throw usage_error({.refused = …, .rule = …, .value = …, .hint = …});` reads as a sentence at
/// the place of the check.
Error usage_error(ErrorText text);
Error environment_error(ErrorText text);
Error internal_error(ErrorText text);

/// The text of `errno_value` with its name: "No space left on device (ENOSPC)".
std::string errno_text(int errno_value);

}  // namespace muster
