// The command of a trial: words with a trial's values put in.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "muster/tune/space/space.h"

namespace muster::tune {

// Note [Commands]
// `{lr}` in a word is the parameter's value as value_text() writes it, `{@params}` all values as one
// JSON object (that of MUSTER_PARAMS_FILE), `{{` and `}}` are braces. A parameter that does not
// apply leaves out the word that is only its placeholder, with the flag before it, and the word
// `--flag={momentum}`; elsewhere it is an empty text:
//
//     ["./train", "--optimizer", "{optimizer}", "--momentum", "{momentum}"]
//     optimizer is adam, momentum needs sgd:  ./train --optimizer adam
//
// A flag is a word that begins with - and has no placeholder. No shell looks at the words.

/// Throws a usage error for a placeholder that is no parameter of the space (nearest name as hint)
/// or has no end, and for an empty program name.
void check_command(std::span<const std::string> command, const Space& space);

/// The words for a trial. Throws as check_command does, and a usage error if nothing is left.
std::vector<std::string> expand_command(std::span<const std::string> command,
                                        const Space& space,
                                        const Values& values);

}  // namespace muster::tune
