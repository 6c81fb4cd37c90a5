#include "muster/tune/core/payload.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "muster/track/utf8.h"

namespace muster::tune {
namespace {

constexpr size_t kLongestNumber = 32;  // -2.2250738585072014e-308 has 24 letters

std::string_view word_of(double value) {
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

bool is_plain(unsigned char c) { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; }

void append_escaped(std::string& out, unsigned char c) {
  static constexpr char kDigits[] = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    default:
      out += "\\u00";
      out += kDigits[c >> 4];
      out += kDigits[c & 15];
  }
}

}  // namespace

void PayloadWriter::integer(int64_t value) {
  char buffer[kLongestNumber];
  text_.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

void PayloadWriter::number(double value) {
  if (!std::isfinite(value)) return text(word_of(value));
  char buffer[kLongestNumber];
  text_.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

void PayloadWriter::text(std::string_view value) {
  text_ += '"';
  size_t plain = 0;
  while (plain < value.size() && is_plain(static_cast<unsigned char>(value[plain]))) ++plain;
  text_.append(value.substr(0, plain));
  if (plain < value.size()) {
    for (const char c : track::to_utf8(value.substr(plain))) {
      const auto byte = static_cast<unsigned char>(c);
      if (is_plain(byte) || byte >= 0x7F) {
        text_ += c;
      } else {
        append_escaped(text_, byte);
      }
    }
  }
  text_ += '"';
}

void PayloadWriter::value(const Value& value) {
  if (value.is_none()) return raw("null");
  if (value.is_bool()) return raw(value.as_bool() ? "true" : "false");
  if (value.is_int()) return integer(value.as_int());
  if (value.is_text()) return text(value.as_text());
  const double number = value.as_double();
  if (!std::isfinite(number)) {
    raw("{\"double\":");
    text(word_of(number));
    return raw("}");
  }
  const size_t begin = text_.size();
  this->number(number);
  if (text_.find_first_of(".e", begin) == std::string::npos) text_ += ".0";
}

bool PayloadReader::skip(std::string_view expected) {
  if (!rest().starts_with(expected)) return false;
  at_ += expected.size();
  return true;
}

void PayloadReader::expect(std::string_view expected) {
  if (!skip(expected)) fail();
}

template <class Number>
Number PayloadReader::chars() {
  Number value{};
  const std::string_view text = rest();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) fail();
  at_ += static_cast<size_t>(end - text.data());
  return value;
}

int64_t PayloadReader::integer() { return chars<int64_t>(); }

double PayloadReader::number() {
  if (skip("\"nan\"")) return std::numeric_limits<double>::quiet_NaN();
  if (skip("\"inf\"")) return std::numeric_limits<double>::infinity();
  if (skip("\"-inf\"")) return -std::numeric_limits<double>::infinity();
  const double value = chars<double>();
  if (!std::isfinite(value)) fail();  // from_chars reads a bare nan
  return value;
}

std::string PayloadReader::text() {
  expect("\"");
  std::string out;
  for (;;) {
    const size_t stop = rest().find_first_of("\"\\");
    if (stop == std::string_view::npos) fail();
    out += rest().substr(0, stop);
    at_ += stop;
    if (skip("\"")) return out;
    if (skip("\\\"")) {
      out += '"';
    } else if (skip("\\\\")) {
      out += '\\';
    } else if (skip("\\n")) {
      out += '\n';
    } else {
      expect("\\u00");
      unsigned char byte = 0;
      const std::string_view digits = rest().substr(0, 2);
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
      if (error != std::errc{} || end != digits.data() + 2) fail();
      out += static_cast<char>(byte);
      at_ += 2;
    }
  }
}

Value PayloadReader::value() {
  if (skip("null")) return {};
  if (skip("true")) return true;
  if (skip("false")) return false;
  if (rest().starts_with('"')) return text();
  if (skip("{\"double\":")) {
    const double number = this->number();
    expect("}");
    return number;
  }
  const size_t end = rest().find_first_of(",]");
  if (rest().substr(0, end).find_first_of(".e") == std::string_view::npos) return integer();
  return number();
}

void PayloadReader::end() const {
  if (at_ != text_.size()) fail();
}

}  // namespace muster::tune
