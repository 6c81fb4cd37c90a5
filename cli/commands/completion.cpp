// `muster completion`: the words that a shell offers at the tabulator key.
#include "cli/describe/completion.h"

#include <ostream>

#include "muster/base/error.h"
#include "muster/base/text.h"

#include "cli/command.h"
#include "cli/describe/describe_all.h"
#include "cli/line/app.h"

namespace muster::cli {
namespace {

constexpr const char* kCompletionExamples =
    "Examples:\n"
    "  source <(muster completion bash)\n"
    "  muster completion bash > ~/.local/share/bash-completion/completions/muster\n"
    "  muster completion zsh > ~/.zfunc/_muster            # a folder of $fpath\n"
    "  muster completion fish > ~/.config/fish/completions/muster.fish\n"
    "\n"
    "An installed Muster has put them where the shells look.";

int run_completion_command(std::span<const std::string> args, program::Console& console) {
  std::string shell;
  const auto app = make_app("completion",
                            "Print the completions of commands, flags and names for a shell.",
                            kCompletionExamples,
                            "muster completion bash|zsh|fish");
  program::add_value(*app, "shell", shell, "the shell whose words to write")
      ->type_name("bash|zsh|fish")
      ->required();
  if (const auto done = program::parse(*app, args, console)) return *done;
  const std::vector<std::string> known{"bash", "zsh", "fish"};
  const std::vector<program::CommandText> all = describe_all(commands());
  if (shell == known[0]) {
    console.out() << bash_completion(all);
  } else if (shell == known[1]) {
    console.out() << zsh_completion(all);
  } else if (shell == known[2]) {
    console.out() << fish_completion(all);
  } else {
    throw usage_error({.refused = concat("muster completion ", shell),
                       .rule = "there are completions for bash, zsh and fish",
                       .hint = suggestion(shell, known)});
  }
  console.out() << std::flush;
  return kDone;
}

}  // namespace

extern constinit const CommandEntry completion_entry{
    "completion", "print completions for bash, zsh or fish", &run_completion_command};

}  // namespace muster::cli
