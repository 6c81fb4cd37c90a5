// The host and its limits: rows 37, 38, 51, 52 and 60.
#include "muster/diagnose/catalogue/error_row.h"

namespace muster::diagnose {
namespace {

/// "Bus error", or zsh's "4711 bus error  python train.py" (its "[1]" reads as a rank).
bool is_bus_error(std::string_view line) {
  const size_t at = line.find_first_not_of(" 0123456789+-");
  return at != line.npos &&
         (line.substr(at).starts_with("bus error ") || line.substr(at).starts_with("Bus error"));
}

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
                            {"failed (exitcode: -7)"},
                            {"Bus error*(core dumped)"},
                            {"zsh: bus error"},
                            {"signal SIGBUS"},
                            {"Signal: Bus error"},
                            {"SIGBUS (@"},
                            {"Fatal Python error: Bus error"},
                            {"<Signals.SIGBUS"},
                            {"Signal 7 (SIGBUS) received"},
                            {"exitcode*: -7", nullptr, Depth::kPerhaps},
                            {"Bus error", is_bus_error},
                            {"unable to allocate shared memory(shm)"},
                            {"unable to allocate shared memory"},
                            {"exited on signal 7"},
                            {"task*: Bus error"},
                            // SIGBUS in the words of DeepSpeed and of other launchers
                            {"return code = -7"},
                            {"return code: -7"},
                            {"return code -7"},
                            {"exit code: -7"},
                            {"exit code -7"},
                            {"exitcode -7"},
                            {"exit code 135"},
                            {"exit code: 135"},
                            {"exited with code 135"},
                            {"status 135"},
                            {"torch_shm_manager"},
                            {"Error while creating shared memory"},
                            {"out of shared memory"},
                            {"unable to mmap*/dev/shm"},
                            {"shared memory", nullptr, Depth::kGuess}};
constexpr Cause kShmCauses[] = {
    {.why =
         "/dev/shm is full: processes share tensors through it (loader workers, NCCL, ranks of "
         "Muster's shm backend), and a container has 64 MiB by default. Rarely a mapped file that "
         "was cut short.",
     .step =
         "`docker run --shm-size 8g` or `--ipc host`; in Kubernetes an emptyDir of medium Memory "
         "at /dev/shm. Fewer workers need less. LibTorch's own loader uses threads and none of "
         "it."}};

constexpr Pattern kFiles[] = {{"Too many open files"},
                              {"EMFILE"},
                              {"received 0 items of ancdata"},
                              {"errno 24"},
                              {"errno: 24"},
                              {"file descriptor", nullptr, Depth::kGuess}};
constexpr Cause kFilesCauses[] = {
    {.why = "The process has as many files open as it may (ulimit -n): tensors of loader workers "
            "cost one each, and loaders or files that are never closed add up.",
     .step = "Raise the limit (`ulimit -n 65536`), share tensors by file_system instead of file "
             "descriptors, and look in /proc/PID/fd for what is left open."}};

constexpr Pattern kDiskFull[] = {{"No space left on device"},
                                 {"ENOSPC"},
                                 {"Disk quota exceeded"},
                                 {"PytorchStreamWriter failed writing file"},
                                 {"enforce fail at inline_container.cc*unexpected pos"},
                                 {"Errno 122"},
                                 {"errno 28"},
                                 {"errno: 28"},
                                 {"low on resource: ephemeral-storage"},
                                 {"basic_ios::clear: iostream error"},
                                 {"exceeds the local ephemeral storage"},
                                 {"There is not enough space on the disk"},
                                 {"[WinError 112]"},
                                 {"File*cannot be opened.", nullptr, Depth::kPerhaps},
                                 {"Parent directory*does not exist", nullptr, Depth::kPerhaps},
                                 {"no space", nullptr, Depth::kGuess},
                                 {"disk*full", nullptr, Depth::kGuess},
                                 {"not enough disk", nullptr, Depth::kGuess},
                                 {"quota*exceeded", nullptr, Depth::kGuess},
                                 {"exceeded*quota", nullptr, Depth::kGuess},
                                 {"disk is full"},
                                 {"database or disk is full"},
                                 {"not enough free space"},
                                 {"write error: disk full"},
                                 {"not enough space", nullptr, Depth::kPerhaps},
                                 {"out of disk space"},
                                 {"No usable temporary directory"}};
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
                                {"BlockingIOError: [Errno 11] Resource temporarily unavailable"},
                                {"thread constructor failed"},
                                {"std::system_error*Resource temporarily unavailable"},
                                {"what():*Resource temporarily unavailable"},
                                {"pthread_create*Resource temporarily unavailable"},
                                {"OMP: Error #34"},
                                {"OMP: System error #11"},
                                {"unable to create thread"},
                                {"Unable to create new thread"},
                                {"failed to create thread"},
                                {"fork failed*Resource temporarily unavailable"},
                                {"fork*: Resource temporarily unavailable"},
                                {"unable to create new native thread"},
                                {"pthread_create() failed"},
                                {"cannot fork*Resource temporarily"},
                                {"uv_thread_create"},
                                {"Enable multithreading to use std::thread"},
                                {"pthread_create*Operation not permitted"},
                                {"tried to start too many threads"},
                                {"too many memory regions"},
                                {"create*thread", nullptr, Depth::kGuess},
                                {"start*thread", nullptr, Depth::kGuess},
                                {"spawn*thread", nullptr, Depth::kGuess},
                                {"Resource temporarily unavailable", nullptr, Depth::kPerhaps},
                                {"can't allocate thread"}};
constexpr Cause kThreadsCauses[] = {
    {.why = "The user or the container may have no more processes and threads: each rank starts a "
            "thread per core in several libraries.",
     .step =
         "Set OMP_NUM_THREADS (and OPENBLAS_NUM_THREADS) to the cores divided by the ranks; raise "
         "`ulimit -u`, or the container's --pids-limit."}};

constexpr Pattern kStorage[] = {{"Stale file handle"},
                                {"Stale NFS file handle"},
                                {"Input/output error"},
                                {"Remote I/O error"},
                                {"Transport endpoint is not connected"},
                                {"Cannot send after transport endpoint shutdown"},
                                {"Read-only file system"},
                                {"i/o error", nullptr, Depth::kGuess},
                                {"Errno 5]"},
                                {"Errno 116]"},
                                {"Errno 121]", nullptr, Depth::kPerhaps}};
constexpr Cause kStorageCauses[] = {
    {.why = "The file system does not take writes: mounted so, or made so by the kernel after an "
            "error of the disk.",
     .step =
         "Write elsewhere (`muster train --output`, TMPDIR, HF_HOME); look in dmesg whether the "
         "disk failed.",
     .when = "Read-only file system"},
    {.why = "A file was removed or replaced on the server while it was open here.",
     .step = "Open it anew; do not replace data sets or logs that running jobs have open.",
     .when = "Stale"},
    {.why = "A disk or a network file system failed under the program.",
     .step = "`ls` the path of the message, and look in dmesg and at the mount; copy the data to a "
             "local disk. If a loader reads a file again that failed, the run can go on."}};

constexpr ErrorRow kHostRows[] = {
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
    {.number = 60,
     .name = "storage-failed",
     .title = "a disk or a network file system fails",
     .depth = Depth::kCause,
     .patterns = kStorage,
     .causes = kStorageCauses,
     .checks = "disk",
     .confirm = "the kernel's log, and the same file read by `cat`",
     .source = ""}};

}  // namespace

extern constinit const ErrorFamilyEntry host_entry{"host", "the host and its limits", kHostRows};

}  // namespace muster::diagnose
