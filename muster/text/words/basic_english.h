// torchtext's "basic_english" tokenizer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::text {

/// Words of a text: views into `text`, which belongs to it. Using one again allocates nothing.
struct Words {
  std::string text;
  std::vector<std::string_view> words;

  Words() = default;
  Words(const Words&) = delete;  // the views would be of the other's text
  Words& operator=(const Words&) = delete;
};

/// Lower-cased words: `.` `,` `(` `)` `!` `?` and `'` are words of their own, `"` is left out, `;`
/// `:` and `<br />` separate as white space does. Equal to torchtext's get_tokenizer(
/// "basic_english"), whose lower() and split() are Python's: U+0130 becomes two code points, sigma
/// has its final form, and white space is Unicode's and the separators of ASCII.
///
/// Throws a usage error if `text` is not UTF-8. Any thread.
std::vector<std::string> basic_english(std::string_view text);

/// The same into `out`, whose former words are gone.
void basic_english(std::string_view text, Words& out);

}  // namespace muster::text
