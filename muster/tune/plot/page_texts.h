// The parts of a study's page that do not depend on the study.
#pragma once

#include <string_view>

namespace muster::tune {

std::string_view page_style();   ///< CSS
std::string_view page_script();  ///< JavaScript; reads the JSON of <script id="trials">

}  // namespace muster::tune
