// Byte pair encoding.
#pragma once

#include <array>
#include <optional>

#include "muster/text/subword/model.h"

namespace muster::text {

struct BpeOptions {
  std::optional<std::string> unknown;  ///< `unk_token`
  std::string prefix;                  ///< `continuing_subword_prefix`
  std::string suffix;                  ///< `end_of_word_suffix`
  bool fuse_unknown = false;           ///< neighbours that are unknown are one token
  bool byte_fallback = false;          ///< unknown: <0x..> for each byte
  bool whole_words_first = false;      ///< `ignore_merges`
  bool bytes = false;                  ///< see read_model
};

std::unique_ptr<const Model> read_bpe_model(Section& section, bool bytes);

}  // namespace muster::text
