// `muster gpu` and `muster doctor` on a real device: beside nvidia-smi, and on errors that are real.
#include <cstdio>
#include <memory>

#include <gmock/gmock.h>

#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/gpu/gpu.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

using test::kGpu;
using test::OnGpu;
using ::testing::HasSubstr;
using testing_process::Launched;

using CommandsOnGpu = OnGpu;

struct Said {
  int code = -1;
  std::string out, err;
};

Said said(const std::vector<std::string>& words) {
  Launched program(words);
  const int code = program.wait(std::chrono::seconds(60)).code;
  return {code, program.out(), program.err()};
}

/// Fields of the first device.
std::vector<std::string> nvidia_smi(const std::string& fields) {
  const std::string line =
      concat("nvidia-smi --query-gpu=", fields, " --format=csv,noheader,nounits");
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(line.c_str(), "r"), &::pclose);
  char text[1024] = {};
  if (pipe == nullptr || std::fgets(text, sizeof text, pipe.get()) == nullptr) return {};
  std::vector<std::string> values;
  for (const std::string& value : split(text, ',')) values.emplace_back(trim(value));
  return values;
}

TEST_F(CommandsOnGpu, DevicesAreThoseOfNvidiaSmi) {
  const auto fields = nvidia_smi("name,uuid,memory.total,driver_version,power.limit,pci.bus_id");
  if (fields.size() != 6) GTEST_SKIP() << "nvidia-smi is not there";
  const Said json = said({"gpu", "--json"});
  ASSERT_EQ(json.code, 0) << json.err;
  const Json machine = parse_json(trim(json.out), "out");
  ASSERT_FALSE(machine.at("devices").empty()) << json.out;
  const Json& device = machine.at("devices")[0];
  EXPECT_EQ(device.at("name").get<std::string>(), fields[0]);
  EXPECT_EQ(device.at("uuid").get<std::string>(), fields[1]);
  EXPECT_EQ(device.at("memory").at("total_bytes").get<int64_t>() >> 20, std::stoll(fields[2]));
  EXPECT_EQ(machine.at("driver").at("version").get<std::string>(), fields[3]);
  EXPECT_NEAR(device.at("power_limit_w").get<double>(), std::stod(fields[4]), 0.5);
  EXPECT_EQ(device.at("bus_id").get<std::string>(), fields[5]);
  EXPECT_TRUE(device.at("missing").empty()) << device.dump(1);
}

// What this process holds is seen by the driver, and this process is known by its number.
TEST_F(CommandsOnGpu, MemoryIsSeenAndItsOwnerIsNamed) {
  const auto used = [] {
    const Said json = said({"gpu", "--json"});
    return parse_json(trim(json.out), "out")
        .at("devices")[0]
        .at("memory")
        .at("used_bytes")
        .get<int64_t>();
  };
  torch::ones({1}, kGpu);
  const int64_t before = used();
  const at::Tensor held =
      torch::zeros({int64_t{4} << 30}, at::TensorOptions(kGpu).dtype(at::kByte));
  EXPECT_NEAR(static_cast<double>(used() - before), static_cast<double>(held.numel()), 64 << 20);
  const Said table = said({"gpu"});
  std::puts(table.out.c_str());
}

// The environment's checks find nothing wrong where everything works.
TEST_F(CommandsOnGpu, TheDoctorFindsTheMachineInOrder) {
  const Said checks = said({"doctor", "--checks", "driver,visible-devices,libtorch"});
  EXPECT_EQ(checks.code, 0) << checks.out << checks.err;
  std::puts(checks.out.c_str());
}

struct Failure {
  const char* word;
  const char* row;  ///< of the catalogue, or why

  friend void PrintTo(const Failure& failure, std::ostream* out) { *out << failure.word; }
};

class DoctorOnGpu : public OnGpu, public ::testing::WithParamInterface<Failure> {};

TEST_P(DoctorOnGpu, NamesTheCause) {
  const std::string program = test::program_path("muster_failing_on_gpu");
  const Said watched = said({"doctor", "--", program, GetParam().word});
  std::printf("---- %s\n%s%s\n", GetParam().word, watched.out.c_str(), watched.err.c_str());
  EXPECT_THAT(watched.out + watched.err, HasSubstr(GetParam().row));
}

INSTANTIATE_TEST_SUITE_P(Failures,
                         DoctorOnGpu,
                         ::testing::Values(Failure{"index", "device-side-assert"},
                                           Failure{"label", "device-side-assert"},
                                           Failure{"out-of-memory", "cuda-out-of-memory"},
                                           Failure{"too-large", "cuda-out-of-memory"},
                                           Failure{"cudnn", "cuda-out-of-memory"},
                                           Failure{"cublas",
                                                   "The device has no memory left for cuBLAS"},
                                           Failure{"illegal-access", "illegal-memory-access"},
                                           Failure{"two-devices", "device-mismatch"},
                                           Failure{"dtype", "dtype-mismatch"},
                                           Failure{"host-pointer", "device-mismatch"},
                                           Failure{"no-such-device", "no-device"}),
                         [](const auto& parameter) {
                           std::string name = parameter.param.word;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace muster
