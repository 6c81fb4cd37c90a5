#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/track/page/run_page.h"
#include "muster/track/utf8.h"

namespace muster::track {
namespace {

constexpr size_t kMaxTableClasses = 30;
constexpr size_t kMaxListed = 20;

void check(const ConfusionMatrix& confusion) {
  const size_t n = confusion.classes.size();
  if (confusion.counts.size() != n * n) {
    throw usage_error({.refused = "a confusion matrix",
                       .rule = concat(n, " classes have ", n * n, " counts"),
                       .value = std::to_string(confusion.counts.size())});
  }
  const auto low = std::min_element(confusion.counts.begin(), confusion.counts.end());
  if (low != confusion.counts.end() && *low < 0) {
    throw usage_error({.refused = "a confusion matrix",
                       .rule = "a count is at least 0",
                       .value = std::to_string(*low)});
  }
}

/// A matrix with its margins, in double: counts may add up beyond 64 bits.
class Table {
 public:
  explicit Table(const ConfusionMatrix& confusion) : confusion_(confusion) {
    for (size_t i = 0; i < size(); ++i) {
      for (size_t j = 0; j < size(); ++j) {
        true_[i] += at(i, j);
        taken_[j] += at(i, j);
      }
    }
  }

  size_t size() const { return confusion_.classes.size(); }
  double at(size_t i, size_t j) const {
    return static_cast<double>(confusion_.counts[i * size() + j]);
  }
  double share(size_t i, size_t j) const { return true_[i] > 0 ? at(i, j) / true_[i] : 0; }
  std::string name(size_t i) const { return escape_xml(confusion_.classes[i]); }
  std::string recall(size_t i) const { return ratio(at(i, i), true_[i]); }
  std::string precision(size_t j) const { return ratio(at(j, j), taken_[j]); }

 private:
  static std::string ratio(double part, double whole) {
    return whole > 0 ? fixed(100 * part / whole, 1) + "&#8239;%" : "&#8211;";
  }

  const ConfusionMatrix& confusion_;
  std::vector<double> true_ = std::vector<double>(size());
  std::vector<double> taken_ = std::vector<double>(size());
};

/// A cell shaded by its share of the row: hits blue, misses orange.
std::string cell(const Table& table, size_t i, size_t j) {
  const double count = table.at(i, j);
  if (count == 0) return "<td class=\"none\">0</td>";
  const double depth = std::sqrt(table.share(i, j));  // small shares of misses should be seen
  return concat("<td style=\"background:rgba(",
                i == j ? "31,111,209," : "222,105,10,",
                fixed(0.75 * depth, 2),
                ")\" title=\"",
                table.name(i),
                " taken for ",
                table.name(j),
                ": ",
                fixed(100 * table.share(i, j), 1),
                " %\">",
                fixed(count, 0),
                "</td>");
}

std::string matrix(const Table& table) {
  std::string out = "<div class=\"scroll\"><table class=\"confusion\"><thead><tr><td></td>";
  for (size_t j = 0; j < table.size(); ++j) {
    out += concat("<th scope=\"col\"><span>", table.name(j), "</span></th>");
  }
  out += "<th scope=\"col\"><span>recall</span></th></tr></thead>\n<tbody>\n";
  for (size_t i = 0; i < table.size(); ++i) {
    out += concat("<tr><th scope=\"row\">", table.name(i), "</th>");
    for (size_t j = 0; j < table.size(); ++j) out += cell(table, i, j);
    out += concat("<td class=\"sum\">", table.recall(i), "</td></tr>\n");
  }
  out += "</tbody>\n<tfoot><tr><th scope=\"row\">precision</th>";
  for (size_t j = 0; j < table.size(); ++j) {
    out += concat("<td class=\"sum\">", table.precision(j), "</td>");
  }
  return out + "<td></td></tr></tfoot></table></div>\n";
}

std::string largest_confusions(const Table& table) {
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t i = 0; i < table.size(); ++i) {
    for (size_t j = 0; j < table.size(); ++j) {
      if (i != j && table.at(i, j) > 0) pairs.emplace_back(i, j);
    }
  }
  const size_t count = std::min(kMaxListed, pairs.size());
  std::partial_sort(pairs.begin(),
                    pairs.begin() + static_cast<std::ptrdiff_t>(count),
                    pairs.end(),
                    [&](const auto& a, const auto& b) {
                      const double more = table.at(a.first, a.second) - table.at(b.first, b.second);
                      return more != 0 ? more > 0 : a < b;
                    });
  pairs.resize(count);
  std::string out =
      "<table class=\"list\"><thead><tr><th>class</th><th>taken for</th><th>samples</th>"
      "<th>of its class</th></tr></thead>\n<tbody>\n";
  for (const auto& [i, j] : pairs) {
    out += concat("<tr><td>",
                  table.name(i),
                  "</td><td>",
                  table.name(j),
                  "</td><td>",
                  fixed(table.at(i, j), 0),
                  "</td><td>",
                  fixed(100 * table.share(i, j), 1),
                  "&#8239;%</td></tr>\n");
  }
  return out + "</tbody></table>\n";
}

}  // namespace

std::string confusion_html(const ConfusionMatrix& confusion) {
  check(confusion);
  const Table table(confusion);
  if (table.size() > kMaxTableClasses) {
    return concat("<h2>Largest confusions</h2>\n<p class=\"dim\">Of ",
                  table.size(),
                  " classes.</p>\n",
                  largest_confusions(table));
  }
  return "<h2>Confusion matrix</h2>\n<p class=\"dim\">Rows: the true class. Columns: what the "
         "model "
         "took it for.</p>\n" +
         matrix(table);
}

}  // namespace muster::track
