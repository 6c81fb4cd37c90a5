// Ranks over NCCL: rows 28 to 33.
#include <algorithm>
#include <array>

#include "muster/diagnose/catalogue/error_row.h"

namespace muster::diagnose {
namespace {

// Note [Connections of NCCL]
// A rank tells the others its port when it listens there already, so what is refused is a port whose process has
// ended, or one that a firewall keeps (nccl#1515). NCCL tries again when it is refused, for some seconds, and then says that the
// count is exceeded; from 2.18 to 2.23 the second try of the same socket was aborted by the kernel instead. No
// answer at all comes of an interface by which the machines do not reach each other, or of a firewall that is silent.

bool is_refused(std::string_view line) {
  return line.find("onnect") != line.npos &&
         (line.find("onnection refused") != line.npos ||
          line.find("Software caused connection abort") != line.npos ||
          line.find("exceeded retries") != line.npos);
}

bool is_unreachable(std::string_view line) {
  constexpr std::array<std::string_view, 5> kWords{"No route to host",
                                                   "etwork is unreachable",
                                                   "onnection timed out",
                                                   "exceeded timeouts",
                                                   "Cannot assign requested address"};
  return line.find("onnect") != line.npos &&
         std::ranges::any_of(kWords, [&](auto word) { return line.find(word) != line.npos; });
}

constexpr Cause kRefused{
    .why =
        "A peer does not listen any more on the port that it had told (its process has ended), or "
        "a "
        "firewall between the machines refuses it.",
    .step =
        "Read the log of the rank at the address in the line: it ended first. If it runs, let "
        "NCCL's ports through (net.ipv4.ip_local_port_range bounds them), and name the interface "
        "of both machines by NCCL_SOCKET_IFNAME.",
    .holds = is_refused};
constexpr Cause kUnreachable{
    .why =
        "A peer's address does not answer: NCCL took an interface by which the machines do not "
        "reach each other, or a firewall drops what is sent.",
    .step =
        "Set NCCL_SOCKET_IFNAME to the interface that reaches the other machines (`ip route get "
        "ADDRESS`), on all of them; let NCCL's ports through (net.ipv4.ip_local_port_range "
        "bounds them).",
    .holds = is_unreachable};

constexpr Pattern kSystem[] = {{"NCCL*unhandled system error"},
                               {"ncclSystemError"},
                               {"NCCL WARN Error while creating shared memory segment"},
                               {"NCCL WARN Error while attaching to shared memory segment"},
                               {"NCCL WARN Call to shm_open failed"},
                               {"NCCL WARN Bootstrap : no socket interface found"},
                               {"NCCL WARN Call to ibv_*failed"},
                               {"NCCL WARN*Cannot allocate memory"},
                               {"NCCL WARN*No space left on device"},
                               {"NCCL WARN*Connect to*failed"},
                               {"socketStartConnect: Connect to"},
                               {"socketPollConnect: Connect to*failed"},
                               {"NCCL WARN*Call to connect"},
                               {"NCCL WARN*ibv_reg_mr*failed"},
                               {"NCCL WARN Call to posix_fallocate failed"},
                               {"NCCL WARN Call to mmap failed"},
                               {"NCCL WARN*Call to open failed"},
                               {"Call to ibv_*failed"},
                               {"Error while creating shared memory segment"},
                               {"Error while attaching to shared memory segment"},
                               {"no socket interface found"},
                               {"Call to posix_fallocate failed"},
                               {"NCCL WARN*Too many open files"},
                               {"NCCL Error 2"},
                               {"NCCL WARN Error: failed to extend"},  // src/misc/shmutils.cc
                               {"NET/IB : Unable to open device"},     // src/transport/net_ib.cc
                               {"NCCL WARN*nterface found"},
                               {"WARN Socket creation failed"},
                               {"nccl*socket", nullptr, Depth::kGuess},
                               {"nccl*connect", nullptr, Depth::kGuess},
                               {"socket creation failed", nullptr, Depth::kGuess},
                               {"nccl*network", nullptr, Depth::kGuess},
                               {"ncclSuccess. 2 vs 0"},
                               {"ncclSuccess (2 vs. 0)"},
                               {"status == ncclSuccess*system error"},
                               {"Last error: No NVML devices found"},
                               {"NCCL error(2)"},
                               {"NCCL failure*system"}};
constexpr Cause kSystemCauses[] = {
    kRefused,
    kUnreachable,
    {.why = "NCCL could not make its segments in /dev/shm: it is full, too small or not writable "
            "(64 MiB is a container's default).",
     .step = "Give it more: `docker run --shm-size 8g` or `--ipc host`; remove what dead jobs left "
             "(/dev/shm/nccl-*).",
     .when = "shared memory segment"},
    {.why = "NCCL could not make its segments in /dev/shm.",
     .step = "Look at its size and its rights; see below.",
     .when = "shm_open"},
    {.why = "NCCL may not lock memory for the network card (RLIMIT_MEMLOCK).",
     .step = "`ulimit -l unlimited` where the job starts (in Slurm PropagateResourceLimits, in "
             "containers --ulimit memlock=-1).",
     .when = "ibv_"},
    {.why = "NCCL found no network interface that it may use.",
     .step = "Set NCCL_SOCKET_IFNAME to the interface that reaches the other machines.",
     .when = "no socket interface"},
    {.why =
         "A call of the system failed in NCCL: shared memory, a socket, or memory that may not be "
         "locked.",
     .step = "Run again with NCCL_DEBUG=WARN: the line before the error names the call. Look at "
             "/dev/shm, RLIMIT_MEMLOCK and NCCL_SOCKET_IFNAME."}};

constexpr Pattern kCuda[] = {{"NCCL*unhandled cuda error"},
                             {"ncclUnhandledCudaError"},
                             {"NCCL WARN Cuda failure"},
                             {"NCCL*Cuda failure"},
                             {"Failed to bind NVLink SHARP"},
                             {"NCCL*Failed to CUDA"},
                             {"NCCL Error 1"},
                             {"ncclSuccess. 1 vs 0"},
                             {"ncclSuccess (1 vs. 0)"},
                             {"NCCL error(1)"},
                             {"NCCL failure*cuda"}};
constexpr Cause kCudaCauses[] = {
    {.why = "The device had no memory left for NCCL's buffers.",
     .step =
         "Leave some hundred MiB: a smaller batch, or make the group before the model is there.",
     .when = "Cuda failure*out of memory"},
    {.why =
         "A call of CUDA failed in NCCL: no memory for its buffers, peer access that does not work "
         "(virtual machines, ACS, IOMMU), an error of an earlier kernel, or two CUDA versions.",
     .step = "Run again with NCCL_DEBUG=WARN: it prints the call. Try NCCL_P2P_DISABLE=1 and "
             "NCCL_CUMEM_ENABLE=0 one by one; leave memory free."}};

constexpr Pattern kUsage[] = {{"ncclInvalidUsage"},
                              {"Duplicate GPU detected"},
                              {"NCCL*invalid usage"},
                              {"ncclInvalidArgument"},
                              {"Tensors must be CUDA and dense"},
                              {"NCCL*invalid argument"},
                              {"NCCL WARN*Invalid config"},
                              {"NCCL WARN Invalid rank"},
                              {"NCCL WARN*invalid device pointer"},
                              {"NCCL Error 4"},
                              {"NCCL Error 5"},
                              {"nccl*invalid", nullptr, Depth::kGuess},
                              {"ncclSuccess (4 vs. 0)"},
                              {"ncclSuccess (5 vs. 0)"},
                              {"NCCL error(5)"}};
constexpr Cause kUsageCauses[] = {
    {.why = "Two ranks use the same device.",
     .step =
         "Select the device by LOCAL_RANK before the group is made; give each rank its own, and "
         "start no more ranks than there are devices (CUDA_VISIBLE_DEVICES counts).",
     .when = "Duplicate GPU detected"},
    {.why = "NCCL was called in a way that it does not allow: two ranks on one device, tensors on "
            "another device than the group's, or a group of ranks that do not agree.",
     .step = "Run again with NCCL_DEBUG=WARN. Select the device by LOCAL_RANK first."}};

constexpr Pattern kRemote[] = {{"ncclRemoteError"},
                               // src/misc/socket.cc, src/os/linux.cc
                               {"onnect*exceeded error retry count"},
                               {"socketStartConnect: exceeded"},
                               {"socketPollConnect: exceeded"},
                               {"NCCL*remote process exited or there was a network error"},
                               {"NCCL*internal error"},
                               {"ncclInternalError"},
                               {"NCCL WARN*Connection closed by remote peer"},
                               {"NCCL WARN*Call to recv from*failed"},
                               {"NCCL WARN NET/IB : Got completion*with error"},
                               {"NCCL communicator was aborted on rank", nullptr, Depth::kPerhaps},
                               {"socketProgressOpt: Call to recv from"},
                               {"socketProgress: Connection closed by remote peer"},
                               {"NCCL communicator was aborted", nullptr, Depth::kPerhaps},
                               {"NET/IB : Got completion from peer"},
                               {"NCCL WARN*Net : Call to recv"},
                               {"NCCL WARN*Net : Call to send"},
                               {"NCCL Error 3"},
                               {"NCCL Error 6"},
                               {"Proxy Call to rank"},
                               {"Failed to execute operation"},
                               {"NET/IB*Got async*event"},
                               {"nccl*remote", nullptr, Depth::kGuess},
                               {"nccl*peer", nullptr, Depth::kGuess},
                               {"nccl*abort", nullptr, Depth::kGuess},
                               {"Got completion from peer*with*status"},
                               {"NCCL WARN*Connection closed by"},
                               {"ncclSuccess (3 vs. 0)"},
                               {"NCCL error(3)"}};
constexpr Cause kRemoteCauses[] = {
    kRefused,
    kUnreachable,
    {.why = "The network card gave up: a cable, a switch, or a peer that is gone.",
     .step = "Look at the peer that is named, then at the link (`ibstat`, port counters); raise "
             "NCCL_IB_TIMEOUT only if the link is known to be good.",
     .when = "NET/IB : Got completion"},
    {.why =
         "Another rank ended first, or the network between them broke. These words come from those "
         "that were left.",
     .step =
         "Read the log of the rank that ended first. If none failed by itself, look at the network "
         "and whether all ranks have the same NCCL."}};

constexpr Pattern kTimeout[] = {{"Watchdog caught collective operation timeout"},
                                {"Timeout at NCCL work"},
                                {"Some NCCL operations have failed or timed out"},
                                {"Received a dump signal due to a collective timeout"},
                                {"Watchdog caught collective operation"},
                                {"WorkNCCL(*ran for*before timing out"},
                                {"Observed flight recorder dump signal from another rank"},
                                {"timed out in blocking wait"},
                                {"Exception (either an error or timeout) detected by watchdog"},
                                {"NCCL*collective operation timeout"},
                                {"Timed out waiting*NCCL"},
                                {"allreduce*time", nullptr, Depth::kGuess},
                                {"all_reduce*time", nullptr, Depth::kGuess},
                                {"collective*time", nullptr, Depth::kGuess},
                                {"broadcast*timed", nullptr, Depth::kGuess},
                                {"barrier*time", nullptr, Depth::kGuess},
                                {"nccl*timed out", nullptr, Depth::kGuess},
                                {"nccl*timeout", nullptr, Depth::kGuess},
                                {"processgroup*timed out", nullptr, Depth::kGuess},
                                {"ncclCommWatchdog", nullptr, Depth::kPerhaps},
                                {"WorkNCCL::checkTimeout", nullptr, Depth::kPerhaps},
                                {"checkTimeout(", nullptr, Depth::kPerhaps}};
constexpr Cause kTimeoutCauses[] = {
    {.why =
         "A rank did not come to a collective for the length of the timeout: it skipped the call, "
         "failed, had more or fewer batches, or waited for storage (saving, downloading).",
     .step =
         "Compare what each rank did last: the lowest SeqNum, or the rank that printed no timeout, "
         "is the late one. Equal numbers of batches, no branch by rank around collectives, "
         "slow work of rank 0 followed by a barrier with its own timeout. "
         "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and Muster's monitor name the call."}};

constexpr Pattern kStuck[] = {{"failed to pass monitoredBarrier"},
                              {"monitored barrier*failed"},
                              {"monitoredBarrier*failed"},
                              {"ProcessGroupNCCL's watchdog got stuck"},
                              {"watchdog got stuck for"},
                              {"heartbeat*watchdog*stuck"},
                              {"ProcessGroupNCCL watchdog hang"},
                              {"Heartbeat monitor timed out"},
                              {"Future for ProcessGroup abort timed out"},
                              {"monitoredBarrier"},
                              {"watchdog thread got stuck"}};
constexpr Cause kStuckCauses[] = {
    {.why =
         "The thread that watches over NCCL made no progress: a call of CUDA hangs, a lock is held "
         "(Python's), or the host has no processor time left.",
     .step =
         "Take stacks of all ranks (gdb -p, py-spy). Leave a core free per rank; look for a call "
         "of CUDA that another thread makes at the same time.",
     .when = "watchdog"},
    {.why = "Ranks did not come to a barrier that looks after them in time.",
     .step =
         "The message names them: read their logs. A rank that loads or downloads more than the "
         "others needs a longer timeout."}};

constexpr ErrorRow kNcclRows[] = {
    {.number = 28,
     .name = "nccl-system-error",
     .title = "a call of the system failed in NCCL",
     .depth = Depth::kCause,
     .patterns = kSystem,
     .causes = kSystemCauses,
     .checks = "shm, limits, network",
     .confirm = "the size of /dev/shm, RLIMIT_MEMLOCK, the interfaces that are up",
     .source = "https://github.com/NVIDIA/nccl/issues/328"},
    {.number = 29,
     .name = "nccl-cuda-error",
     .title = "a call of CUDA failed in NCCL",
     .depth = Depth::kLate,
     .patterns = kCuda,
     .causes = kCudaCauses,
     .checks = "driver, visible-devices",
     .confirm = "free memory; a test of peer access; NCCL_DEBUG=WARN",
     .source = "https://github.com/NVIDIA/nccl/issues/1410"},
    {.number = 30,
     .name = "nccl-invalid-usage",
     .title = "NCCL is used in a way that it does not allow",
     .depth = Depth::kCause,
     .patterns = kUsage,
     .causes = kUsageCauses,
     .checks = "visible-devices",
     .confirm = "host and PCI id of each rank's device",
     .source = "https://github.com/NVIDIA/nccl/issues/1241"},
    {.number = 31,
     .name = "nccl-remote-error",
     .title = "NCCL lost a peer",
     .depth = Depth::kPeer,
     .patterns = kRemote,
     .causes = kRemoteCauses,
     .checks = "network",
     .confirm = "which rank failed first; NCCL's version on each",
     .source = "https://github.com/NVIDIA/nccl/issues/795"},
    {.number = 32,
     .name = "collective-timeout",
     .title = "a collective timed out",
     .depth = Depth::kPeer,
     .patterns = kTimeout,
     .causes = kTimeoutCauses,
     .checks = "cpu, disk",
     .confirm = "flight records: the first number at which ranks differ",
     .source = "https://github.com/pytorch/pytorch/issues/118369"},
    {.number = 33,
     .name = "watchdog-stuck",
     .title = "a barrier or the watchdog stands still",
     .depth = Depth::kPeer,
     .patterns = kStuck,
     .causes = kStuckCauses,
     .checks = "cpu",
     .confirm = "stacks of the threads of all ranks",
     .source = "https://github.com/pytorch/pytorch/pull/115888"}};

}  // namespace

extern constinit const ErrorFamilyEntry nccl_entry{"nccl", "ranks over NCCL", kNcclRows};

}  // namespace muster::diagnose
