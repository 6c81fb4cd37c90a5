// What it shows: texts to batches of ids and back. First with words and a vocabulary, as torchtext
//     has them; then with a tokenizer that learns its pieces from the texts, saves them in Hugging
//     Face's form, and knows where in a text each of them stands.
// How to run: build/bin/examples/text_batches
// Expected output:
//     12 words: <pad> <unk> the . cat dog and mat on ran sat slept
//     3 rows of 6: 2 4 10 8 2 7 | 2 5 9 3 0 0 | 2 1 11 3 0 0
//     back: the <unk> slept .
//     encoded: the| cat| and| the| dog
//     the ids alone are the same: yes
//     decoded: the cat and the dog
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "muster/text.h"

using namespace muster::text;

const std::vector<std::string> kTexts = {
    "The cat sat on the mat.", "The dog ran.", "The cat and the dog slept."};

void words() {
  Counter counter;
  for (const std::string& text : kTexts) counter.update(basic_english(text));
  Vocab vocab = build_vocab(counter, {.specials = {"<pad>", "<unk>"}});
  vocab.set_default_index(vocab["<unk>"]);
  std::cout << vocab.size() << " words:";
  for (const std::string& token : vocab.get_itos()) std::cout << ' ' << token;

  std::vector<std::vector<std::string>> rows;
  for (const char* text : {"The cat sat on the mat!", "The dog ran.", "The bird slept."})
    rows.push_back(basic_english(text));
  const TokenBatch batch = vocab.encode(rows, {.pad_value = vocab["<pad>"], .max_length = 6});
  std::cout << '\n' << batch.rows << " rows of " << batch.width << ':';
  for (size_t i = 0; i < batch.ids.size(); ++i)
    std::cout << (i > 0 && i % 6 == 0 ? " | " : " ") << batch.ids[i];
  std::cout << "\nback:";
  const std::vector<std::vector<std::string>> back = vocab.decode(batch);
  for (const std::string& word : back[2]) std::cout << ' ' << word;
  std::cout << '\n';
}

void pieces() {
  BpeTrainer trainer({.vocab_size = 300, .special_tokens = {"<|end|>"}});
  for (const std::string& text : kTexts) trainer.add(text);
  const Tokenizer tokenizer = Tokenizer::parse(trainer.tokenizer_json(), "learned");

  const std::string text = "the cat and the dog";
  const Encoding encoding = tokenizer.encode(text);
  std::cout << "encoded: ";
  for (size_t i = 0; i < encoding.size(); ++i) {
    const TextSpan span = encoding.offsets[i];
    const bool gap = i > 0 && span.begin > encoding.offsets[i - 1].end;
    std::cout << (i > 0 ? "|" : "") << (gap ? " " : "")
              << text.substr(span.begin, span.end - span.begin);
  }
  std::vector<int64_t> ids;
  tokenizer.append_ids(text, ids);
  const bool same = std::equal(ids.begin(), ids.end(), encoding.ids.begin(), encoding.ids.end());
  std::cout << "\nthe ids alone are the same: " << (same ? "yes" : "no") << '\n';
  std::cout << "decoded: " << tokenizer.decode(encoding.ids) << '\n';
}

int main() {
  words();
  pieces();
}
