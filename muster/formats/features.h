// The columns of a table as numbers: what a model of rows is given. Torch-free.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/formats/table.h"

namespace muster::formats {

/// A column that the model sees. Of categories it sees one number each: 1 for the row's own, 0 for the
/// others (one-hot), and 0 alone for one that was not learned.
struct Feature {
  std::string column;
  std::vector<std::string> categories = {};  ///< sorted; empty: the column is of numbers
  double mean = 0;                           ///< of the rows that it was learned from
  double deviation = 1;  ///< over all of them, not all but one; 1 where they are all the same

  int64_t width() const { return categories.empty() ? 1 : static_cast<int64_t>(categories.size()); }
};

struct FeatureNames {
  std::string target;                    ///< the column that is no feature
  std::vector<std::string> drop;         ///< nor are these
  std::vector<std::string> categorical;  ///< these are one-hot
  std::vector<std::string> empty = {};   ///< empty_columns(): no features
};

/// Names of columns that are empty or blank in every row, but for the target and those that are dropped: they say
/// nothing. None of a table without rows, nor where another column of that name is not empty.
std::vector<std::string> empty_columns(const Table& table, const FeatureNames& names);

/// The number that a cell holds, with blanks around it or without, as Python's float() reads it; nothing if it is
/// none, or not finite.
std::optional<double> number_in(const std::string& text);

/// All columns but the target, those that are dropped, and those that are empty. Throws a usage error for a name that is no
/// column's, and for a column without a number that is not said to be categorical.
std::vector<Feature> features_of(const Table& table, const FeatureNames& names);

/// Categories, means and deviations, from these of the table's rows, which are readable.
void learn_features(const Table& table,
                    std::span<const int64_t> rows,
                    std::vector<Feature>& features);

/// Moves rows to table.bad that have no value for a feature: a cell that is empty or blank, or a
/// number that is none, not finite, or too large for float32. `learned`: the same columns as a run
/// has learned them; where blank cells are a category there, as once they were, they stay one.
void move_bad_cells(Table& table,
                    const std::vector<Feature>& features,
                    std::span<const Feature> learned = {});

/// [rows, sum of all widths], less the mean and divided by the deviation. Throws a usage error for a
/// feature that the table has no column for, an environment error for a number that float32 has not after that.
std::vector<float> feature_values(const Table& table, const std::vector<Feature>& features);

}  // namespace muster::formats
