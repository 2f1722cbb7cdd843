// System management events of KFD (AMDKFD_IOC_SMI_EVENTS): a descriptor that tools poll and read lines from.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include "system.h"

enum { LISTENERS = 64, LINE_BYTES = KFD_SMI_EVENT_MSG_SIZE };
static struct listener { int fd, is_used; uint32_t gpu; uint64_t mask; } listeners[LISTENERS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// Takes the newest mask that the tool wrote. Returns 0 if the tool closed its end.
static int refresh(struct listener *listener) {
  for (;;) {
    uint64_t mask;
    struct iovec part = {&mask, sizeof mask};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t got = recvmsg(listener->fd, &message, MSG_DONTWAIT);
    if (got == (ssize_t)sizeof mask)
      listener->mask = mask;
    else
      return got < 0 && errno == EAGAIN;
  }
}

static struct listener *free_listener(void) {
  for (int i = 0; i < LISTENERS; i++) {
    if (listeners[i].is_used && !refresh(&listeners[i])) {
      close(listeners[i].fd);
      listeners[i].is_used = 0;
    }
    if (!listeners[i].is_used)
      return &listeners[i];
  }
  return NULL;
}

int drv_smi_open(uint32_t gpu, uint32_t *fd) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return errno;
  pthread_mutex_lock(&lock);
  struct listener *listener = free_listener();
  if (listener)
    *listener = (struct listener){ends[1], 1, gpu, 0};
  pthread_mutex_unlock(&lock);
  if (!listener) {
    close(ends[0]);
    close(ends[1]);
    return EMFILE;
  }
  *fd = (uint32_t)ends[0];
  return 0;
}

void drv_smi_memory_fault(uint32_t gpu_id) {
  int gpu = drv_gpu_index(gpu_id);
  char line[LINE_BYTES];
  int length =
      snprintf(line, sizeof line, "%x %x:%s\n", KFD_SMI_EVENT_VMFAULT, (unsigned)getpid(), program_invocation_short_name);
  if (length >= (int)sizeof line)
    length = sizeof line - 1;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < LISTENERS; i++) {
    struct listener *listener = &listeners[i];
    if (listener->is_used && (int)listener->gpu == gpu && refresh(listener) &&
        listener->mask & KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_VMFAULT))
      send(listener->fd, line, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  pthread_mutex_unlock(&lock);
}

void drv_smi_forget(void) {
  pthread_mutex_init(&lock, NULL);
  for (int i = 0; i < LISTENERS; i++)
    if (listeners[i].is_used)
      close(listeners[i].fd);
  memset(listeners, 0, sizeof listeners);
}
