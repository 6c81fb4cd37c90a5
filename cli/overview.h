// What the program says of itself below its list of commands: help, and the page muster(1).
#pragma once

#include <string_view>

namespace muster::cli {

inline constexpr std::string_view kMainExamples =
    "\nExamples:\n"
    "  muster run --nproc-per-node 2 -- muster train --model cnn --data fashion-mnist\n"
    "  muster train --model mlp --data fashion-mnist --epochs 3\n"
    "  muster run --nproc-per-node 4 -- ./my_program --its-own-flags\n"
    "  muster list models\n\n"
    "`muster COMMAND --help`, or `muster help COMMAND`, tells all of a command.\n"
    "Exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted with state saved.\n";

}  // namespace muster::cli
