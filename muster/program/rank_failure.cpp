#include "muster/program/rank_failure.h"

#include <csignal>

#include "muster/base/rank_env.h"
#include "muster/diagnose/record/failure_note.h"

namespace muster::program {

void note_rank_failure(std::string_view why) {
  if (!process_environment("RANK")) return;
  std::signal(SIGTERM, SIG_IGN);
  diagnose::note_failure(std::string(why));
}

}  // namespace muster::program
