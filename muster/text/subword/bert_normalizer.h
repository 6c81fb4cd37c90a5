// BERT's cleaning of texts, and the single steps that others share with it.
#pragma once

#include "muster/text/subword/normalizer.h"

namespace muster::text {

struct BertOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;
  bool lowercase = true;
};

/// Appends the steps that the options ask for: `tokenizers` does them one after the other as well.
void append_bert_normalizer(const BertOptions& options, NormalizerChain& chain);

std::unique_ptr<const Normalizer> make_lowercase();
std::unique_ptr<const Normalizer> make_strip_accents();

}  // namespace muster::text
