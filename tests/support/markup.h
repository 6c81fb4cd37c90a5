// A reader of XML that is strict about what we write: every tag closed in order, attributes in
// quotes and once, no bare < or &.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace muster::test {

struct MarkupElement {
  std::string name;
  std::map<std::string, std::string> attributes;  ///< unescaped
  std::string text;                               ///< directly in it, unescaped
  int parent = -1;                                ///< its place in the list

  double number(const std::string& attribute) const {
    const auto found = attributes.find(attribute);
    return found == attributes.end() ? 0 : std::stod(found->second);
  }
  std::string attribute(const std::string& name) const {
    const auto found = attributes.find(name);
    return found == attributes.end() ? "" : found->second;
  }
  bool has_class(const std::string& wanted) const {
    return (" " + attribute("class") + " ").find(" " + wanted + " ") != std::string::npos;
  }
};

/// The five references of XML and numbers; the test fails for others and for a bare &.
inline std::string unescaped(std::string_view text) {
  static const std::map<std::string, std::string, std::less<>> names = {
      {"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"#39", "'"}};
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '<') ADD_FAILURE() << "bare <: " << text;
    if (text[at] != '&') {
      out += text[at];
      continue;
    }
    const size_t end = text.find(';', at);
    const auto found =
        end == text.npos ? names.end() : names.find(text.substr(at + 1, end - at - 1));
    if (found == names.end()) {
      ADD_FAILURE() << "no reference: " << text.substr(at, 12);
      return out;
    }
    out += found->second;
    at = end;
  }
  return out;
}

inline void read_attributes(std::string_view tag, MarkupElement& element) {
  for (size_t at = tag.find_first_of(" \n"); at != tag.npos;) {
    at = tag.find_first_not_of(" \n", at);
    if (at == tag.npos) return;
    const size_t equals = tag.find("=\"", at);
    const size_t end = equals == tag.npos ? tag.npos : tag.find('"', equals + 2);
    if (end == tag.npos) {
      ADD_FAILURE() << "attribute: " << tag;
      return;
    }
    const auto [place, added] =
        element.attributes.emplace(std::string(tag.substr(at, equals - at)),
                                   unescaped(tag.substr(equals + 2, end - equals - 2)));
    EXPECT_TRUE(added) << "twice: " << place->first;
    at = end + 1 < tag.size() ? end + 1 : tag.npos;
  }
}

/// All elements of a document in the order of their tags.
inline std::vector<MarkupElement> elements_of(std::string_view markup) {
  std::vector<MarkupElement> out;
  std::vector<int> open;
  for (size_t at = 0; at < markup.size();) {
    const size_t next = std::min(markup.find('<', at), markup.size());
    if (!open.empty())
      out[static_cast<size_t>(open.back())].text += unescaped(markup.substr(at, next - at));
    at = next;
    if (at == markup.size()) break;
    if (markup.substr(at).starts_with("<![CDATA[")) {
      const size_t end = markup.find("]]>", at);
      if (end == markup.npos) return ADD_FAILURE() << "CDATA", out;
      at = end + 3;
      continue;
    }
    const size_t end = markup.find('>', at);
    if (end == markup.npos) return ADD_FAILURE() << "open tag: " << markup.substr(at, 40), out;
    std::string_view tag = markup.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.starts_with("!DOCTYPE")) continue;
    if (tag.starts_with('/')) {
      if (open.empty() || out[static_cast<size_t>(open.back())].name != tag.substr(1))
        return ADD_FAILURE() << "closed out of order: " << tag, out;
      open.pop_back();
      continue;
    }
    const bool closed = tag.ends_with('/');
    if (closed) tag.remove_suffix(1);
    MarkupElement element{.name = std::string(tag.substr(0, tag.find_first_of(" \n"))),
                          .parent = open.empty() ? -1 : open.back()};
    read_attributes(tag, element);
    out.push_back(std::move(element));
    if (!closed) open.push_back(static_cast<int>(out.size()) - 1);
  }
  EXPECT_TRUE(open.empty()) << "not closed: " << out[static_cast<size_t>(open.back())].name;
  return out;
}

}  // namespace muster::test
