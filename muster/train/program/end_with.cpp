#include "muster/train/program/end_with.h"

#include <chrono>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/program/end_process.h"
#include "muster/program/rank_failure.h"
#include "muster/train/program/torch_words.h"

namespace muster::train {

void end_with(const std::exception_ptr& error, program::Console& console) {
  try {
    in_torch_words([&]() -> int { std::rethrow_exception(error); });
  } catch (const Error& ours) {
    program::note_rank_failure(ours.what());
    console.error(ours);
    program::end_process(ours.exit_code());
  } catch (const std::exception& other) {
    program::note_rank_failure(other.what());
    console.error(other.what());
  } catch (...) {
    console.error("it threw something that is no std::exception");
  }
  program::end_process(1);
}

distributed::ThreadWorld::Overdue overdue_end(const ProgramVoice& voice) {
  distributed::ThreadWorld::Overdue overdue;
  if (!voice.end_with) return overdue;
  const auto patience = std::chrono::duration_cast<std::chrono::seconds>(overdue.patience);
  overdue.tell = [&voice, s = patience.count()](const std::vector<int>& ranks,
                                                const std::exception_ptr& error) {
    if (voice.finish_progress) voice.finish_progress();
    for (const int rank : ranks)
      voice.say(concat("rank ", rank, " did not end within ", s, " s of the failure: ending it"));
    voice.end_with(error);
  };
  return overdue;
}

}  // namespace muster::train
