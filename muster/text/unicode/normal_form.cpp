#include "muster/text/unicode/normal_form.h"

#include <utf8proc.h>

#include "muster/base/error.h"

namespace muster::text {

size_t decompose(char32_t c, bool by_compatibility, Decomposition& out) {
  if (c < 0xA0) {
    out[0] = c;
    return 1;
  }
  std::array<utf8proc_int32_t, std::tuple_size_v<Decomposition>> parts;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (by_compatibility ? UTF8PROC_COMPAT : 0));
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c),
                              parts.data(),
                              static_cast<utf8proc_ssize_t>(parts.size()),
                              options,
                              nullptr);
  if (count < 0 || static_cast<size_t>(count) > parts.size())
    throw internal_error({.refused = "a decomposition", .rule = "it has at most 24 code points"});
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) out[i] = static_cast<char32_t>(parts[i]);
  return static_cast<size_t>(count);
}

int combining_class(char32_t c) {
  if (c < 0x300) return 0;
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

char32_t compose(char32_t first, char32_t second) {
  if (second < 0x300) return 0;  // no composite ends in less
  utf8proc_int32_t pair[] = {static_cast<utf8proc_int32_t>(first),
                             static_cast<utf8proc_int32_t>(second)};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  return utf8proc_normalize_utf32(pair, 2, options) == 1 ? static_cast<char32_t>(pair[0]) : 0;
}

}  // namespace muster::text
