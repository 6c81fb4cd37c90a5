// What a user can say when a trained classifier is asked: `muster evaluate` and `muster predict`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace muster::train {

/// Which weights of which run are asked about which samples, and how.
struct AskOptions {
  std::filesystem::path run;       ///< the folder of a run of `muster train`
  std::string weights;             ///< last, best, or a checkpoint; empty: as the run's own test
  std::string data;                ///< name:key=value,…; empty: the run's own
  std::filesystem::path data_dir;  ///< empty: the run's, else the dataset's own places
  std::string split = "test";      ///< or train, or validation: what the run held out
  int64_t batch_size = -1;         ///< per rank; -1: as in the run's own test
  int64_t workers = -1;            ///< loader threads per rank; -1: from cores and ranks
  std::string device = "auto";     ///< auto, cpu, or a kind of device: cuda, or cuda:1
  std::string backend = "auto";    ///< a name of `muster list backends`, or auto
  bool needs_targets = false;      ///< answers are measured: samples without a target are refused
};

/// One of them, for help; as OptionInfo.
struct AskInfo {
  std::string_view name, value, help;
  bool show_default = true;
};

/// Calls visit(info, member) for each but the run, in the order of the help; for those of the data only
/// where they can be said: a program of one's own has its data.
template <class Visitor>
void visit_ask_options(AskOptions& ask, bool names_data, Visitor&& visit) {
  visit(AskInfo{"weights",
                "last|best|ema|CHECKPOINT",
                "of which checkpoint: its folder, or its name in the run, step-N; ema: the last "
                "averages (--ema-decay) [the one that the run tests at its end]",
                false},
        ask.weights);
  if (names_data) {
    visit(AskInfo{"data", "DATA", "name:key=value,… (muster list datasets) [the run's own]", false},
          ask.data);
    visit(AskInfo{"data_dir",
                  "DIR",
                  "folder of the dataset's files [the run's, or the dataset's usual place]",
                  false},
          ask.data_dir);
  }
  visit(AskInfo{"split",
                "test|train|validation",
                "which samples; validation: those that the run held out"},
        ask.split);
  visit(AskInfo{"batch_size",
                "N",
                "samples per batch, on each rank [-1: the run's --eval-batch-size]",
                false},
        ask.batch_size);
  visit(AskInfo{"workers", "N", "loader threads per rank [-1: from cores and ranks]", false},
        ask.workers);
  visit(AskInfo{"device",
                "auto|cpu|cuda|cuda:N",
                "where to compute; a kind alone: each rank on the device of its number"},
        ask.device);
  visit(AskInfo{"backend", "NAME|auto", "process group (muster list backends)"}, ask.backend);
}

}  // namespace muster::train
