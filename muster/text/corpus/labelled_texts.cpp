#include "muster/text/corpus/labelled_texts.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/formats/image/class_folders.h"
#include "muster/formats/utf8.h"

namespace muster::text {
namespace {

namespace fs = std::filesystem;

std::optional<size_t> first_of(const formats::Table& table, std::span<const std::string> names) {
  for (const std::string& name : names) {
    const auto found = std::ranges::find(table.columns, name);
    if (found != table.columns.end()) return static_cast<size_t>(found - table.columns.begin());
  }
  return {};
}

Error no_column(const formats::Table& table, const char* what, const char* hint) {
  return usage_error({.refused = concat("table ", table.name),
                      .rule = concat("it is said which column has the ", what),
                      .value = concat("the columns ", formats::columns_text(table)),
                      .hint = hint});
}

std::optional<size_t> target_of(const formats::Table& table, const TextColumns& columns) {
  static const std::vector<std::string> names{"label", "target", "class"};
  const bool is_said = !columns.target.empty();
  const auto found =
      is_said ? first_of(table, std::span(&columns.target, 1)) : first_of(table, names);
  if (!found && !columns.needs_target) return {};
  if (is_said) return formats::column_named(table, columns.target, "parameter \"target\"");
  if (!found) throw no_column(table, "classes", "name it: target=COLUMN");
  return found;
}

size_t text_column(const formats::Table& table,
                   const TextColumns& columns,
                   std::optional<size_t> target) {
  static const std::vector<std::string> names{"text"};
  if (!columns.text.empty())
    return formats::column_named(table, columns.text, "parameter \"text\"");
  if (const auto found = first_of(table, names)) return *found;
  if (table.columns.size() == 2 && target) return 1 - *target;
  if (table.columns.size() == 1) return 0;
  throw no_column(table, "texts", "name it: text=COLUMN");
}

/// `has_class`: the target, where there is one, says a class.
void add_row(LabelledTexts& out,
             std::string place,
             std::string& text,
             std::string* target,
             bool has_class = true) {
  std::string why = formats::utf8_fault(text);
  if (!why.empty()) why = concat("the text is ", why);
  if (why.empty() && target != nullptr)
    why = has_class ? formats::class_fault(*target) : std::string(formats::kNoClass);
  if (!why.empty()) {
    out.bad.push_back({std::move(place), std::move(why)});
    return;
  }
  out.texts.push_back(std::move(text));
  if (target != nullptr) out.targets.push_back(std::move(*target));
  out.places.push_back(std::move(place));
}

/// Throws for a name that a run cannot keep, which it does as JSON.
void check_name_of(const formats::Table& table, size_t column) {
  const std::string fault = formats::utf8_fault(table.columns[column]);
  if (fault.empty()) return;
  throw usage_error({.refused = concat("column \"", table.columns[column], "\" of ", table.name),
                     .rule = concat("its name is ", fault),
                     .hint = "iconv -t utf-8 makes UTF-8 of the table"});
}

LabelledTexts read_text_table(const fs::path& path,
                              const TextColumns& columns,
                              const formats::TableOptions& options) {
  formats::Table table = formats::read_table(path, options);
  const std::optional<size_t> target = target_of(table, columns);
  const size_t text = text_column(table, columns, target);
  if (target && text == *target) {
    throw usage_error({.refused = concat("table ", table.name),
                       .rule = "texts and classes are two columns",
                       .value = concat('"', table.columns[text], "\" for both")});
  }
  check_name_of(table, text);
  if (target) check_name_of(table, *target);
  LabelledTexts out{.path = path, .columns = columns, .bad = std::move(table.bad)};
  out.columns.text = table.columns[text];
  out.columns.target = target ? table.columns[*target] : "";
  for (formats::TableRow& row : table.rows) {
    std::string* const said = target ? &row.fields[*target] : nullptr;
    const bool has_class = said != nullptr && !formats::says_no_class(*said, columns.learned);
    add_row(out, concat(table.name, ':', row.line), row.fields[text], said, has_class);
  }
  return out;
}

/// Of what can be opened, and read without an end or a beginning.
bool is_no_file(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status found = fs::status(path, ignored);
  return fs::exists(found) && !fs::is_regular_file(found);
}

LabelledTexts read_text_folders(const fs::path& root) {
  LabelledTexts out{.path = root};
  const formats::ClassFolders found =
      formats::list_class_folders(root, formats::ClassFiles::kTexts);
  for (size_t at = 0; at < found.files.size(); ++at) {
    const std::string place = found.path_of(at).string();
    std::string target = found.classes[static_cast<size_t>(found.files[at].label)];
    if (is_no_file(place)) {
      out.bad.push_back({place, "it is a pipe, a socket or a device"});
      continue;
    }
    try {
      std::string text(formats::without_utf8_mark(read_file(place)));
      add_row(out, place, text, &target);
    } catch (const Error& error) {
      const auto& said = error.text();
      out.bad.push_back(
          {place, concat("it cannot be read: ", said.rule.empty() ? said.refused : said.rule)});
    }
  }
  return out;
}

}  // namespace

LabelledTexts read_labelled_texts(const fs::path& path,
                                  const TextColumns& columns,
                                  const formats::TableOptions& table) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? read_text_folders(path)
                                         : read_text_table(path, columns, table);
}

TextSplits find_text_splits(const fs::path& path, const fs::path& test) {
  std::error_code ignored;
  if (!test.empty()) return {path, test};
  if (!fs::is_directory(path, ignored)) return {path, path};
  for (const char* ending : {".csv", ".tsv"}) {
    const fs::path train = path / concat("train", ending);
    if (!fs::is_regular_file(train, ignored)) continue;
    for (const char* name : {"test", "val", "valid", "validation"}) {
      const fs::path other = path / concat(name, ending);
      if (fs::is_regular_file(other, ignored)) return {train, other};
    }
    return {train, train};
  }
  const auto [train, held_out] = formats::find_split_folders(path, formats::ClassFiles::kTexts);
  return {train, held_out};
}

std::vector<std::string> classes_of(const std::vector<std::string>& targets) {
  const std::set<std::string> names(targets.begin(), targets.end());
  std::vector<std::string> classes(names.begin(), names.end());
  const auto number = [](const std::string& name) { return to_int(name); };
  const bool are_numbers = std::ranges::all_of(
      classes, [&](const std::string& name) { return number(name).has_value(); });
  if (are_numbers) {
    std::ranges::stable_sort(classes, [&](const std::string& a, const std::string& b) {
      return *number(a) < *number(b);
    });
  }
  return classes;
}

std::map<std::string_view, int64_t> numbers_of(const std::vector<std::string>& classes) {
  std::map<std::string_view, int64_t> numbers;
  for (const std::string& name : classes)
    numbers.emplace(name, static_cast<int64_t>(numbers.size()));
  return numbers;
}

std::string why_unknown(const std::string& name, const std::vector<std::string>& classes) {
  if (formats::says_no_class(name, classes)) return std::string(formats::kNoClass);
  return concat("its class \"", name, "\" is none of the training split's: ", join(classes, ", "));
}

}  // namespace muster::text
