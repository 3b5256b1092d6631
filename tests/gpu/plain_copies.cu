//===- tests/gpu/plain_copies.cu - hand-written copies between two GPUs -----------------------===//
//
//   plain_copies [--share]
//
// The baseline for `braid p2p`: two processes, each with a GPU, that map each other's memory
// through CUDA IPC. Contains no Braid code. Prints a line for each figure, the median of 3:
//
//  put-engine bandwidth 1073741824 380.1     GB/s: a loop of cudaMemcpyAsync between two events,
//  get-engine bandwidth 1073741824 380.1     like nvbandwidth
//  put-engine latency 4 9.3                  us, half a round trip: a copy, a kernel that sets a
//                                            flag in host memory, and one that awaits a flag
//  put-kernel latency 4 3.9                  us: a kernel copies, sets a flag in the other GPU's
//                                            memory, and awaits its own flag, in a graph
//
// Both processes use GPU 0 if --share is given. Exits with 77 if there are too few GPUs, and with 1
// if data is wrong.
//
//===----------------------------------------------------------------------------------------===//

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr size_t kMost = size_t(1) << 30;
constexpr size_t kFlagBytes = 4096;
constexpr int kTurns = 32, kRepeats = 3;

void check(cudaError_t code, const char *what) {
  if (code == cudaSuccess)
    return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
  std::exit(1);
}

/// One of the two processes, and the memory that this process can access.
struct Side {
  bool isFirst;
  int toOther, fromOther; ///< pipes
  /// Shared memory: [0] belongs to the first process, [16] to the second.
  uint32_t *hostFlags;
  char *own = nullptr, *peer = nullptr; ///< kMost bytes to receive, followed by kFlagBytes of flags
  char *source = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;

  void meet() const {
    char byte = 1;
    if (write(toOther, &byte, 1) != 1 || read(fromOther, &byte, 1) != 1)
      std::exit(1);
  }
  uint32_t *deviceFlag(char *base) const { return reinterpret_cast<uint32_t *>(base + kMost); }
  uint32_t *ownHostFlag() const { return hostFlags + (isFirst ? 0 : 16); }
  uint32_t *peerHostFlag() const { return hostFlags + (isFirst ? 16 : 0); }
};

__global__ void setFlag(uint32_t *flag) {
  __threadfence_system();
  *reinterpret_cast<volatile uint32_t *>(flag) = 1;
  __threadfence_system();
}

/// Waits until the flag is set, and resets it for the next turn.
__global__ void awaitFlag(uint32_t *flag) {
  auto *seen = reinterpret_cast<volatile uint32_t *>(flag);
  while (*seen == 0) {
  }
  *seen = 0;
  __threadfence_system();
}

__global__ void copyAndSet(char *dst, const char *src, size_t bytes, uint32_t *flag) {
  for (size_t i = threadIdx.x * 4; i < bytes; i += blockDim.x * 4)
    *reinterpret_cast<uint32_t *>(dst + i) = *reinterpret_cast<const uint32_t *>(src + i);
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0)
    *reinterpret_cast<volatile uint32_t *>(flag) = 1;
}

void open(Side &side) {
  check(cudaMalloc(&side.own, kMost + kFlagBytes), "cudaMalloc");
  check(cudaMalloc(&side.source, kMost), "cudaMalloc");
  check(cudaMemset(side.own, 0, kMost + kFlagBytes), "cudaMemset");
  check(cudaMemset(side.source, side.isFirst ? 0x5a : 0xa5, kMost), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check(cudaHostRegister(side.hostFlags, kFlagBytes, cudaHostRegisterMapped), "cudaHostRegister");
  check(cudaStreamCreateWithFlags(&side.stream, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaEventCreate(&side.begin), "cudaEventCreate");
  check(cudaEventCreate(&side.end), "cudaEventCreate");
  cudaIpcMemHandle_t mine, theirs;
  check(cudaIpcGetMemHandle(&mine, side.own), "cudaIpcGetMemHandle");
  if (write(side.toOther, &mine, sizeof mine) != sizeof mine ||
      read(side.fromOther, &theirs, sizeof theirs) != sizeof theirs)
    std::exit(1);
  void *opened = nullptr;
  check(cudaIpcOpenMemHandle(&opened, theirs, cudaIpcMemLazyEnablePeerAccess),
        "cudaIpcOpenMemHandle");
  side.peer = static_cast<char *>(opened);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Returns the time of the work that `issue` issues, in microseconds.
template <class Issue> double timed(const Side &side, Issue issue) {
  check(cudaEventRecord(side.begin, side.stream), "cudaEventRecord");
  issue();
  check(cudaEventRecord(side.end, side.stream), "cudaEventRecord");
  check(cudaStreamSynchronize(side.stream), "cudaStreamSynchronize");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, side.begin, side.end), "cudaEventElapsedTime");
  return 1000.0 * ms;
}

/// The first process copies while the second process is idle.
void measureBandwidth(const Side &side, const char *name, bool isPut, size_t bytes) {
  side.meet();
  if (side.isFirst) {
    const int copies = static_cast<int>(std::clamp<size_t>((size_t(4) << 30) / bytes, 4, 64));
    char *dst = isPut ? side.peer : side.own;
    const char *src = isPut ? side.source : side.peer;
    auto issue = [&] {
      for (int i = 0; i < copies; ++i)
        check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, side.stream), "cudaMemcpyAsync");
    };
    timed(side, issue);
    std::vector<double> us;
    for (int i = 0; i < kRepeats; ++i)
      us.push_back(timed(side, issue));
    std::printf("%s bandwidth %zu %.3f\n", name, bytes,
                static_cast<double>(bytes) * copies / median(us) / 1e3);
  }
  side.meet();
}

/// In each turn, the first process sends and the second process replies.
template <class Send, class Await>
void measureLatency(const Side &side, const char *name, size_t bytes, Send send, Await await) {
  cudaGraph_t graph;
  cudaGraphExec_t runnable;
  check(cudaStreamBeginCapture(side.stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int turn = 0; turn < kTurns; ++turn) {
    if (side.isFirst)
      send();
    await();
    if (!side.isFirst)
      send();
  }
  check(cudaStreamEndCapture(side.stream, &graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&runnable, graph, 0), "cudaGraphInstantiate");
  std::vector<double> us;
  for (int i = 0; i <= kRepeats; ++i) {
    auto launch = [&] { check(cudaGraphLaunch(runnable, side.stream), "cudaGraphLaunch"); };
    if (!side.isFirst)
      launch();
    side.meet();
    const double time = side.isFirst ? timed(side, launch) : 0;
    check(cudaStreamSynchronize(side.stream), "cudaStreamSynchronize");
    side.meet();
    if (i > 0) // the first turn is a warm-up
      us.push_back(time);
  }
  if (side.isFirst)
    std::printf("%s latency %zu %.3f\n", name, bytes, median(us) / (2 * kTurns));
}

void expectArrived(const Side &side, size_t bytes) {
  std::vector<unsigned char> got(bytes);
  check(cudaMemcpy(got.data(), side.own, bytes, cudaMemcpyDefault), "cudaMemcpy");
  const unsigned char expected = side.isFirst ? 0xa5 : 0x5a;
  if (std::any_of(got.begin(), got.end(), [&](unsigned char each) { return each != expected; })) {
    std::fprintf(stderr, "wrong data\n");
    std::exit(1);
  }
}

int run(Side side, int device) {
  check(cudaSetDevice(device), "cudaSetDevice");
  open(side);
  for (size_t bytes : {size_t(64) << 20, size_t(256) << 20, kMost}) {
    measureBandwidth(side, "put-engine", true, bytes);
    measureBandwidth(side, "get-engine", false, bytes);
  }
  constexpr size_t kSmall = 4;
  measureLatency(
      side, "put-engine", kSmall,
      [&] {
        check(cudaMemcpyAsync(side.peer, side.source, kSmall, cudaMemcpyDefault, side.stream),
              "cudaMemcpyAsync");
        setFlag<<<1, 1, 0, side.stream>>>(side.peerHostFlag());
      },
      [&] { awaitFlag<<<1, 1, 0, side.stream>>>(side.ownHostFlag()); });
  expectArrived(side, kSmall);
  measureLatency(
      side, "put-kernel", kSmall,
      [&] {
        copyAndSet<<<1, 128, 0, side.stream>>>(side.peer, side.source, kSmall,
                                               side.deviceFlag(side.peer));
      },
      [&] { awaitFlag<<<1, 1, 0, side.stream>>>(side.deviceFlag(side.own)); });
  expectArrived(side, kSmall);
  std::fflush(stdout);
  side.meet();
  check(cudaIpcCloseMemHandle(side.peer), "cudaIpcCloseMemHandle");
  side.meet();
  return 0;
}

/// Queries the GPUs in a child process, so that this process does not use CUDA before it forks.
int gpusSeenByAChild() {
  const pid_t pid = fork();
  if (pid == 0) {
    int count = 0;
    _exit(cudaGetDeviceCount(&count) == cudaSuccess ? std::min(count, 100) : 0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

} // namespace

int main(int argc, char **argv) {
  const bool shares = argc == 2 && std::strcmp(argv[1], "--share") == 0;
  const int gpus = gpusSeenByAChild();
  if (gpus < (shares ? 1 : 2)) {
    std::printf("skipped: needs %d GPUs, got %d\n", shares ? 1 : 2, gpus);
    return 77;
  }
  int there[2], back[2];
  if (pipe(there) != 0 || pipe(back) != 0)
    return 1;
  void *flags =
      mmap(nullptr, kFlagBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (flags == MAP_FAILED)
    return 1;
  const pid_t pid = fork();
  if (pid == 0)
    _exit(run({false, back[1], there[0], static_cast<uint32_t *>(flags)}, shares ? 0 : 1));
  const int code = run({true, there[1], back[0], static_cast<uint32_t *>(flags)}, 0);
  int status = 0;
  waitpid(pid, &status, 0);
  return code != 0 || status != 0 ? 1 : 0;
}
