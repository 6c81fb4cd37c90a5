// The section `decoder` of a tokenizer file: tokens back to a text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/text/subword/section.h"

namespace muster::text {

/// One step: tokens to tokens. Safe from any threads at once.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

using DecoderChain = std::vector<std::unique_ptr<const Decoder>>;

/// Throws an environment error for what Muster does not know.
DecoderChain read_decoders(const FileJson& json, const std::string& where);

/// With U+FFFD for each part that is no UTF-8: for the longest start of a code point, else for a
/// byte. Source: Unicode 15.0, section 3.9, "Substitution of Maximal Subparts".
std::string lossy_utf8(std::string_view bytes);

}  // namespace muster::text
