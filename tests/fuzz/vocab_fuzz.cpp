// A vocabulary file, or a plain list of words, is refused by one environment error, or it is a
// vocabulary that reads back as the same when it is written.
#include "muster/base/error.h"
#include "muster/text.h"

#include "tests/fuzz/fuzz.h"

namespace muster::fuzz {
namespace {

template <class Parse>
void check_vocab(std::string_view bytes, Parse parse) {
  text::Vocab vocab;
  try {
    vocab = parse(bytes);
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kEnvironment, "a bad file is an environment error");
    require(std::string_view(error.what()).starts_with("fuzz:"), "file and line are named");
    return;
  }
  for (int64_t id = 0; id < vocab.size(); ++id)
    require(vocab.find(vocab.lookup_token(id)) == id, "each token has its id");
  require(text::parse_vocab(text::vocab_text(vocab), "again") == vocab, "it reads back");
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  const std::string_view bytes = fuzz::text_of(data, size);
  fuzz::check_vocab(bytes, [](std::string_view file) { return text::parse_vocab(file, "fuzz"); });
  fuzz::check_vocab(bytes,
                    [](std::string_view file) { return text::parse_word_list(file, "fuzz"); });
  return 0;
}
