// Several processes: forks, memory shared between processes, an application that starts itself.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

__global__ void add(int* x, int value) { x[threadIdx.x] += value; }

static void use_device(int value) {
  int* x = to_device(std::vector<int>(64, 1));
  add<<<1, 64>>>(x, value);
  EQUAL(to_host(x, 64)[63], value + 1);
  HIP(hipFree(x));
}
// Runs `body` in a child process and returns its exit code.
template <class Body>
static pid_t start_child(Body body) {
  fflush(stdout);
  pid_t child = fork();
  if (child) return child;
  int code = 0;
  try {
    body();
  } catch (const Failure& failure) {
    fprintf(stderr, "child: %s\n", failure.reason.c_str());
    code = 1;
  }
  _exit(code);
}
static void expect_success(pid_t child) {
  int status;
  EQUAL(waitpid(child, &status, 0), child);
  EQUAL(status, 0);
}
static void read_all(int file, void* to, size_t size) { EQUAL(read(file, to, size), ssize_t(size)); }
static void write_all(int file, const void* from, size_t size) { EQUAL(write(file, from, size), ssize_t(size)); }

void fork_before_use() {
  pid_t first = start_child([] { use_device(3); });
  pid_t second = start_child([] { use_device(4); });
  use_device(5);
  expect_success(first);
  expect_success(second);
}
void fork_after_use() {
  use_device(6);
  pid_t child = start_child([] {});
  expect_success(child);
  use_device(7);
}
// Starts this program again for one check; the file descriptors of `pipe_to_child` are 100 (read) and, of the other, 101 (write).
static pid_t start_check(const char* name, const int* to_child = nullptr, const int* to_parent = nullptr) {
  fflush(stdout);
  pid_t child = fork();
  if (child) return child;
  if (to_child) {
    dup2(to_child[0], 100), dup2(to_parent[1], 101);
    for (const int* ends : {to_child, to_parent}) close(ends[0]), close(ends[1]);
  }
  execl("/proc/self/exe", "processes", name, static_cast<char*>(nullptr));
  _exit(9);
}
void start_itself() {
  use_device(8);
  expect_success(start_check("use"));
  use_device(9);
}
void use() { use_device(10); }
// A kernel of each process changes memory of the first one.
void open_memory() {
  hipIpcMemHandle_t handle;
  read_all(100, &handle, sizeof handle);
  int* x;
  HIP(hipIpcOpenMemHandle(reinterpret_cast<void**>(&x), handle, hipIpcMemLazyEnablePeerAccess));
  EQUAL(to_host(x, 64)[5], 20);
  add<<<1, 64>>>(x, 2);
  HIP(hipDeviceSynchronize());
  char done = 1;
  write_all(101, &done, 1);
  read_all(100, &done, 1);
  EQUAL(to_host(x, 64)[63], 122);
  HIP(hipIpcCloseMemHandle(x));
}
void memory_handles() {
  int to_child[2], to_parent[2];
  EQUAL(pipe(to_child) + pipe(to_parent), 0);
  pid_t child = start_check("open_memory", to_child, to_parent);
  close(to_child[0]), close(to_parent[1]);
  int* x = to_device(std::vector<int>(64, 20));
  hipIpcMemHandle_t handle;
  HIP(hipIpcGetMemHandle(&handle, x));
  write_all(to_child[1], &handle, sizeof handle);
  char done;
  read_all(to_parent[0], &done, 1);
  EQUAL(to_host(x, 64)[63], 22);
  add<<<1, 64>>>(x, 100);
  HIP(hipDeviceSynchronize());
  write_all(to_child[1], &done, 1);
  expect_success(child);
  HIP(hipFree(x));
}
void open_event() {
  hipIpcEventHandle_t handle;
  read_all(100, &handle, sizeof handle);
  hipEvent_t event;
  HIP(hipIpcOpenEventHandle(&event, handle));
  HIP(hipEventSynchronize(event));
}
void event_handles() {
  int to_child[2], to_parent[2];
  EQUAL(pipe(to_child) + pipe(to_parent), 0);
  pid_t child = start_check("open_event", to_child, to_parent);
  close(to_child[0]), close(to_parent[1]);
  hipEvent_t event;
  HIP(hipEventCreateWithFlags(&event, hipEventInterprocess | hipEventDisableTiming));
  hipIpcEventHandle_t handle;
  HIP(hipIpcGetEventHandle(&handle, event));
  int* x = to_device(std::vector<int>(64, 1));
  add<<<1, 64>>>(x, 1);
  HIP(hipEventRecord(event));
  write_all(to_child[1], &handle, sizeof handle);
  expect_success(child);
}

static void send_file(int socket, int file) {
  char byte = 1;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof file)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof file);
  memcpy(CMSG_DATA(header), &file, sizeof file);
  EQUAL(sendmsg(socket, &message, 0), 1);
}
static int receive_file(int socket) {
  char byte;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  EQUAL(recvmsg(socket, &message, 0), 1);
  int file;
  memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
  return file;
}
// Virtual memory of the parent: its handle travels over a socket, and the child maps it at an address of its own.
void virtual_memory_handles() {
  const size_t size = 2 << 20;
  hipMemAccessDesc access{};
  access.location.type = hipMemLocationTypeDevice;
  access.flags = hipMemAccessFlagsProtReadWrite;
  auto mapped = [&](hipMemGenericAllocationHandle_t handle) {
    void* place;
    HIP(hipMemAddressReserve(&place, size, 0, nullptr, 0));
    HIP(hipMemMap(place, size, 0, handle, 0));
    HIP(hipMemSetAccess(place, size, &access, 1));
    return static_cast<int*>(place);
  };
  auto release = [&](int* place, hipMemGenericAllocationHandle_t handle) {
    HIP(hipMemUnmap(place, size));
    HIP(hipMemRelease(handle));
    HIP(hipMemAddressFree(place, size));
  };
  int ends[2];
  EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  pid_t child = start_child([&] {
    int file = receive_file(ends[1]);
    hipMemGenericAllocationHandle_t handle;
    HIP(hipMemImportFromShareableHandle(&handle, &file, hipMemHandleTypePosixFileDescriptor));
    int* x = mapped(handle);
    EQUAL(to_host(x, 64)[5], 40);
    add<<<1, 64>>>(x, 2);
    HIP(hipDeviceSynchronize());
    release(x, handle);
  });
  hipMemAllocationProp properties{};
  properties.type = hipMemAllocationTypePinned;
  properties.location = access.location;
  properties.requestedHandleType = hipMemHandleTypePosixFileDescriptor;
  hipMemGenericAllocationHandle_t handle;
  HIP(hipMemCreate(&handle, size, &properties, 0));
  int* x = mapped(handle);
  HIP(hipMemset(x, 0, size));
  add<<<1, 64>>>(x, 40);
  HIP(hipDeviceSynchronize());
  int file = -1;
  HIP(hipMemExportToShareableHandle(&file, handle, hipMemHandleTypePosixFileDescriptor, 0));
  send_file(ends[0], file);
  close(file);
  expect_success(child);
  EQUAL(to_host(x, 64)[63], 42);
  release(x, handle);
}

int main(int argc, char** argv) {
  for (const Check& own : {Check{"use", use}, Check{"open_memory", open_memory}, Check{"open_event", open_event}})
    if (argc == 2 && !strcmp(argv[1], own.name)) return run_checks(argc, argv, std::vector<Check>{own});
  // The first check must run before this process uses the device.
  return run_checks(argc, argv, {{"fork_before_use", fork_before_use}, {"memory_handles", memory_handles}, {"event_handles", event_handles},
                                 {"virtual_memory_handles", virtual_memory_handles},
                                 {"fork_after_use", fork_after_use}, {"start_itself", start_itself}});
}
