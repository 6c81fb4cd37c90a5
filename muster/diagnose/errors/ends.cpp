// How processes end: rows 8, 49, 50, 56 and 57.
#include "muster/diagnose/catalogue/error_row.h"
#include "muster/diagnose/catalogue/shell_words.h"

namespace muster::diagnose {
namespace {

/// Slurm's state, and not a class or a part of another name.
bool is_state_of_slurm(std::string_view line) {
  constexpr std::string_view kState = "OUT_OF_MEMORY";
  const size_t at = line.find(kState), end = at + kState.size();
  const auto goes_on = [](char c) {
    return c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  };
  return at != line.npos && (at == 0 || !goes_on(line[at - 1])) &&
         (end == line.size() || !goes_on(line[end])) && line.find("CUDA") == line.npos;
}

constexpr Pattern kKilled[] = {
    {"Out of memory: Kill"},
    {"Killed process*total-vm:"},  // the second line of it (mm/oom_kill.c)
    {"Memory cgroup out of memory"},
    {"oom-kill event"},
    {"oom_kill event"},
    {"srun: error*Out Of Memory"},
    {"OUT_OF_MEMORY", is_state_of_slurm},
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
    {"exitcode*: -9", nullptr, Depth::kPerhaps},
    {"systemd-oomd*killed"},
    {"status=9/KILL"},
    {"killed by the OOM killer"},
    {"Failed with result 'oom-kill'"},
    {"Task was killed due to the node running low on memory"},
    {"low on memory*was killed"},
    {"killed by SIGKILL by OOM killer", nullptr, Depth::kPerhaps},
    {"exited on signal 9"},
    {"terminated with signal SIGKILL"},
    {"terminated by signal SIGKILL"},
    {"zsh: killed"},
    {"Command terminated by signal 9"},
    {"] Killed"},
    {"Killed signal terminated program"},
    {"returned non-zero exit status 137"},
    {"non-zero exit code: 137"},
    {"non-zero code: 137"},
    {"exit code: 137"},
    {"exitCode: 137"},  // Kubernetes' status of a container, as YAML, JSON and text
    {"exitCode\": 137"},
    {"exitCode=137"},
    {"Exit Code:*137"},
    {"Error 137"},
    {"return code: 137"},
    {"return code 137"},
    {"exit status 137"},
    {"exit status: 137"},
    {"srun: error*: Killed", nullptr, Depth::kPerhaps},
    {"exceeded memory limit"},
    {"Exceeded step memory limit"},
    {"memory limit*being killed"},
    {"job killed*mem*exceeded"},
    {"TERM_MEMLIMIT"},
    {"low on resource: memory"},
    {"signal: 9, SIGKILL"},
    {"(signal: 9"},
    {"signal: killed"},
    {"Process finished with exit code 137"},
    {"exits with return code = 137"},
    {"已杀死", is_killed_abroad},
    {"Getötet", is_killed_abroad},
    {"Processus arrêté", is_killed_abroad},
    {"Убито", is_killed_abroad},
    {"强制終了", is_killed_abroad},
    {"Ucciso", is_killed_abroad},
    {"kernel appears to have died", nullptr, Depth::kPerhaps},
    {"Kernel died", nullptr, Depth::kPerhaps},
    {"died unexpectedly: SIGKILL", nullptr, Depth::kPerhaps},
    {"uncaught signal: SIGKILL"},
    {"WORKER*SIGKILL"},
    {"worker*was sent SIGKILL"},
    {"WTERMSIG 9"},
    {"OUT_OF_ME+"},
    {"exit code -9"},
    {"exitcode -9"},
    {"exit code: -9"},
    {"return code -9"},
    {"(signal 9)"},
    {"by signal 9"},
    {"terminated by SIGKILL"},
    {"Killed: 9"},
    {"EXIT STRING: Killed"},
    {"KILLED BY SIGNAL: 9"},
    {"sigkill", nullptr, Depth::kGuess},
    {"line *: * Killed", is_killed_at_the_end}};
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

constexpr Pattern kSegfault[] = {
    {"Segmentation fault"},
    {"(SEGFAULT)"},           // CTest's list of tests that failed
    {"Exception: SegFault"},  // and what it says of each
    {"failed (exitcode: -11)"},
    {"failed: signal SIGSEGV"},
    {"killed by signal: Segmentation fault"},
    {"died with <Signals.SIGSEGV"},
    {"interrupted by signal 11"},
    {"exitcode*: -11", nullptr, Depth::kPerhaps},
    {"SIGSEGV (@"},
    {"terminated with signal SIGSEGV"},
    {"terminated by signal SIGSEGV"},
    {"segfault at"},
    {"general protection fault"},
    {"exited on signal 11"},
    {"exited with code 139"},
    {"exit code 139"},
    {"exit code: 139"},
    {"exit status 139"},
    {"status 139"},
    {"status=11/SEGV"},
    {"Error 139"},
    {"return code = -11"},
    {"return code: -11"},
    {"exit code -11"},
    {"signal: 11, SIGSEGV"},
    {"invalid memory reference"},
    {"Signal 11 (SIGSEGV) received"},
    {"signal SIGSEGV"},
    {"EXC_BAD_ACCESS"},
    {"0xC0000005"},
    {"access violation"},
    {"SIGSEGV: segmentation violation"},
    {"A fatal error has been detected by the Java Runtime Environment"},
    {"段错误"},
    {"段錯誤"},
    {"記憶體區段錯誤"},
    {"Speicherzugriffsfehler"},
    {"Erreur de segmentation"},
    {"Violación de segmento"},
    {"Falha de segmentação"},
    {"Errore di segmentazione"},
    {"Ошибка сегментирования"},
    {"セグメンテーション違反"},
    {"세그멘테이션 오류"},
    {"received SIGSEGV"},
    {"Caught signal 11"},
    {"exit code: -11"},
    {"-1073741819"},
    {"3221225477"},
    {"0xC00000FD"},
    {"-1073741571"},
    {"EXIT STRING: Segmentation fault"},
    {"KILLED BY SIGNAL: 11"},
    {"Signal (11) received"},
    {"signal 11 received"},
    {"sigsegv", nullptr, Depth::kGuess},
    {"== Invalid read of size"},
    {"== Invalid write of size"},
    {"SEGV on unknown address"},
    {"AddressSanitizer: SEGV"}};
constexpr Cause kSegfaultCauses[] = {
    {.why =
         "The process used an address that is not its own: objects of two ABIs or two LibTorchs in "
         "one process, a tensor over memory that was freed (from_blob), a stack that is full, or "
         "something global that outlives LibTorch at the end.",
     .step =
         "`muster doctor --program FILE` shows which libraries are loaded. `gdb --args PROGRAM`, "
         "then `run` and `bt`, shows where it was."}};

constexpr Pattern kCancelled[] = {{"DUE TO TIME LIMIT"},
                                  {"CANCELLED AT", nullptr, Depth::kPerhaps},
                                  {"DUE TO PREEMPTION"},
                                  {"DUE TO NODE FAILURE"},
                                  {"muster: stopped by SIG"},
                                  {"Received*death signal, shutting down workers"},
                                  {"CANCELLED DUE"},
                                  {"job killed*walltime"},
                                  {"TERM_RUNLIMIT"},
                                  {"TERM_OWNER"},
                                  {"got signal: 15"},
                                  {"SignalException: Process"},
                                  {"Node failure on"},
                                  {"srun: error*Terminated", nullptr, Depth::kPerhaps},
                                  {"Terminated", is_only_terminated},
                                  {"KeyboardInterrupt", nullptr, Depth::kPerhaps},
                                  {"failed (exitcode: -15)", nullptr, Depth::kPerhaps},
                                  {"exitcode*: -15", nullptr, Depth::kPerhaps},
                                  {"died with <Signals.SIGTERM", nullptr, Depth::kPerhaps},
                                  {"exit code 143", nullptr, Depth::kPerhaps},
                                  {"status 143", nullptr, Depth::kPerhaps},
                                  {"the node was preempted"},
                                  {"Preempted by"},
                                  {"The node was low on resource"},
                                  {"DeadlineExceeded"},
                                  {"terminated by signal SIGTERM"},
                                  {"interrupted by signal 2", nullptr, Depth::kPerhaps},
                                  {"interrupted by signal 15", nullptr, Depth::kPerhaps},
                                  {"NODE_FAIL"},
                                  {"State: TIMEOUT"},
                                  {"killed by signal: Terminated", nullptr, Depth::kPerhaps},
                                  {"time limit", nullptr, Depth::kGuess},
                                  {"walltime", nullptr, Depth::kGuess}};
constexpr Cause kCancelledCauses[] = {
    {.why = "The scheduler ended the job at its time limit.",
     .step = "Ask for more time, save checkpoints more often, and resume.",
     .when = "DUE TO TIME LIMIT"},
    {.why = "A machine of the job failed.",
     .step = "Start again without it (`--exclude NODE`), from the last checkpoint.",
     .when = "NODE FAILURE"},
    {.why = "A worker that loads data was ended by SIGTERM, with the job or by who started it.",
     .step = "Look for an earlier error of another process, and in the scheduler's record.",
     .when = "killed by signal: Terminated"},
    {.why = "Somebody ended the job: the scheduler, a person, or a lost terminal.",
     .step =
         "Resume from the last checkpoint. Under nohup or in a batch job a lost terminal sends no "
         "signal."}};

constexpr Pattern kInstruction[] = {{"Illegal instruction"},
                                    {"illegal hardware instruction"},
                                    {"trap invalid opcode"},
                                    {"SIGILL (@"},
                                    {"signal SIGILL"},
                                    {"SIGILL: illegal instruction"},
                                    {"Signal 4 (SIGILL) received"},
                                    {"failed (exitcode: -4)"},
                                    {"exited with code 132"},
                                    // SIGILL in the words of DeepSpeed and of other launchers
                                    {"return code = -4"},
                                    {"return code: -4"},
                                    {"return code -4"},
                                    {"exit code: -4"},
                                    {"exit code -4"},
                                    {"exitcode -4"},
                                    {"exit code 132"},
                                    {"exit code: 132"},
                                    {"interrupted by signal 4"},
                                    {"died with <Signals.SIGILL"},
                                    {"STATUS_ILLEGAL_INSTRUCTION"},
                                    {"0xC000001D"},
                                    {"非法指令"},
                                    {"Ungültiger Maschinenbefehl"},
                                    {"Instruction non permise"},
                                    {"-1073741795"},
                                    {"compiled to use*instructions, but these aren't available"},
                                    {"instructions, but these aren't available on your machine"}};
constexpr Cause kInstructionCauses[] = {
    {.why = "The program was built for a processor that has more instructions than this one (AVX, "
            "AVX2, AVX-512): an old or a virtual processor, or -march=native on another machine.",
     .step =
         "`grep -o -m1 'avx[^ ]*' /proc/cpuinfo` shows what this one has. Build here, or without "
         "-march=native; a virtual machine can pass the host's processor on. `gdb`, `run`, "
         "`x/i $pc` shows the instruction and its library."}};

constexpr Pattern kHeap[] = {{"double free or corruption"},
                             {"free(): invalid pointer"},
                             {"free(): invalid size"},
                             {"free(): invalid next size"},
                             {"free(): double free detected"},
                             {"free(): corrupted unsorted chunks"},
                             {"free(): unaligned chunk detected"},
                             {"munmap_chunk(): invalid pointer"},
                             {"malloc(): "},
                             {"malloc_consolidate(): "},
                             {"realloc(): invalid"},
                             {"corrupted size vs. prev_size"},
                             {"corrupted double-linked list"},
                             {"tcache_thread_shutdown(): unaligned"},
                             {"stack smashing detected"},
                             {"buffer overflow detected"},
                             {"AddressSanitizer: heap"},
                             {"AddressSanitizer: attempting double-free"},
                             {"AddressSanitizer: attempting free on address"},
                             {"heap corruption detected"},
                             {"0xC0000374"},
                             {"-1073740940"},
                             {"double free", nullptr, Depth::kGuess},
                             {"pointer being freed was not allocated"},
                             {"Attempt to free invalid pointer"},
                             {"_CrtIsValidHeapPointer"},
                             {"incorrect checksum for freed object"},
                             {"_pFirstBlock == pHead"},
                             {"mimalloc: error"},
                             {"AddressSanitizer: stack-buffer"},
                             {"AddressSanitizer: global-buffer"},
                             {"heap-use-after-free"},
                             {"heap-buffer-overflow"}};
constexpr Cause kHeapCauses[] = {
    {.why =
         "A pointer was freed that its allocator had not given out: two copies of a library (two "
         "LibTorchs, two C++ libraries, LibTorch beside OpenCV or protobuf of another build) "
         "share objects.",
     .step = "See which libraries are loaded (`muster doctor --program FILE`), and build all parts "
             "with one compiler and one LibTorch; importing or loading torch first often hides it.",
     .when = "invalid pointer"},
    {.why =
         "The heap was overwritten: a write beyond a buffer, a tensor over memory that was freed "
         "(from_blob), an object freed twice, or objects of two ABIs.",
     .step = "Build your own code with -fsanitize=address, which names the first wrong access; "
             "`valgrind` does so without a build. See that one LibTorch is loaded (`muster doctor "
             "--program FILE`)."}};

constexpr ErrorRow kEndRows[] = {
    {.number = 8,
     .name = "killed",
     .title = "the process was killed (SIGKILL, exit code 137)",
     .depth = Depth::kEnd,
     .patterns = kKilled,
     .causes = kKilledCauses,
     .checks = "memory",
     .confirm = "the control group's oom_kill counter; the kernel's log",
     .source = ""},
    {.number = 49,
     .name = "segmentation-fault",
     .title = "the process crashed (SIGSEGV)",
     .depth = Depth::kEnd,
     .patterns = kSegfault,
     .causes = kSegfaultCauses,
     .checks = "libtorch, limits",
     .confirm = "the stack in a debugger; the libraries that are loaded",
     .source = ""},
    {.number = 56,
     .name = "illegal-instruction",
     .title = "the processor does not know an instruction (SIGILL)",
     .depth = Depth::kEnd,
     .patterns = kInstruction,
     .causes = kInstructionCauses,
     .checks = "cpu, libtorch",
     .confirm = "the instruction at the crash in a debugger, against /proc/cpuinfo",
     .source = ""},
    {.number = 57,
     .name = "heap-corrupted",
     .title = "the heap is corrupted",
     .depth = Depth::kEnd,
     .patterns = kHeap,
     .causes = kHeapCauses,
     .checks = "libtorch",
     .confirm = "AddressSanitizer or valgrind names the first wrong access",
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

extern constinit const ErrorFamilyEntry ends_entry{"ends", "how processes end", kEndRows};

}  // namespace muster::diagnose
