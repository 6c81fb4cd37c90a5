// Jobs and programs that do not start: rows 70 and 72.
#include "muster/diagnose/catalogue/error_row.h"

namespace muster::diagnose {
namespace {

constexpr Pattern kJob[] = {{"There are not enough slots available"},
                            {"srun: error: Unable to create step"},
                            {"srun: error: Unable to allocate resources"},
                            {"Batch job submission failed"},
                            {"Requested node configuration is not available"},
                            {"Invalid generic resource (gres) specification"},
                            {"requested GRES*not found in the job"},
                            {"Invalid account or account/partition"},
                            {"Unable to confirm allocation for job"},
                            {"More processors requested than permitted"},
                            {"nodes are available: *Insufficient"},
                            {"Insufficient nvidia.com/gpu"},
                            {"FailedScheduling"},
                            {"execve(): *: No such file or directory"},
                            {"slurmstepd: error: execve()"},
                            {"mpirun was unable to launch"},
                            {"mpirun was unable to find"},
                            {"ORTE was unable to reliably start"},
                            {"mpiexec noticed"},
                            {"Permission denied (publickey"},
                            {"Host key verification failed"},
                            {"could not select*scheduler"},
                            {"PMI2_Init failed"},
                            {"PMIx_Init failed"},
                            {"OPAL ERROR: Unreachable"},
                            {"was not built with Slurm support"},
                            {"orte_init failed"},
                            {"ImagePullBackOff"},
                            {"ErrImagePull"},
                            {"manifest unknown"},
                            {"sbatch: error:"},
                            {"srun: fatal:"},
                            {"salloc: error:"},
                            {"ssh exited with exit code 255"},
                            {"ssh: connect to host"},
                            {"ssh: Could not resolve hostname"},
                            {"'ssh *returned non-zero exit status 255"},
                            {"ssh *returned non-zero exit status 255"},
                            {"invalid partition", nullptr, Depth::kGuess},
                            {"invalid account", nullptr, Depth::kGuess},
                            {"not enough slots", nullptr, Depth::kGuess},
                            {"could not be scheduled", nullptr, Depth::kGuess},
                            {"cannot be scheduled", nullptr, Depth::kGuess},
                            {"Hostfile contains a bad entry"},
                            {"was not reachable via ssh"},
                            {"Hostfile is empty or not formatted"},
                            {"hostfile", nullptr, Depth::kGuess},
                            {"via ssh", nullptr, Depth::kGuess},
                            {"torchrun: command not found"},
                            {"mpirun: command not found"},
                            {"srun: command not found"},
                            {"deepspeed: command not found"},
                            {"accelerate: command not found"},
                            {": command not found", nullptr, Depth::kPerhaps},
                            {"couldn't chdir to"},
                            {"Unschedulable", nullptr, Depth::kPerhaps},
                            {"srun: error: Invalid"},
                            {"Job violates accounting"},
                            {"ReqNodeNotAvail"}};
constexpr Cause kJobCauses[] = {
    {.why = "No machine has what the job asks for, now or ever.",
     .step = "Ask for less per node (devices, memory, cores), or another partition; `sinfo -o '%P "
             "%G %m %c'` or `kubectl describe nodes` shows what there is.",
     .when = "nsufficient"},
    {.why = "More processes were asked for than there are slots.",
     .step = "Give the hosts more slots (`--host a:4`), or --oversubscribe where that is meant.",
     .when = "not enough slots"},
    {.why = "This MPI does not know the scheduler's way of starting processes.",
     .step = "`srun --mpi=list` shows the ways; take one that this MPI was built with, or start by "
             "mpirun inside the allocation.",
     .when = "_Init failed"},
    {.why = "ssh does not let the launcher in.",
     .step = "`ssh HOST true` without a password from the machine that launches.",
     .when = "Permission denied (publickey"},
    {.why = "The scheduler or the launcher refused the job before the program began.",
     .step = "The line names what it refuses: a program that is not there on that machine, a "
             "partition, an account, a resource's name."}};

constexpr Pattern kOpenMp[] = {{"OMP: Error #15"},
                               {"but found libiomp5"},
                               {"but found libomp"},
                               {"MKL_THREADING_LAYER=INTEL is incompatible"},
                               {"OMP: Error #13"},
                               {"KMP_DUPLICATE_LIB_OK"},
                               {"libiomp*already", nullptr, Depth::kGuess},
                               {"libomp*already", nullptr, Depth::kGuess}};
constexpr Cause kOpenMpCauses[] = {
    {.why = "Two copies of OpenMP's run time are in the process: LibTorch brings one, and MKL, "
            "OpenCV, numpy or conda another.",
     .step = "Let one remain: take both libraries from one source, or link all against the same "
             "libiomp5 or libgomp. KMP_DUPLICATE_LIB_OK=TRUE lets it go on at the risk of wrong "
             "results; MKL_THREADING_LAYER=GNU is safe for MKL with libgomp."}};

constexpr ErrorRow kStartRows[] = {
    {.number = 70,
     .name = "job-not-started",
     .title = "the scheduler or the launcher refuses the job",
     .depth = Depth::kCause,
     .patterns = kJob,
     .causes = kJobCauses,
     .checks = "",
     .confirm = "the scheduler's own words for the same request",
     .source = ""},
    {.number = 72,
     .name = "openmp-twice",
     .title = "two copies of OpenMP are loaded",
     .depth = Depth::kCause,
     .patterns = kOpenMp,
     .causes = kOpenMpCauses,
     .checks = "libtorch",
     .confirm = "/proc/PID/maps has libiomp5, libomp or libgomp twice",
     .source = ""}};

}  // namespace

extern constinit const ErrorFamilyEntry starting_entry{
    "starting", "jobs and programs that do not start", kStartRows};

}  // namespace muster::diagnose
