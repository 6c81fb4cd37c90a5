// What test_text.py compares with Python. A line of JSON on standard input is answered by one on
// standard output:
//
//     text_twin words              "text"                   its basic_english words
//     text_twin lower              "text"                   python_lower
//     text_twin vocab              {"words", "min_freq", …} the tokens, by both orders
//     text_twin encode FILE        {"text", "pair", …}      the encoding, offsets in code points
//     text_twin decode FILE        {"ids", "skip"}          the text
//     text_twin train              {"texts", …}             the tokenizer.json
#include <iostream>
#include <string>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/text.h"
#include "muster/text/unicode/properties.h"

namespace {

using muster::Json;
namespace text = muster::text;

Json words(const Json& line) { return text::basic_english(line.get<std::string>()); }

Json vocab(const Json& line) {
  text::Counter counter;
  counter.update(line["words"].get<std::vector<std::string>>());
  const text::VocabOptions options{.min_freq = line["min_freq"].get<int64_t>(),
                                   .specials = line["specials"].get<std::vector<std::string>>(),
                                   .special_first = line["special_first"].get<bool>()};
  std::optional<int64_t> most;
  if (!line["max_tokens"].is_null()) most = line["max_tokens"].get<int64_t>();
  Json out;
  out["seen"] = text::vocab(counter, options).get_itos();
  out["frequent"] = text::build_vocab(counter, options, most).get_itos();
  return out;
}

Json shown(const text::Encoding& encoding) {
  Json out;
  out["ids"] = encoding.ids;
  out["type_ids"] = encoding.type_ids;
  out["offsets"] = Json::array();
  for (const text::TextSpan& span : encoding.offsets)
    out["offsets"].push_back({span.begin, span.end});
  out["words"] = encoding.words;
  out["special"] = encoding.special_tokens_mask;
  out["attention"] = encoding.attention_mask;
  out["overflowing"] = Json::array();
  for (const text::Encoding& part : encoding.overflowing) out["overflowing"].push_back(shown(part));
  return out;
}

Json encode(const text::Tokenizer& tokenizer, const Json& line) {
  const text::EncodeOptions options{.add_special_tokens = line.value("special", true),
                                    .offsets = text::OffsetUnit::kCodePoints};
  const auto first = line["text"].get<std::string>();
  if (line.contains("pair"))
    return shown(tokenizer.encode_pair(first, line["pair"].get<std::string>(), options));
  Json out = shown(tokenizer.encode(first, options));
  std::vector<int64_t> ids;
  tokenizer.append_ids(first, ids, options.add_special_tokens);
  out["ids_alone"] = ids;
  return out;
}

Json train(const Json& line) {
  text::BpeTrainer trainer({.vocab_size = line["vocab_size"].get<int64_t>(),
                            .min_frequency = line["min_frequency"].get<int64_t>(),
                            .special_tokens = line["special"].get<std::vector<std::string>>(),
                            .add_prefix_space = line["prefix"].get<bool>()});
  for (const Json& some : line["texts"]) trainer.add(some.get<std::string>());
  return trainer.tokenizer_json();
}

Json answer(const std::string& command, const text::Tokenizer* tokenizer, const Json& line) {
  if (command == "words") return words(line);
  if (command == "lower") return text::python_lower(line.get<std::string>());
  if (command == "vocab") return vocab(line);
  if (command == "train") return train(line);
  if (command == "encode") return encode(*tokenizer, line);
  return tokenizer->decode(line["ids"].get<std::vector<uint32_t>>(), line["skip"].get<bool>());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string command = argc > 1 ? argv[1] : "";
    std::optional<text::Tokenizer> tokenizer;
    if (argc > 2) tokenizer = text::Tokenizer::load(argv[2]);
    std::string line;
    while (std::getline(std::cin, line))
      std::cout << answer(command, tokenizer ? &*tokenizer : nullptr, Json::parse(line)).dump()
                << '\n';
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
