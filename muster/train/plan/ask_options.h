// What a user can say when a trained classifier is asked: `muster evaluate` and `muster predict`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace muster::train {

/// Which weights of which run are asked about which samples, and how.
struct AskOptions {
  std::filesystem::path run;       ///< the folder of a run of `muster train`
  std::string weights;             ///< last, best, or a checkpoint; empty: as the run's own test
  std::string data;                ///< name:key=value,…; empty: the run's own
  std::filesystem::path data_dir;  ///< empty: the run's, else the dataset's own places
  std::string split = "test";      ///< or train, or validation: what the run held out
  int64_t batch_size = 256;        ///< per rank
  int64_t workers = -1;            ///< loader threads per rank; -1: from cores and ranks
  std::string device = "auto";     ///< auto, cpu, or a kind of device: cuda, or cuda:1
  std::string backend = "auto";    ///< a name of `muster list backends`, or auto
};

}  // namespace muster::train
