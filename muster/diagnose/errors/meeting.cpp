// Ranks that meet, and ranks over gloo: rows 34 and 35; and what Muster's own ranks say: row 48.
#include "muster/diagnose/catalogue/error_row.h"

namespace muster::diagnose {
namespace {

constexpr Pattern kGloo[] = {{"gloo/transport/tcp/*Connection closed by peer"},
                             {"gloo/transport/tcp/*Read error"},
                             {"gloo/transport/tcp/*Write error"},
                             {"gloo/transport/tcp/*Connection refused"},
                             {"gloo/transport/tcp/*connect*timed out"},
                             {"gloo/transport/tcp/*Timed out waiting"},
                             {"gloo/transport/tcp/*Connect timeout"},
                             {"gloo/transport/tcp/*No route to host"},
                             {"Gloo connectFullMesh failed"},
                             {"gloo*Unable to find address for"},
                             {"gloo*Unable to resolve hostname"},
                             {"gloo/transport/tcp/unbound_buffer"},
                             {"makeDeviceForHostname()*unsupported gloo device"},
                             {"Application timeout caused pair closure"},
                             {"gloo*Unable to find interface for"},
                             {"gloo/transport/tcp/"},
                             {"gloo/transport/uv/"},
                             {"gloo/rendezvous/"},
                             {"gloo::IoException"},
                             {"gloo*Connection reset by peer"},
                             {"ProcessGroupGloo*timed out"},
                             {"gloo*SO_ERROR:"},
                             {"gloo*Timed out waiting"},
                             {"makeDeviceForInterface()*unsupported gloo device"},
                             {"gloo::*Exception"},
                             {"gloo::*timed out"},
                             {"connection*closed", nullptr, Depth::kGuess},
                             {"connection*reset", nullptr, Depth::kGuess},
                             {"connection*refused", nullptr, Depth::kGuess},
                             {"Gloo connect failed"},
                             {"gloo*fail", nullptr, Depth::kGuess},
                             {"gloo*error", nullptr, Depth::kGuess}};
constexpr Cause kGlooCauses[] = {
    {.why = "The host's own name leads to an address of the loopback (127.0.1.1 is Debian's "
            "default), which ranks on other machines cannot reach.",
     .step = "Set GLOO_SOCKET_IFNAME to the interface between the machines, or correct the line "
             "of the host's name in /etc/hosts.",
     .when = "127.0.1.1"},
    {.why = "gloo found no address for the host's name.",
     .step = "Set GLOO_SOCKET_IFNAME, or add the name to /etc/hosts.",
     .when = "Unable to*host"},
    {.why =
         "The connections between ranks could not be made: an address that others cannot reach, a "
         "firewall, or a rank that ended meanwhile.",
     .step = "Set GLOO_SOCKET_IFNAME to the interface between the machines; open all ports between "
             "them; see whether all ranks are alive.",
     .when = "connectFullMesh"},
    {.why = "Another rank closed the connection: it ended, in order or not, while this one waited.",
     .step =
         "Read the log of the other ranks: the one without this error ended first. A rank "
         "that is done early has to wait for the others (a barrier, or wait() on what it sent)."}};

constexpr Pattern kPort[] = {
    {"server socket has failed to listen on any local network address"},
    {"EADDRINUSE"},
    {"RuntimeError: Address already in use"},
    {"server socket has failed to bind to"},
    {"server socket has failed to listen on"},
    {"errno: 98 - Address already in use"},
    {"[Errno 98] Address already in use"},
    {"TCPStore*timed out after", nullptr, Depth::kPeer},
    {"Timed out after*waiting for clients", nullptr, Depth::kPeer},
    {"wait timeout after*ms, keys:", nullptr, Depth::kPeer},
    {"client socket has timed out after", nullptr, Depth::kPeer},
    {"connect() timed out", nullptr, Depth::kPeer},
    {"TCPStore*Connection reset by peer", nullptr, Depth::kPeer},
    {"TCPStore*Broken pipe", nullptr, Depth::kPeer},
    {"client socket has failed to connect to", nullptr, Depth::kPeer},
    {"failed to recv, got 0 bytes", nullptr, Depth::kPeer},
    {"RendezvousTimeoutError", nullptr, Depth::kPeer},
    {"RendezvousConnectionError", nullptr, Depth::kPeer},
    {"Address already in use"},
    {"sendBytes failed on SocketImpl", nullptr, Depth::kPeer},
    {"failed on SocketImpl", nullptr, Depth::kPeer},
    {"DistStoreError: Socket Timeout", nullptr, Depth::kPeer},
    {"Timed out after*clients joined", nullptr, Depth::kPeer},
    {"store->get(*got error", nullptr, Depth::kPeer},
    {"retrieving ncclUniqueId from*got error", nullptr, Depth::kPeer},
    {"RendezvousClosedError", nullptr, Depth::kPeer},
    {"DistNetworkError: Connection reset by peer", nullptr, Depth::kPeer},
    {"DistNetworkError: Broken pipe", nullptr, Depth::kPeer},
    {"DistNetworkError: failed to", nullptr, Depth::kPeer},
    {"torch.distributed.DistStoreError", nullptr, Depth::kPeer},
    {"torch.distributed.DistNetworkError", nullptr, Depth::kPeer},
    {"environment variable*expected, but not set"},
    {"Default process group has not been initialized"},
    {"trying to initialize the default process group twice"},
    {"cannot be retrieved (gai error"},
    {"hostname*cannot be resolved"},
    {"TCPStore*Connection refused", nullptr, Depth::kPeer},
    {"Socket Timeout", nullptr, Depth::kPeer},
    {"The client socket has timed out", nullptr, Depth::kPeer},
    {"Invalid rank*should be in the interval"},
    {"host not found:"},
    {"Stop_waiting response is expected", nullptr, Depth::kPeer},
    {"Ping failed, invalid value returned from server", nullptr, Depth::kPeer},
    {"built without libuv support"},
    {"Connection was likely closed. Did the remote server", nullptr, Depth::kPeer},
    {"store based barrier", nullptr, Depth::kPeer},
    {"Timed out initializing process group", nullptr, Depth::kPeer},
    {"RuntimeError: Connection refused", nullptr, Depth::kPeer},
    {"RuntimeError: Connection reset by peer", nullptr, Depth::kPeer},
    {"RuntimeError: Broken pipe", nullptr, Depth::kPeer},
    {"RuntimeError: Connection timed out", nullptr, Depth::kPeer},
    {"stop_waiting response", nullptr, Depth::kPeer},
    {"rendezvous*fail", nullptr, Depth::kGuess},
    {"rendezvous*timed", nullptr, Depth::kGuess},
    {"rendezvous*error", nullptr, Depth::kGuess},
    {"store*timed out", nullptr, Depth::kGuess},
    {"store*timeout", nullptr, Depth::kGuess},
    {"master*connect", nullptr, Depth::kGuess},
    {"connect*master", nullptr, Depth::kGuess},
    {"No route to host"},
    {"[Errno 111] Connection refused", nullptr, Depth::kPerhaps},
    {"[Errno 104] Connection reset by peer", nullptr, Depth::kPerhaps},
    {"[Errno 110] Connection timed out", nullptr, Depth::kPerhaps},
    {"[Errno 113]", nullptr, Depth::kPerhaps},
    {"[Errno 99] Cannot assign requested address", nullptr, Depth::kPerhaps},
    {"Cannot assign requested address"},
    {"bind: Address already"},
    {"server socket*is not listening"},
    {"server socket cannot be initialized"},
    {"port*in use", nullptr, Depth::kGuess},
    {"port*already", nullptr, Depth::kGuess},
    {"process group", nullptr, Depth::kGuess},
    {"failed to connect to all addresses", nullptr, Depth::kPerhaps},
    {"StatusCode.UNAVAILABLE", nullptr, Depth::kPerhaps}};
constexpr Cause kPortCauses[] = {
    {.why = "The variables by which ranks find each other are not set: the program was started "
            "without a launcher.",
     .step =
         "Start it by `muster run`, torchrun or srun, or set MASTER_ADDR, MASTER_PORT, RANK and "
         "WORLD_SIZE.",
     .when = "expected, but not set"},
    {.why = "The name of rank 0's machine leads to no address here.",
     .step = "`getent hosts NAME` on this machine; take an address for MASTER_ADDR, or correct "
             "/etc/hosts or the DNS.",
     .when = "gai error"},
    {.why = "A group is used before it was made, or made twice.",
     .step = "Make it once per process, before the first model or sampler that asks for it.",
     .when = "default process group"},
    {.why =
         "Not all ranks came to the meeting in time: wrong MASTER_ADDR, MASTER_PORT or world size, "
         "a firewall, or a rank that ended before.",
     .step =
         "Compare these variables on all machines; test the address with `nc -vz ADDR PORT` from "
         "another one; look for a rank that failed earlier.",
     .when = "waiting for clients"},
    {.why = "A rank could not reach the store of rank 0, or it ended.",
     .step = "See whether rank 0 is alive and MASTER_ADDR and MASTER_PORT are its own.",
     .when = "client socket has"},
    {.why = "A rank could not reach the store of rank 0, or it ended.",
     .step = "See whether rank 0 is alive and MASTER_ADDR and MASTER_PORT are its own.",
     .when = "connect() timed out"},
    {.why = "The store of rank 0 ended while another rank asked it.",
     .step = "Read rank 0's log.",
     .when = "failed to recv"},
    {.why = "The meeting of ranks timed out.",
     .step = "Compare MASTER_ADDR, MASTER_PORT and the world size on all machines.",
     .when = "timed out after"},
    {.why = "The port is in use: a rank of an earlier run is still there, two jobs use the same "
            "(29500 is everybody's default), or each rank tries to serve.",
     .step = "See who has it with `ss -ltnp`; end what is left over, or take another port "
             "(MASTER_PORT, `--master-port`). `muster run` finds a free one by itself."}};

constexpr Pattern kVerdict[] = {{"of group*failed after*is at*while", nullptr, Depth::kCause},
                                {"ranks disagree on a collective", nullptr, Depth::kCause},
                                {"of group*failed after*is gone: process"},
                                {"of group*failed after*did not come"},
                                {"of group*failed after*sign of life"},
                                {"of group*failed after*failed:"},
                                {"has ended before this rank met it"},
                                {"has ended and did not come to the meeting"},
                                {"it was not the first: it failed"}};
constexpr Cause kVerdictCauses[] = {
    {.why = "Ranks called different operations at the same place.",
     .step = "The message names the call at which they parted: look for a branch by rank, a batch "
             "more or less, or a parameter that only some ranks use.",
     .when = "of group*failed after*is at*while"},
    {.why = "Another rank is gone; the message names it.",
     .step = "Read that rank's own last lines: they have the cause. See docs/when-a-rank-fails.md.",
     .when = "is gone: process"},
    {.why = "Another rank did not go on; the message names it and what it did last.",
     .step = "Read that rank's own lines. See docs/when-a-rank-fails.md."}};

constexpr Pattern kDiffer[] = {{"Detected mismatch between collectives"},
                               {"NCCL WARN*Message truncated"},
                               {"Mismatched collective detected"},
                               {"op.preamble.length <= op.nbytes"},
                               {"DDP expects same model across all ranks"},
                               {"params, while rank*has inconsistent"},
                               {"appears not to match sizes of the same param in process"},
                               {"appears not to match strides of the same param in process"},
                               {"Detected at least one rank*does not match"},
                               {"Tensor list input to*must be*same size"},
                               {"inconsistent across ranks"},
                               {"Message truncated : received"},
                               {"NCCL WARN*mismatch"},
                               {"Mismatched NCCL version"},
                               {"rank*mismatch", nullptr, Depth::kGuess},
                               {"rank*differ", nullptr, Depth::kGuess},
                               {"ranks*same", nullptr, Depth::kGuess},
                               {"different*rank", nullptr, Depth::kGuess},
                               {"submitted*by subset of ranks"},
                               {"waiting for remainder of ranks"},
                               {"missing ranks:"},
                               {"subset of ranks", nullptr, Depth::kGuess},
                               {"mismatch between collectives"},
                               {"rank*while rank", nullptr, Depth::kGuess}};
constexpr Cause kDifferCauses[] = {
    {.why = "Ranks have different models: another number of parameters, or other shapes.",
     .step = "Print the number of parameters on each rank. Build the model from the same options "
             "and the same data (sizes of vocabularies, numbers of classes) on all ranks, before "
             "any branch by rank.",
     .when = "param"},
    {.why = "At the same place ranks called different collectives, or the same with other sizes or "
            "dtypes.",
     .step = "TORCH_DISTRIBUTED_DEBUG=DETAIL names the two calls; Muster's monitor does so by "
             "itself. Look for a branch by rank, batches of unequal size, an all_gather of tensors "
             "that differ."}};

constexpr ErrorRow kMeetingRows[] = {
    {.number = 34,
     .name = "gloo-connection",
     .title = "gloo lost or found no connection",
     .depth = Depth::kPeer,
     .patterns = kGloo,
     .causes = kGlooCauses,
     .checks = "network",
     .confirm = "what the host's own name resolves to; interfaces; the peer's log",
     .source = "https://github.com/pytorch/pytorch/issues/108732"},
    {.number = 35,
     .name = "address-in-use",
     .title = "ranks do not meet: the port or the address",
     .depth = Depth::kCause,
     .patterns = kPort,
     .causes = kPortCauses,
     .checks = "network",
     .confirm = "who listens at the port; how many ranks have joined",
     .source = "https://github.com/pytorch/pytorch/issues/73320"},
    {.number = 48,
     .name = "muster-verdict",
     .title = "Muster's ranks say who is to blame",
     .depth = Depth::kPeer,
     .patterns = kVerdict,
     .causes = kVerdictCauses,
     .checks = "",
     .confirm = "flight records of all ranks",
     .source = ""},
    {.number = 69,
     .name = "ranks-differ",
     .title = "ranks call different things, or have different models",
     .depth = Depth::kCause,
     .patterns = kDiffer,
     .causes = kDifferCauses,
     .checks = "",
     .confirm = "the calls of all ranks at the same number",
     .source = "https://pytorch.org/docs/stable/"
               "distributed.html#debugging-torch-distributed-applications"}};

}  // namespace

extern constinit const ErrorFamilyEntry meeting_entry{
    "meeting", "ranks that meet, and ranks over gloo", kMeetingRows};

}  // namespace muster::diagnose
