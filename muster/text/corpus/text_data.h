// What `text:FILE` says, for `muster train --data` and `muster data info`. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "muster/base/params.h"
#include "muster/text/corpus/labelled_texts.h"
#include "muster/text/corpus/text_encoder.h"

namespace muster::text {

struct TextDataOptions {
  std::string path;
  std::string test;
  std::string text;
  std::string target;
  std::string delimiter = "auto";
  bool header = true;
  bool quotes = true;
  std::string tokenizer = "basic_english";
  int64_t min_freq = 2;
  int64_t max_tokens = 0;
  int64_t max_length = 256;
  std::string bad_rows = "raise";
  double test_fraction = 0.2;
  int64_t split_seed = 0;
};

inline constexpr Param kTextDataParams[] = {
    param<&TextDataOptions::path>("path",
                                  "a table, or a folder of CLASS/….txt; it may stand first, alone"),
    param<&TextDataOptions::test>("test", "a table of the test samples; none: some are held out"),
    param<&TextDataOptions::text>("text", "the column of the texts; none: text"),
    param<&TextDataOptions::target>("target",
                                    "the column of the classes; none: label, target or class"),
    param<&TextDataOptions::delimiter>(
        "delimiter", "comma, tab, semicolon, pipe, or a character; auto: by the file's ending"),
    param<&TextDataOptions::header>("header", "the first row names the columns; else 0, 1, …"),
    param<&TextDataOptions::quotes>("quotes", "a field may stand in quotes, as RFC 4180 has it"),
    param<&TextDataOptions::tokenizer>("tokenizer",
                                       "basic_english, or the path of a tokenizer.json"),
    param<&TextDataOptions::min_freq>("min_freq",
                                      "words seen less often in training are unknown ones"),
    param<&TextDataOptions::max_tokens>("max_tokens",
                                        "of the vocabulary, the most frequent; 0: all"),
    param<&TextDataOptions::max_length>("max_length", "tokens that a text is cut to"),
    param<&TextDataOptions::bad_rows>("bad_rows", "that are no samples: raise or skip"),
    param<&TextDataOptions::test_fraction>("test_fraction",
                                           "held out of each class where there is no test file"),
    param<&TextDataOptions::split_seed>("split_seed", "which ones these are"),
};

inline constexpr std::string_view kTextDataOwner = "dataset text";

/// Reads the parameters; `data_dir` takes the place of a path. Throws a usage error for those that are
/// not known or out of range, and where there is no path.
TextDataOptions text_data_options(const ParamValues& params, const std::filesystem::path& data_dir);

/// The samples of one of find_text_splits(). Bad rows are thrown, or passed over, as bad_rows has it;
/// with `all` they stay. `learned`: TextColumns::learned. Throws as read_labelled_texts(), and an
/// environment error where none is left.
LabelledTexts read_texts(const TextDataOptions& options,
                         const std::filesystem::path& path,
                         bool needs_target,
                         bool all = false,
                         const std::vector<std::string>& learned = {});

}  // namespace muster::text
