// `muster study …` over a small study of three trials.
#pragma once

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/study/study_commands.h"
#include "tests/support/folder.h"
#include "tests/tune/written_study.h"

namespace muster::cli {

struct Said {
  int code = 0;
  std::string out, err;
};

class StudyCommands : public testing::Test {
 protected:
  StudyCommands() {
    tune::Space space = test::small_space();
    test::EventMaker make(space);
    std::vector<tune::Event> events;
    make.whole(0, 3, events);
    make.whole(1, 5, events);
    events.push_back(make.added(2));
    events.push_back(make.started(2));
    tune::open_storage(file(), space, test::description_of(space))->append(events);
  }

  std::filesystem::path file() const { return folder_.path() / "fashion.db"; }

  template <class Command>
  Said say(Command command, std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), file().string());
    std::ostringstream out, err;
    program::Console console(out, err, false, false);
    const int code = command(flags, console);
    return {code, out.str(), err.str()};
  }

  test::Folder folder_;
};

}  // namespace muster::cli
