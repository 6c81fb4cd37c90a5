#include "muster/diagnose/catalogue/error_row.h"

namespace muster::diagnose {

const ErrorRow* find_error_row(std::string_view name) {
  for (const ErrorFamilyEntry* family : error_families()) {
    for (const ErrorRow& row : family->rows) {
      if (row.name == name) return &row;
    }
  }
  return nullptr;
}

}  // namespace muster::diagnose
