// `muster study watch`: a study on the whole terminal.
#include <chrono>
#include <fstream>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/program/line/parse.h"
#include "muster/program/line/shell_word.h"
#include "muster/program/line/value.h"
#include "muster/tune/execute/user_order.h"
#include "muster/tune/run/study.h"

#include "cli/command.h"
#include "cli/line/app.h"
#include "cli/screen/full_screen.h"
#include "cli/study/study_commands.h"
#include "cli/watch/watch_model.h"
#include "cli/watch/watch_view.h"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kLookAtStudyS = 0.5;  // between looks at the study's file
constexpr double kWaitForOrderS = 0.05;
constexpr double kOrderTimeoutS = 5;
constexpr size_t kLogLines = 60;
constexpr int kInterruptedCode = 130;

/// The last lines of a file; none if it cannot be read.
std::vector<std::string> last_lines(const fs::path& file, size_t most) {
  constexpr std::streamoff kTail = 16 << 10;
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return {};
  const std::streamoff size = in.tellg();
  const std::streamoff from = size > kTail ? size - kTail : 0;
  in.seekg(from);
  std::string text(static_cast<size_t>(size - from), '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  while (text.ends_with('\n')) text.pop_back();
  if (text.empty()) return {};
  std::vector<std::string> lines = split(text, '\n');
  if (lines.size() > most) lines.erase(lines.begin(), lines.end() - static_cast<int64_t>(most));
  return lines;
}

class WatchScreen {
 public:
  WatchScreen(StudyFollower& follower, fs::path trial_folder, FullScreen& screen)
      : follower_(follower),
        trial_folder_(std::move(trial_folder)),
        screen_(screen),
        model_(follower.study(), tune::wall_clock_s()) {}

  int run() {
    for (;;) {
      draw();
      const double wait_s = order_.valid() ? kWaitForOrderS : kLookAtStudyS;
      const Key key = screen_.wait(wait_s);
      if (key.kind == Key::kInterrupt) return kInterruptedCode;
      const double now_s = tune::wall_clock_s();
      if (const auto request = model_.on_key(key, now_s)) {
        if (request->kind == WatchRequest::kQuit) return kDone;
        begin(*request);
      }
      take_answer();
      look(now_s);
    }
  }

 private:
  /// Twice a second; a key that is held down need not wait for it.
  void look(double now_s) {
    if (now_s - looked_s_ < kLookAtStudyS && now_s >= looked_s_) return;
    looked_s_ = now_s;
    const bool has_news = follower_.refresh();
    if (has_news || (follower_.study().tuner() && model_.goes_by_time())) model_.refresh(now_s);
  }

  void draw() {
    Canvas canvas(screen_.columns(), screen_.rows());
    draw_watch(model_, log(), tune::wall_clock_s(), canvas);
    screen_.show(canvas);
  }

  std::vector<std::string> log() const {
    const auto index = model_.selected();
    if (!model_.has_details() || !index || follower_.study().history(*index).foreign) return {};
    const fs::path& given = follower_.study().tuner_facts().trial_folder;
    const fs::path folder = (given.empty() ? trial_folder_ : given) /
                            concat("trial-", follower_.study().history(*index).number);
    std::vector<std::string> lines = last_lines(folder / "stdout.log", kLogLines);
    const std::vector<std::string> errors = last_lines(folder / "stderr.log", kLogLines / 2);
    lines.insert(lines.end(), errors.begin(), errors.end());
    return lines;
  }

  /// A tuner that is slow to answer holds no key up.
  void begin(const WatchRequest& request) {
    if (order_.valid()) return model_.say("the order before is not answered yet", true);
    const fs::path storage = follower_.storage();
    const std::string name = follower_.study().facts().name;
    order_ = std::async(std::launch::async, [=]() -> Said {
      try {
        if (request.kind == WatchRequest::kOrder)
          return {order_trial(storage, name, request.trial, request.action, kOrderTimeoutS), false};
        tune::add_trial(storage, name, request.values);
        return {"a trial is added: it starts when there is room", false};
      } catch (const Error& error) {
        return {join(split(error.what(), '\n'), "; "), true};
      }
    });
  }

  void take_answer() {
    if (!order_.valid() || order_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
      return;
    const Said said = order_.get();
    model_.say(said.text, said.is_bad);
    looked_s_ = 0;
  }

  struct Said {
    std::string text;
    bool is_bad = false;
  };

  StudyFollower& follower_;
  fs::path trial_folder_;
  FullScreen& screen_;
  WatchModel model_;
  double looked_s_ = 0;
  std::future<Said> order_;
};

}  // namespace

int study_watch(std::span<const std::string> args, program::Console& console) {
  StudyFlags flags;
  auto app =
      make_app("study watch",
               "A study on the whole terminal, while it runs and afterwards: its trials as a "
               "table that can be sorted and filtered, each with its curve and what it "
               "printed. Trials of a study that runs on this machine can be stopped, paused, "
               "continued and added. Press ? for the keys.",
               "Examples:\n  muster study watch fashion.db\n"
               "  muster study watch fashion.db --study fashion\n"
               "\n"
               "For scripts: `muster study show`, `stop`, `pause`, `continue`, `add`.\n",
               "muster study watch STORAGE [OPTIONS]");
  fs::path folder;
  add_storage(*app, flags);
  add_trial_folder(*app, folder);
  if (const auto done = program::parse(*app, args, console)) return *done;
  const std::string name = tune::find_study(flags.storage, flags.study).name;
  StudyFollower follower(flags.storage, name);
  const fs::path files = trial_files_of(flags, name, folder);
  FullScreen screen(console.colour(),
                    concat("muster study show ", program::shell_word(flags.storage.string())));
  return WatchScreen(follower, files, screen).run();
}

}  // namespace muster::cli
