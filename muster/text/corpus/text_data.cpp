#include "muster/text/corpus/text_data.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/name_list.h"
#include "muster/base/text.h"
#include "muster/formats/data_params.h"

namespace muster::text {

TextDataOptions text_data_options(const ParamValues& params,
                                  const std::filesystem::path& data_dir) {
  auto options = resolve_params<TextDataOptions>(kTextDataParams, params, kTextDataOwner);
  options.text = name_in(options.text);
  options.target = name_in(options.target);
  const auto refuse = [](const char* name, const char* rule, std::string value) {
    formats::refuse_data_param(kTextDataOwner, name, rule, std::move(value));
  };
  formats::check_row_params(kTextDataOwner, options.bad_rows, options.test_fraction);
  if (options.min_freq < 1) refuse("min_freq", "at least 1", std::to_string(options.min_freq));
  if (options.max_tokens < 0)
    refuse("max_tokens", "at least 0", std::to_string(options.max_tokens));
  if (options.max_length < 1 || options.max_length > (1 << 24))
    refuse("max_length", "1 … 16777216", std::to_string(options.max_length));
  if (!data_dir.empty()) options.path = data_dir.string();  // where it lies now
  if (options.path.empty()) {
    throw usage_error({.refused = std::string(kTextDataOwner),
                       .rule = "it is given a file or a folder",
                       .value = "none",
                       .hint = "name it: text:FILE, or --data-dir PATH"});
  }
  formats::refuse_home_sign("texts", "text", options.path);
  return options;
}

LabelledTexts read_texts(const TextDataOptions& options,
                         const std::filesystem::path& path,
                         bool needs_target,
                         bool all,
                         const std::vector<std::string>& learned) {
  LabelledTexts texts = read_labelled_texts(
      path,
      {.text = options.text,
       .target = options.target,
       .needs_target = needs_target,
       .learned = learned},
      {.delimiter = options.delimiter, .header = options.header, .quotes = options.quotes});
  if (all) return texts;
  formats::apply_bad_rows(texts.bad,
                          texts.texts.size(),
                          options.bad_rows,
                          {.whole = concat("texts ", path.string()),
                           .each = "samples",
                           .hint = "see `muster data info`"});
  return texts;
}

}  // namespace muster::text
