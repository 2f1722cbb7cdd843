// The client of the translation service. Each request uses a connection of its own until it is answered, so that a slow translation
// does not delay other queues; idle connections are kept.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "execution.h"
#include "service.h"

enum { KEPT_CONNECTIONS = 8, FIRST_DESCRIPTOR = 700 /* applications close low ones by their number */ };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int kept[KEPT_CONNECTIONS];
static int kept_count;
static atomic_int gone;

static atomic_int asking;        // threads

void drv_service_forget(void) {
  atomic_store(&asking, 0);
  pthread_mutex_init(&lock, NULL);
  while (kept_count > 0) close(kept[--kept_count]);
  atomic_store(&gone, 0);
}

// Sends all parts, the descriptor (if >= 0) with the first byte. Returns whether it worked.
static int send_parts(int connection, struct iovec *parts, int count, int descriptor) {
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
  while (count) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count < IOV_MAX ? (size_t)count : IOV_MAX};
    if (descriptor >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      struct cmsghdr *head = CMSG_FIRSTHDR(&message);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(sizeof(int));
      memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
    }
    ssize_t sent = sendmsg(connection, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return 0;
    descriptor = -1;
    size_t rest = (size_t)sent;
    while (count && rest >= parts->iov_len) {
      rest -= parts->iov_len;
      parts++;
      count--;
    }
    if (count) {
      parts->iov_base = (char *)parts->iov_base + rest;
      parts->iov_len -= rest;
    }
  }
  return 1;
}

static int receive(int connection, void *to, uint64_t bytes) {
  char *at = to;
  while (bytes) {
    ssize_t got = recv(connection, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return 0;
    at += got;
    bytes -= (uint64_t)got;
  }
  return 1;
}

// One request and its answer. Returns the kind of the answer, or 0.
static uint32_t exchange(int connection, uint32_t kind, const struct iovec *parts, int count, int descriptor, void **answer,
                         uint64_t *bytes) {
  struct rpl_message head = {.kind = kind};
  struct iovec *all = malloc((size_t)(count + 1) * sizeof *all);
  if (!all) return 0;
  all[0] = (struct iovec){&head, sizeof head};
  for (int k = 0; k < count; k++) {
    all[k + 1] = parts[k];
    head.bytes += parts[k].iov_len;
  }
  int sent = send_parts(connection, all, count + 1, descriptor);
  free(all);
  if (!sent || !receive(connection, &head, sizeof head)) return 0;
  char *content = malloc(head.bytes + 1);
  if (!content) return 0;
  if (!receive(connection, content, head.bytes)) {
    free(content);
    return 0;
  }
  content[head.bytes] = 0;  // so that a text at the end is a string
  *answer = content;
  *bytes = head.bytes;
  return head.kind;
}

static int open_connection(void) {
  const struct drv_settings *settings = drv_settings();
  int directory = open(settings->session, O_PATH | O_DIRECTORY | O_CLOEXEC);  // the path may be too long for an address
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/service.sock", directory);
  int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int connected = directory >= 0 && made >= 0 && connect(made, (const struct sockaddr *)&address, sizeof address) == 0;
  if (directory >= 0) close(directory);
  if (made < 0) return -1;
  if (!connected) {
    close(made);
    return -1;
  }
  int moved = fcntl(made, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
  if (moved < 0) return made;
  close(made);
  return moved;
}

void drv_say_answer(char *text) {
  static const char prefix[] = "rocm-perf: ";  // drv_say() writes it too
  for (size_t end = strlen(text); end && text[end - 1] == '\n'; end--) text[end - 1] = 0;
  drv_say(strncmp(text, prefix, sizeof prefix - 1) == 0 ? text + sizeof prefix - 1 : text);
}

// A new connection, which has said hello. -1 if the service is gone or refuses.
static int connect_service(void) {
  int connection = open_connection();
  if (connection < 0) return -1;
  char executable[4096];
  ssize_t length = readlink("/proc/self/exe", executable, sizeof executable);
  struct rpl_hello hello = {RPL_PROTOCOL, (uint32_t)getpid()};
  struct iovec parts[] = {{&hello, sizeof hello}, {executable, length > 0 ? (size_t)length : 0}};
  void *answer = NULL;
  uint64_t bytes;
  uint32_t kind = exchange(connection, RPL_HELLO, parts, 2, drv_memory_file(), &answer, &bytes);
  if (kind == RPL_REFUSED) drv_say_answer(answer);
  free(answer);
  if (kind == RPL_OK) return connection;
  close(connection);
  return -1;
}

static int take_connection(void) {
  pthread_mutex_lock(&lock);
  int connection = kept_count ? kept[--kept_count] : -1;
  pthread_mutex_unlock(&lock);
  return connection >= 0 ? connection : connect_service();
}

static void keep_connection(int connection) {
  pthread_mutex_lock(&lock);
  int keeps = kept_count < KEPT_CONNECTIONS;
  if (keeps) kept[kept_count++] = connection;
  pthread_mutex_unlock(&lock);
  if (!keeps) close(connection);
}

int drv_service_is_busy(void) { return atomic_load(&asking) != 0; }

uint32_t drv_service_ask(uint32_t kind, const struct iovec *parts, int count, void **answer, uint64_t *bytes) {
  *answer = NULL;
  *bytes = 0;
  int connection = take_connection();
  atomic_fetch_add(&asking, 1);
  uint32_t said = connection >= 0 ? exchange(connection, kind, parts, count, -1, answer, bytes) : 0;
  atomic_fetch_sub(&asking, 1);
  if (said) {
    keep_connection(connection);
    return said;
  }
  if (connection >= 0) close(connection);
  if (!atomic_exchange(&gone, 1))
    drv_say("the process that translates kernels for the emulated GPU is gone. New kernels cannot run.");
  return 0;
}
