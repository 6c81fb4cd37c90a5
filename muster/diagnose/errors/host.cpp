// The host and its limits: rows 8, 37, 38 and 49 to 52.
#include "muster/diagnose/catalogue/error_row.h"

namespace muster::diagnose {
namespace {

bool is_the_word(std::string_view line, std::string_view word) {
  const size_t first = line.find_first_not_of(" \t");
  const size_t last = line.find_last_not_of(" \t\r.");
  return first != std::string_view::npos && line.substr(first, last + 1 - first) == word;
}

bool is_only_killed(std::string_view line) { return is_the_word(line, "Killed"); }

constexpr Pattern kKilled[] = {{"Out of memory: Kill"},
                               {"Memory cgroup out of memory"},
                               {"oom-kill event"},
                               {"oom_kill event"},
                               {"srun: error*Out Of Memory"},
                               {"OUT_OF_MEMORY"},
                               {"MemoryLimitExceeded"},
                               {"OOMKilled"},
                               {"oom_reaper: reaped"},
                               {"invoked oom-killer"},
                               {"Exceeded job memory limit"},
                               {"failed (exitcode: -9)"},
                               {"failed: signal SIGKILL"},
                               {"exit code 137"},
                               {"exited with code 137"},
                               {"status 137"},
                               {"interrupted by signal 9"},
                               {"died with <Signals.SIGKILL"},
                               {"DataLoader worker*is killed by signal: Killed"},
                               {"Killed", is_only_killed},
                               {"line *: *Killed    "},
                               {"bash: line *: * Killed "},
                               {"exits with return code = -9"},
                               {"Signal 9 (SIGKILL) received", nullptr, Depth::kPerhaps},
                               {"exitcode*: -9", nullptr, Depth::kPerhaps}};
constexpr Cause kKilledCauses[] = {
    {.why =
         "The kernel killed the process because its control group (container, Slurm job) was out "
         "of memory.",
     .step =
         "Ask for more memory, or use less: fewer loader workers and less prefetching, a smaller "
         "batch, no second copy of the data set per rank.",
     .when = "cgroup out of memory"},
    {.why = "The kernel killed the process because the job was out of memory.",
     .step = "Ask for more memory (--mem), or use less: fewer loader workers, a smaller batch.",
     .when = "slurmstepd*oom"},
    {.why = "The container was killed because it was out of memory.",
     .step = "Raise its limit, or use less: fewer loader workers, a smaller batch.",
     .when = "OOMKilled"},
    {.why = "The kernel killed the process because the machine was out of memory.",
     .step =
         "Use less: fewer loader workers and less prefetching, a smaller batch, one copy of the "
         "data set for all ranks (mapped files).",
     .when = "Out of memory: Kill"},
    {.why = "SIGKILL ended the process. As a rule that is the kernel, when machine or container is "
            "out of memory; else a scheduler, a time limit, or a person.",
     .step = "Look for `oom-kill` in dmesg or in the job's record (`sacct -o State,MaxRSS`). Then "
             "fewer loader workers, a smaller batch, or more memory."}};

constexpr Pattern kShm[] = {{"killed by signal: Bus error"},
                            {"Unexpected bus error encountered in worker"},
                            {"insufficient shared memory (shm)"},
                            {"unable to open shared memory object", nullptr, Depth::kPerhaps},
                            {"unable to resize file*No space left on device"},
                            {"unable to write to file </torch_"},
                            {"No space left on device*/dev/shm"},
                            {"/dev/shm*No space left on device"},
                            {"failed: signal SIGBUS"},
                            {"Bus error (core dumped)"},
                            {"failed (exitcode: -7)"}};
constexpr Cause kShmCauses[] = {
    {.why =
         "/dev/shm is full: processes share tensors through it (loader workers, NCCL, ranks of "
         "Muster's shm backend), and a container has 64 MiB by default. Rarely a mapped file that "
         "was cut short.",
     .step =
         "`docker run --shm-size 8g` or `--ipc host`; in Kubernetes an emptyDir of medium Memory "
         "at /dev/shm. Fewer workers need less. LibTorch's own loader uses threads and none of "
         "it."}};

constexpr Pattern kFiles[] = {{"Too many open files"}, {"EMFILE"}, {"received 0 items of ancdata"}};
constexpr Cause kFilesCauses[] = {
    {.why = "The process has as many files open as it may (ulimit -n): tensors of loader workers "
            "cost one each, and loaders or files that are never closed add up.",
     .step = "Raise the limit (`ulimit -n 65536`), share tensors by file_system instead of file "
             "descriptors, and look in /proc/PID/fd for what is left open."}};

constexpr Pattern kSegfault[] = {{"Segmentation fault"},
                                 {"failed (exitcode: -11)"},
                                 {"failed: signal SIGSEGV"},
                                 {"killed by signal: Segmentation fault"},
                                 {"died with <Signals.SIGSEGV"},
                                 {"interrupted by signal 11"},
                                 {"exitcode*: -11", nullptr, Depth::kPerhaps}};
constexpr Cause kSegfaultCauses[] = {
    {.why =
         "The process used an address that is not its own: objects of two ABIs or two LibTorchs in "
         "one process, a tensor over memory that was freed (from_blob), a stack that is full, or "
         "something global that outlives LibTorch at the end.",
     .step =
         "`muster doctor --program FILE` shows which libraries are loaded. `gdb --args PROGRAM`, "
         "then `run` and `bt`, shows where it was."}};

constexpr Pattern kCancelled[] = {{"DUE TO TIME LIMIT"},
                                  {"CANCELLED AT"},
                                  {"DUE TO PREEMPTION"},
                                  {"DUE TO NODE FAILURE"},
                                  {"muster: stopped by SIG"},
                                  {"Received*death signal, shutting down workers"}};
constexpr Cause kCancelledCauses[] = {
    {.why = "The scheduler ended the job at its time limit.",
     .step = "Ask for more time, save checkpoints more often, and resume.",
     .when = "DUE TO TIME LIMIT"},
    {.why = "A machine of the job failed.",
     .step = "Start again without it (`--exclude NODE`), from the last checkpoint.",
     .when = "NODE FAILURE"},
    {.why = "Somebody ended the job: the scheduler, a person, or a lost terminal.",
     .step =
         "Resume from the last checkpoint. Under nohup or in a batch job a lost terminal sends no "
         "signal."}};

constexpr Pattern kDiskFull[] = {{"No space left on device"},
                                 {"ENOSPC"},
                                 {"Disk quota exceeded"},
                                 {"PytorchStreamWriter failed writing file"}};
constexpr Cause kDiskFullCauses[] = {
    {.why = "The user's quota is used up.",
     .step = "`quota -s`, or `lfs quota`; delete old checkpoints, or write elsewhere.",
     .when = "quota exceeded"},
    {.why = "A file system is full: that of the output, of TMPDIR, or /dev/shm (shared tensors), "
            "or it "
            "has no inodes left.",
     .step =
         "`df -h` and `df -i` on the path of the message, on TMPDIR and on /dev/shm. Keep fewer "
         "checkpoints; in containers give /dev/shm more (--shm-size)."}};

constexpr Pattern kThreads[] = {{"pthread_create failed"},
                                {"can't start new thread"},
                                {"Thread creation failed"},
                                {"fork: Resource temporarily unavailable"},
                                {"fork: retry: Resource temporarily unavailable"},
                                {"libgomp: Thread creation failed"},
                                {"BlockingIOError: [Errno 11] Resource temporarily unavailable"}};
constexpr Cause kThreadsCauses[] = {
    {.why = "The user or the container may have no more processes and threads: each rank starts a "
            "thread per core in several libraries.",
     .step =
         "Set OMP_NUM_THREADS (and OPENBLAS_NUM_THREADS) to the cores divided by the ranks; raise "
         "`ulimit -u`, or the container's --pids-limit."}};

constexpr ErrorRow kHostRows[] = {
    {.number = 8,
     .name = "killed",
     .title = "the process was killed (SIGKILL, exit code 137)",
     .depth = Depth::kEnd,
     .patterns = kKilled,
     .causes = kKilledCauses,
     .checks = "memory",
     .confirm = "the control group's oom_kill counter; the kernel's log",
     .source = ""},
    {.number = 37,
     .name = "shm-exhausted",
     .title = "shared memory is full (bus error)",
     .depth = Depth::kCause,
     .patterns = kShm,
     .causes = kShmCauses,
     .checks = "shm",
     .confirm = "`df /dev/shm` while the program runs",
     .source = "https://github.com/pytorch/pytorch/issues/5040"},
    {.number = 38,
     .name = "too-many-open-files",
     .title = "too many open files",
     .depth = Depth::kCause,
     .patterns = kFiles,
     .causes = kFilesCauses,
     .checks = "limits",
     .confirm = "RLIMIT_NOFILE, and what is in /proc/PID/fd",
     .source = "https://github.com/pytorch/pytorch/issues/11201"},
    {.number = 49,
     .name = "segmentation-fault",
     .title = "the process crashed (SIGSEGV)",
     .depth = Depth::kEnd,
     .patterns = kSegfault,
     .causes = kSegfaultCauses,
     .checks = "libtorch, limits",
     .confirm = "the stack in a debugger; the libraries that are loaded",
     .source = ""},
    {.number = 51,
     .name = "disk-full",
     .title = "a file system is full",
     .depth = Depth::kCause,
     .patterns = kDiskFull,
     .causes = kDiskFullCauses,
     .checks = "disk, shm",
     .confirm = "`df` on the path that is named",
     .source = ""},
    {.number = 52,
     .name = "no-more-threads",
     .title = "no more threads can be started",
     .depth = Depth::kCause,
     .patterns = kThreads,
     .causes = kThreadsCauses,
     .checks = "limits, cpu",
     .confirm = "RLIMIT_NPROC and the control group's pids.max against the threads that there are",
     .source = ""},
    {.number = 50,
     .name = "job-cancelled",
     .title = "the job was ended from outside",
     .depth = Depth::kEnd,
     .patterns = kCancelled,
     .causes = kCancelledCauses,
     .checks = "",
     .confirm = "the scheduler's record of the job",
     .source = ""}};

}  // namespace

extern constinit const ErrorFamilyEntry host_entry{
    "host", "the host, its limits, and how processes end", kHostRows};

}  // namespace muster::diagnose
