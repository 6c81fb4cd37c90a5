// `muster gpu`: what the devices of this machine do, and who uses them.
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <utility>

#include <poll.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/diagnose/devices/available_devices.h"
#include "muster/diagnose/devices/machine_status.h"
#include "muster/program/line/value.h"

#include "cli/command.h"
#include "cli/gpu/gpu_view.h"
#include "cli/gpu/machine_text.h"
#include "cli/gpu/status_thread.h"
#include "cli/line/app.h"
#include "cli/screen/full_screen.h"

namespace muster::cli {
namespace {

constexpr double kLeastIntervalS = 0.1, kMostIntervalS = 3600;
constexpr double kEndTimeoutS =
    0.5;  // for a reading under way, before the program leaves it behind

constexpr const char* kGpuDescription =
    "The devices of this machine: utilisation, memory, temperature, power, and the processes that "
    "use them, with what programs that publish it say of their allocators. Without a device: "
    "memory "
    "of the machine and of the control group, pressure, and the largest processes.";

constexpr const char* kGpuExamples =
    "Examples:\n"
    "  muster gpu                       once\n"
    "  muster gpu --watch               the whole terminal, with curves; ? for keys\n"
    "  muster gpu --json                for a script\n"
    "  muster gpu --util                utilisation and memory in percent, as GPUtil\n"
    "  export CUDA_VISIBLE_DEVICES=$(muster gpu --available 2 --order memory)\n"
    "\n"
    "Exit codes: 0 done, also where there is no device; 1 if the driver is there but\n"
    "fails, or does not answer in time, or --available finds no device; 2 wrong use.\n"
    "\n"
    "In a container the driver names processes by the host's numbers; those that\n"
    "cannot be told are shown so. Under MIG there is no utilisation, the instances\n"
    "are listed instead.\n";

struct GpuWords {
  bool watch = false, json = false, util = false;
  double interval_s = 1, timeout_s = 10;
  uint64_t processes = 10;
  std::optional<uint64_t> available;
  std::string order = "first";
  double max_load = 0.5, max_memory = 0.5;
  bool include_unknown = false;
};

std::unique_ptr<CLI::App> gpu_app(GpuWords& words) {
  auto app = make_app("gpu", kGpuDescription, kGpuExamples, "muster gpu [OPTIONS]");
  app->add_flag("--watch", words.watch, "the whole terminal, until q or Ctrl-C");
  program::add_value(*app, "--interval", words.interval_s, "seconds between readings of --watch")
      ->type_name("S")
      ->capture_default_str();
  app->add_flag("--json", words.json, "one JSON object");
  app->add_flag("--util", words.util, "the table of GPUtil.showUtilization");
  program::add_value(*app,
                     "--available",
                     words.available,
                     "UUIDs of at most so many free devices, with commas, as GPUtil.getAvailable "
                     "chooses them")
      ->type_name("N");
  program::add_value(*app, "--order", words.order, "of --available: which come first")
      ->type_name("first|last|random|load|memory")
      ->capture_default_str();
  program::add_value(
      *app, "--max-load", words.max_load, "of --available: utilisation below, as a share")
      ->type_name("X")
      ->capture_default_str();
  program::add_value(
      *app, "--max-memory", words.max_memory, "of --available: share of memory used below")
      ->type_name("X")
      ->capture_default_str();
  app->add_flag("--include-unknown",
                words.include_unknown,
                "of --available: also those without a known load, as under MIG");
  program::add_value(*app,
                     "--processes",
                     words.processes,
                     "without a device: so many of the machine's largest processes")
      ->type_name("N")
      ->capture_default_str();
  program::add_value(*app, "--timeout", words.timeout_s, "seconds to wait for the driver")
      ->type_name("S")
      ->capture_default_str();
  return app;
}

diagnose::DeviceOrder order_of(const std::string& word) {
  using diagnose::DeviceOrder;
  const std::vector<std::string> words{"first", "last", "random", "load", "memory"};
  for (size_t i = 0; i < words.size(); ++i) {
    if (word == words[i]) return static_cast<DeviceOrder>(i);
  }
  throw usage_error({.refused = "--order",
                     .rule = "first, last, random, load or memory",
                     .value = word,
                     .hint = suggestion(word, words)});
}

/// A flag that changes nothing was meant for something else.
void check_applies(const CLI::App& app, const GpuWords& words) {
  const auto need = [&](bool is_so, const char* with, std::initializer_list<const char*> flags) {
    if (is_so) return;
    for (const char* flag : flags) {
      if (app.count(flag) > 0)
        throw usage_error({.refused = flag, .rule = concat("it goes with ", with)});
    }
  };
  const bool is_available = words.available.has_value();
  need(words.watch, "--watch", {"--interval"});
  need(is_available, "--available", {"--order", "--max-load", "--max-memory", "--include-unknown"});
  need(!is_available && !words.util, "what lists processes", {"--processes"});
  need(!words.watch, "one reading, not with --watch", {"--timeout"});
}

void check_words(const GpuWords& words) {
  const int kinds =
      int{words.watch} + int{words.json} + int{words.util} + int{words.available.has_value()};
  const bool is_json_list = kinds == 2 && words.json && words.available;
  if (kinds > 1 && !is_json_list)
    throw usage_error({.refused = "several ways to show it",
                       .rule = "one of --watch, --json, --util, --available; --json goes with "
                               "--available"});
  if (!(words.interval_s >= kLeastIntervalS && words.interval_s <= kMostIntervalS))
    throw usage_error({.refused = "--interval",
                       .rule = "from 0.1 to 3600 seconds",
                       .value = shortest(words.interval_s)});
  if (!(words.timeout_s > 0 && words.timeout_s <= kMostIntervalS))
    throw usage_error({.refused = "--timeout",
                       .rule = "more than 0, at most 3600 seconds",
                       .value = shortest(words.timeout_s)});
  for (const double share : {words.max_load, words.max_memory}) {
    if (!(share >= 0))
      throw usage_error({.refused = "--max-load, --max-memory",
                         .rule = "a share, 0 or more",
                         .value = shortest(share)});
  }
  if (words.available == 0U)
    throw usage_error({.refused = "--available", .rule = "at least 1", .value = "0"});
}

/// The reader, which only its thread may hold: its end asks the driver, too. And what it waits for.
struct Reading {
  std::shared_ptr<const diagnose::ReadProgress> progress;
  std::function<diagnose::MachineStatus()> read;
};

Reading reading_of(size_t processes) {
  const auto reader = std::make_shared<diagnose::MachineReader>(
      diagnose::MachineReaderOptions{.processes = processes});
  return {reader->progress(), [reader] { return reader->read(); }};
}

/// A call of the driver is still under way in a thread: nothing may be taken down around it.
[[noreturn]] void leave(program::Console& console, int code) {
  console.out() << std::flush;
  console.err() << std::flush;
  std::_Exit(code);
}

int read_once(const GpuWords& words,
              program::Console& console,
              const std::function<int(const diagnose::MachineStatus&)>& print) {
  Reading reading = reading_of(words.processes);
  StatusThread thread(std::move(reading.read), kMostIntervalS);
  pollfd ready{thread.wake_fd(), POLLIN, 0};
  ::poll(&ready, 1, static_cast<int>(std::ceil(words.timeout_s * 1000)));
  const auto status = thread.newest();
  if (!status) {
    const std::string on = reading.progress->waits_for();
    console.error(environment_error(
        {.refused = "the driver does not answer",
         .rule = concat(
             on.empty() ? "a reading" : on, " comes back within ", shortest(words.timeout_s), " s"),
         .hint =
             "dmesg has the kernel's words; a device that hangs may need a reset or a reboot"}));
    leave(console, kFailed);
  }
  const int code = print(*status);
  if (!thread.end(kEndTimeoutS)) leave(console, code);
  return code;
}

int code_of(const diagnose::MachineStatus& status) {
  return status.driver.kind == diagnose::DriverStatus::kFailed ? kFailed : kDone;
}

int watch(const GpuWords& words, program::Console& console) {
  auto screen = std::make_unique<FullScreen>(console.colour(), "muster gpu, or muster gpu --json");
  Reading reading = reading_of(words.processes);
  StatusThread thread(std::move(reading.read), words.interval_s);
  GpuModel model;
  int code = kDone;
  for (;;) {
    Canvas canvas(screen->columns(), screen->rows());
    draw_gpu(model,
             {.reading_s = thread.reading_for_s(),
              .on = reading.progress->waits_for(),
              .interval_s = words.interval_s},
             canvas);
    screen->show(canvas);
    const Key key = screen->wait(/*timeout_s=*/1, thread.wake_fd());
    if (key.kind == Key::kInterrupt) code = kInterrupted;
    if (!model.on_key(key)) break;
    const auto newest = thread.newest();
    if (newest.get() != model.newest()) model.update(newest);
  }
  screen.reset();
  if (!thread.end(kEndTimeoutS)) leave(console, code);
  return code;
}

int print_available(const GpuWords& words,
                    const diagnose::MachineStatus& status,
                    program::Console& console) {
  const auto found =
      diagnose::available_devices(status.devices,
                                  {.order = order_of(words.order),
                                   .limit = static_cast<size_t>(*words.available),
                                   .max_load = words.max_load,
                                   .max_memory = words.max_memory,
                                   .include_unknown = words.include_unknown,
                                   .seed = static_cast<uint64_t>(status.unix_s * 1e6)});
  Json json = Json::array();
  std::vector<std::string> uuids;
  for (const int64_t index : found) {
    for (const diagnose::DeviceStatus& device : status.devices) {
      if (device.index != index) continue;
      uuids.push_back(device.uuid);
      json.push_back({{"index", index}, {"uuid", device.uuid}});
    }
  }
  if (words.json)
    console.out() << json_text(Json{{"available", std::move(json)}}) << '\n';
  else if (!uuids.empty())
    console.out() << join(uuids, ",") << '\n';
  if (!uuids.empty()) return kDone;
  const std::string why = status.driver.kind != diagnose::DriverStatus::kReady
                              ? status.driver.problem
                              : concat("none of ", status.devices.size(), " devices is free");
  console.note(concat("no device is available: ", why));
  return kFailed;
}

int run_gpu_command(std::span<const std::string> args, program::Console& console) {
  GpuWords words;
  const auto app = gpu_app(words);
  if (const auto done = program::parse(*app, args, console)) return *done;
  check_words(words);
  check_applies(*app, words);
  order_of(words.order);
  if (words.watch) return watch(words, console);
  return read_once(words, console, [&](const diagnose::MachineStatus& status) {
    if (words.available) return print_available(words, status, console);
    if (words.json) {
      console.out() << json_text(to_json(status)) << '\n';
    } else if (words.util) {
      console.out() << diagnose::utilization_table(status.devices);
      if (status.driver.kind != diagnose::DriverStatus::kReady) console.note(status.driver.problem);
      for (const diagnose::DeviceStatus& device : status.devices) {
        if (!device.utilization_percent.value)
          console.note(concat(
              "device ", device.index, ": no utilisation: ", device.utilization_percent.why));
      }
    } else {
      console.out() << machine_text(status, static_cast<size_t>(console.width()));
    }
    return code_of(status);
  });
}

}  // namespace

extern constinit const CommandEntry gpu_entry{
    "gpu", "devices, their memory and processes, once or on the whole screen", &run_gpu_command};

}  // namespace muster::cli
