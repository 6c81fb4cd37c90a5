#include "muster/text/subword/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::text {

struct Regex::Code {
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;

  Code() = default;
  Code(const Code&) = delete;
  ~Code() {
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
  }
};

Regex::Regex(const std::string& pattern, const std::string& where) : code_(new Code) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  const auto* text = reinterpret_cast<PCRE2_SPTR>(pattern.data());
  code_->code = pcre2_compile(text,
                              pattern.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                              &error,
                              &offset,
                              nullptr);
  if (code_->code == nullptr) {
    PCRE2_UCHAR message[200] = {};
    pcre2_get_error_message(error, message, sizeof message);
    throw environment_error({.refused = where,
                             .rule = concat("PCRE2 reads the pattern: ",
                                            reinterpret_cast<const char*>(message),
                                            " at byte ",
                                            offset),
                             .value = pattern.substr(0, 200),
                             .hint = {}});
  }
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);  // where there is none, it is interpreted
  code_->limits = pcre2_match_context_create(nullptr);
  if (code_->limits == nullptr)
    throw environment_error({.refused = where, .rule = "there is memory", .value = {}, .hint = {}});
  pcre2_set_match_limit(code_->limits, 10'000'000);
}

Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

void Regex::matches(std::string_view text,
                    uint32_t begin,
                    uint32_t end,
                    std::vector<Match>& out) const {
  struct Data {
    explicit Data(const pcre2_code* code)
        : data(pcre2_match_data_create_from_pattern(code, nullptr)) {}
    Data(const Data&) = delete;
    ~Data() { pcre2_match_data_free(data); }
    pcre2_match_data* data;
  };
  const Data found(code_->code);
  const std::string_view part = text.substr(begin, end - begin);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(part.data());
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(found.data);
  size_t at = 0, last = 0;
  while (at < part.size()) {
    const int result = pcre2_match(
        code_->code, subject, part.size(), at, PCRE2_NO_UTF_CHECK, found.data, code_->limits);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      throw environment_error({.refused = "a pattern of the tokenizer",
                               .rule = "it is matched within bounds of time and memory",
                               .value = concat("PCRE2's error ", result),
                               .hint = {}});
    }
    const size_t first = ends[0], next = ends[1];
    if (next <= first) {  // nothing: on with the next code point
      at = std::max(at, first) + 1;
      while (at < part.size() && (static_cast<uint8_t>(part[at]) & 0xC0) == 0x80) ++at;
      continue;
    }
    if (first > last)
      out.push_back(
          {begin + static_cast<uint32_t>(last), begin + static_cast<uint32_t>(first), false});
    out.push_back(
        {begin + static_cast<uint32_t>(first), begin + static_cast<uint32_t>(next), true});
    at = last = next;
  }
  if (last < part.size()) out.push_back({begin + static_cast<uint32_t>(last), end, false});
}

std::string literal_pattern(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<uint8_t>(c) < 0x80 && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') &&
        !(c >= 'A' && c <= 'Z') && c != '\0')
      out += '\\';
    if (c == '\0') {
      out += "\\x{0}";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace muster::text
