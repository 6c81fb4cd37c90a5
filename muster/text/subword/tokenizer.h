// Tokenizers of Hugging Face's form: tokenizer.json, with the ids and offsets of PyPI's `tokenizers`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/text/subword/encoding.h"

namespace muster::text {

enum class OffsetUnit : uint8_t {
  kBytes,      ///< of the UTF-8: text.substr(begin, end - begin)
  kCodePoints  ///< as Python counts
};

struct EncodeOptions {
  bool add_special_tokens = true;
  OffsetUnit offsets = OffsetUnit::kBytes;
};

/// What a file says, understood as a whole: byte-level BPE, BPE and WordPiece with the usual
/// normalizers, pre-tokenizers, post-processors and decoders. What is not understood is refused
/// when the file is read, by its path in the file. Cheap to copy. Any number of threads may encode
/// and decode at once; the setters are for one thread before that.
///
/// All functions that take a text throw a usage error if it is not UTF-8 or has 4 GiB or more.
class Tokenizer {
 public:
  /// Throws a usage error if there is no such file, else an environment error; both name it.
  static Tokenizer load(const std::filesystem::path& path);

  /// The same for a file in memory; `name` stands in errors.
  static Tokenizer parse(std::string_view json, std::string_view name);

  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// Two texts in one: question and answer, premise and hypothesis.
  Encoding encode_pair(std::string_view first,
                       std::string_view second,
                       const EncodeOptions& options = {}) const;

  /// One encoding for each text; padding to the longest is to that of the batch.
  std::vector<Encoding> encode_batch(std::span<const std::string> texts,
                                     const EncodeOptions& options = {}) const;

  /// Appends the ids alone, truncated and with special tokens as `encode` has them, without padding.
  void append_ids(std::string_view text,
                  std::vector<int64_t>& ids,
                  bool add_special_tokens = true) const;

  /// The text of the ids; unknown ids are passed over. Parts that are no UTF-8 become U+FFFD.
  std::string decode(std::span<const uint32_t> ids, bool skip_special_tokens = true) const;

  std::optional<uint32_t> token_to_id(std::string_view token) const;

  /// Nothing for an id without a token.
  std::optional<std::string> id_to_token(uint32_t id) const;

  /// With added tokens.
  size_t vocab_size() const;

  void set_truncation(std::optional<Truncation> truncation);
  void set_padding(std::optional<Padding> padding);
  const std::optional<Truncation>& truncation() const { return truncation_; }
  const std::optional<Padding>& padding() const { return padding_; }

 private:
  struct Parts;

  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  Encoding encode_unpadded(std::span<const std::string_view> texts,
                           const EncodeOptions& options) const;

  std::shared_ptr<const Parts> parts_;
  std::optional<Truncation> truncation_;
  std::optional<Padding> padding_;
};

}  // namespace muster::text
