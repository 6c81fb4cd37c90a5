#include "muster/base/error.h"

#include <utility>

#include <errno.h>
#include <string.h>

namespace muster {
namespace {

std::string compose(const ErrorText& text) {
  std::string out = text.refused;
  if (!text.rule.empty()) out += (out.empty() ? "" : ": ") + text.rule;
  if (!text.value.empty()) out += " (got " + text.value + ")";
  if (!text.hint.empty()) out += "\nhint: " + text.hint;
  return out;
}

}  // namespace

Error::Error(ErrorKind kind, ErrorText text)
    : std::runtime_error(compose(text)), kind_(kind), text_(std::move(text)) {}

Error usage_error(ErrorText text) { return {ErrorKind::kUsage, std::move(text)}; }
Error environment_error(ErrorText text) { return {ErrorKind::kEnvironment, std::move(text)}; }

Error internal_error(ErrorText text) {
  if (text.hint.empty()) text.hint = "this is a bug in Muster; please report it with this message";
  return {ErrorKind::kInternal, std::move(text)};
}

std::string errno_text(int errno_value) {
  const char* text = strerrordesc_np(errno_value);
  const char* name = strerrorname_np(errno_value);
  if (text == nullptr) return "error " + std::to_string(errno_value);
  const std::string both =
      std::string(text) + (name != nullptr ? " (" + std::string(name) + ")" : "");
  if (errno_value != ENAMETOOLONG) return both;
  return both + ", a name in a path has at most 255 bytes, a path 4095";
}

}  // namespace muster
