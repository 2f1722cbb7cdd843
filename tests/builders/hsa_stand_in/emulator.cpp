// Connection to the emulator: a unix socket, which transfers the memfd once and then one line per request.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "implementation.h"

namespace stand_in {
namespace {

std::mutex lock;
int connection = -1;
int owner_pid;

void send_memory_file(int socket) {
  char letter = 'm';
  iovec part{&letter, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  int file = memory_file();
  std::memcpy(CMSG_DATA(header), &file, sizeof file);
  if (sendmsg(socket, &message, MSG_NOSIGNAL) != 1) throw std::runtime_error("the emulator does not accept the memory");
}

void connect_once() {
  if (connection >= 0 && owner_pid == getpid()) return;
  const char* path = std::getenv("STAND_IN_HSA_EMULATOR");
  if (path == nullptr) throw std::runtime_error("STAND_IN_HSA_EMULATOR does not name a socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  owner_pid = getpid();
  if (connection < 0 || connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("no emulator at " + std::string(path));
  send_memory_file(connection);
}

}  // namespace

std::string ask_emulator(const std::string& request, const std::vector<Allocation>& memory) {
  std::lock_guard guard(lock);
  connect_once();
  std::ostringstream line;
  line << request;
  for (const Allocation& allocation : memory)
    line << ';' << allocation.address << ' ' << allocation.size << ' ' << allocation.offset;
  line << '\n';
  const std::string text = line.str();
  for (size_t sent = 0; sent < text.size();) {
    ssize_t count = send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) throw std::runtime_error("the emulator is gone");
    sent += size_t(count);
  }
  std::string answer;
  for (char letter; recv(connection, &letter, 1, 0) == 1;) {  // NOLINT(clang-analyzer-unix.BlockInCriticalSection): one request at a time
    if (letter == '\n') return answer;
    answer += letter;
  }
  throw std::runtime_error("the emulator is gone");
}

}  // namespace stand_in
