// The section `post_processor` of a tokenizer file: special tokens around texts, trimmed offsets.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/text/subword/encoding.h"
#include "muster/text/subword/section.h"

namespace muster::text {

/// Whether offsets leave out the white space of their tokens.
struct OffsetTrim {
  bool keeps_prefix_space = false;  ///< of the first token, where it was put there
};

/// One text or two, between special tokens. A template is a list of such parts.
struct TemplatePart {
  int text = -1;                   ///< 0 or 1; -1: special tokens
  std::vector<uint32_t> ids = {};  ///< of those
  uint32_t type_id = 0;
};

struct PostProcessor {
  std::vector<TemplatePart> single{{.text = 0}};
  std::vector<TemplatePart> pair{{.text = 0}, {.text = 1, .type_id = 1}};
  std::optional<OffsetTrim> trim;
  bool roberta_types = false;  ///< type ids are 0 also without special tokens
  bool sets_types = false;     ///< type ids are the template's

  /// How many special tokens there will be.
  uint32_t added(bool is_pair) const;

  /// Takes one encoding or two.
  Encoding process(std::vector<Encoding> texts, bool add_special_tokens) const;
};

/// Throws an environment error for what Muster does not know.
PostProcessor read_post_processor(const FileJson& json, const std::string& where);

}  // namespace muster::text
