// The page of all known errors.
#pragma once

#include <string>

namespace muster::cli {

/// docs/errors.md: every row of the catalogue, and every check.
std::string catalogue_page();

}  // namespace muster::cli
