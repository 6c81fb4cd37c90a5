// Texts with the names of their classes, as users keep them: a table, or a folder of files for each
// class. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muster/formats/table.h"

namespace muster::text {

struct TextColumns {
  std::string text;    ///< empty: "text", else of two columns the one that is not the target
  std::string target;  ///< empty: the first of "label", "target" and "class"
  /// False: a table without the target's column is read, too.
  bool needs_target = true;
  /// Classes that a run has learned: see formats::says_no_class().
  std::vector<std::string> learned = {};
};

struct LabelledTexts {
  std::filesystem::path path;
  TextColumns columns;               ///< what became of them; empty names for a folder
  std::vector<std::string> texts;    ///< valid UTF-8
  std::vector<std::string> targets;  ///< the names of their classes; empty: there is no such column
  std::vector<std::string> places;   ///< "rows.csv:17", or the file
  std::vector<formats::BadRow> bad;  ///< what is no sample: not UTF-8, no target, fields too few
};

/// A table, or a folder as formats::list_class_folders() finds texts, a sample a file. Throws as
/// formats::read_table(), and a usage error for columns that are not there.
LabelledTexts read_labelled_texts(const std::filesystem::path& path,
                                  const TextColumns& columns,
                                  const formats::TableOptions& table = {});

/// Where the splits are; the same where there is one set of samples, of which a part has to be held
/// out.
struct TextSplits {
  std::filesystem::path train, test;
};

/// A file, and `test` if it is said; or a folder: its train.csv or train.tsv and the first of test,
/// val, valid and validation with that ending, else formats::find_split_folders(). Throws a usage error
/// for a path that is not there.
TextSplits find_text_splits(const std::filesystem::path& path, const std::filesystem::path& test);

/// Each name once, sorted by its bytes; by number where all are whole numbers.
std::vector<std::string> classes_of(const std::vector<std::string>& targets);

/// Each class's place in the list, which outlives the result.
std::map<std::string_view, int64_t> numbers_of(const std::vector<std::string>& classes);

/// Why a sample is bad whose class is none of these.
std::string why_unknown(const std::string& name, const std::vector<std::string>& classes);

}  // namespace muster::text
