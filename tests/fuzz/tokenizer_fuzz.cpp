// A tokenizer file is refused by one environment error, or it encodes any text to ids that are
// there and offsets within the text, and decodes them to UTF-8.
#include <string>

#include "muster/base/error.h"
#include "muster/text.h"
#include "muster/text/unicode/utf8.h"

#include "tests/fuzz/fuzz.h"

namespace muster::fuzz {
namespace {

constexpr const char* kTexts[] = {
    "",
    "a",
    "Hello, world! It's 3.14.",
    " \t\n ab  ba\u00a0",
    "e\u0323\u0301\u00c5\uac01 \u6f22\u5b57 \U0001f642<s>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabababab"};

void check_encoding(const text::Encoding& encoding, std::string_view source) {
  require(encoding.offsets.size() == encoding.size() && encoding.words.size() == encoding.size() &&
              encoding.type_ids.size() == encoding.size() &&
              encoding.attention_mask.size() == encoding.size() &&
              encoding.special_tokens_mask.size() == encoding.size(),
          "all fields are of one length");
  for (const text::TextSpan& span : encoding.offsets)
    require(span.begin <= span.end && span.end <= source.size(), "offsets are within the text");
  for (const text::Encoding& part : encoding.overflowing) check_encoding(part, source);
}

void check_tokenizer(const text::Tokenizer& tokenizer) {
  for (const char* source : kTexts) {
    try {
      const text::Encoding encoding = tokenizer.encode(source);
      check_encoding(encoding, source);
      const std::string decoded = tokenizer.decode(encoding.ids);
      require(text::valid_utf8_prefix(decoded) == decoded.size(), "decoded text is UTF-8");
      tokenizer.encode_pair(source, kTexts[2], {.offsets = text::OffsetUnit::kCodePoints});
    } catch (const Error& error) {
      // Truncation below the special tokens; patterns and normalizers that would not end.
      require(error.kind() != ErrorKind::kInternal, "no internal error");
    }
  }
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  std::optional<text::Tokenizer> tokenizer;
  try {
    tokenizer = text::Tokenizer::parse(fuzz::text_of(data, size), "fuzz");
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kEnvironment, "a bad file is an environment error");
    return 0;
  }
  fuzz::check_tokenizer(*tokenizer);
  return 0;
}
