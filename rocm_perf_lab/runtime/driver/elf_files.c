// Code objects as the application loaded them: their files have symbols, relocations and lines that device memory lacks.
//
// The application may free or unmap what it has loaded. A file is mapped once more here, which costs no memory. What the application
// itself has mapped from a file (most code objects are part of its program) is looked at again when it is needed. An image in the
// application's heap is copied, the oldest copies being dropped beyond a limit.
#define _GNU_SOURCE
#include <elf.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "execution.h"
#include "maps.h"

enum { MACHINE_AMDGPU = 224, KEPT_BYTES = 256 << 20 };

struct file {
  struct file *next;
  const uint8_t *content;
  uint64_t bytes;
  enum origin { COPIED, MAPPED, BORROWED /* from a mapping of the application */ } origin;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file *files;        // the newest first
static uint64_t copied;

void drv_elf_forget(void) { pthread_mutex_init(&lock, NULL); }

static int is_code(const uint8_t *content, uint64_t bytes) {
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)content;
  return bytes >= sizeof *head && memcmp(head->e_ident, ELFMAG, SELFMAG) == 0 && head->e_machine == MACHINE_AMDGPU &&
         head->e_phentsize == sizeof(Elf64_Phdr) && head->e_phoff < bytes &&
         head->e_phnum * sizeof(Elf64_Phdr) <= bytes - head->e_phoff;
}

static void drop_oldest_copy(void) {
  struct file **found = NULL;
  for (struct file **at = &files; *at; at = &(*at)->next)
    if ((*at)->origin == COPIED) found = at;
  if (!found) return;
  struct file *file = *found;
  *found = file->next;
  copied -= file->bytes;
  free((void *)file->content);
  free(file);
}

static int is_there(const struct file *file) {
  return file->origin != BORROWED || drv_is_mapped((uint64_t)file->content, (uint64_t)file->content + file->bytes);
}

static int is_known(const uint8_t *content, uint64_t bytes) {
  for (const struct file *file = files; file; file = file->next)
    if (file->bytes == bytes && is_there(file) && memcmp(file->content, content, bytes) == 0) return 1;
  return 0;
}

// Takes the content over. Returns whether it did.
static int add(const uint8_t *content, uint64_t bytes, enum origin origin) {
  struct file *file = malloc(sizeof *file);
  if (!file) return 0;
  *file = (struct file){files, content, bytes, origin};
  files = file;
  if (origin != COPIED) return 1;
  copied += bytes;
  while (copied > KEPT_BYTES) drop_oldest_copy();
  return 1;
}

static int is_private(const struct drv_mapping *mapping, void *unused) {
  (void)unused;
  return !mapping->file.inode || mapping->writable;
}

static void add_copy(const void *code, uint64_t bytes) {
  uint8_t *copy = bytes > KEPT_BYTES / 2 ? NULL : malloc(bytes);
  if (copy && !add(memcpy(copy, code, bytes), bytes, COPIED)) free(copy);
}

void drv_elf_add(const void *code, uint64_t bytes) {
  if (!code || !is_code(code, bytes)) return;
  int is_file = drv_for_each_mapping((uint64_t)code, (uint64_t)code + bytes, is_private, NULL) == 0;
  pthread_mutex_lock(&lock);
  if (!is_known(code, bytes)) {
    if (is_file) add(code, bytes, BORROWED);
    else add_copy(code, bytes);
  }
  pthread_mutex_unlock(&lock);
}

void drv_elf_add_file(int file) {
  struct stat about;
  if (fstat(file, &about) != 0 || about.st_size <= 0) return;
  uint64_t bytes = (uint64_t)about.st_size;
  void *content = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  if (content == MAP_FAILED) return;
  pthread_mutex_lock(&lock);
  int keeps = is_code(content, bytes) && !is_known(content, bytes) && add(content, bytes, MAPPED);
  pthread_mutex_unlock(&lock);
  if (!keeps) munmap(content, bytes);
}

// ---- search ----

// Whether the image at `image` was loaded from `file`: its first segment, which begins with the headers, is as in the file. `left`
// bytes of memory follow.
static int is_image_of(const uint8_t *image, uint64_t left, const struct file *file) {
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)file->content;
  const Elf64_Phdr *segments = (const Elf64_Phdr *)(file->content + head->e_phoff);
  for (int k = 0; k < head->e_phnum; k++) {
    if (segments[k].p_type != PT_LOAD || segments[k].p_offset != 0) continue;
    uint64_t bytes = segments[k].p_filesz;
    return bytes <= left && bytes <= file->bytes && bytes >= sizeof *head && memcmp(image, file->content, bytes) == 0;
  }
  return 0;
}

static const struct file *file_of(const uint8_t *image, uint64_t left) {
  for (const struct file *file = files; file; file = file->next)
    if (is_there(file) && is_image_of(image, left, file)) return file;
  return NULL;
}

// The file whose image contains `address`, and where the image begins. NULL: unknown.
static const struct file *loaded_at(const struct drv_block_place *block, uint64_t address, uint64_t *image) {
  uint64_t end = block->address + block->size;
  for (uint64_t page = address & ~(uint64_t)(RPL_PAGE_BYTES - 1); page >= block->address && files; page -= RPL_PAGE_BYTES) {
    if (end - page < sizeof(Elf64_Ehdr) || !is_code((const uint8_t *)page, end - page)) continue;
    *image = page;
    return file_of((const uint8_t *)page, end - page);
  }
  return NULL;
}

const void *drv_elf_get(const struct drv_block_place *block, uint64_t address, uint64_t *bytes) {
  pthread_mutex_lock(&lock);
  uint64_t image;
  const struct file *file = loaded_at(block, address, &image);
  *bytes = file ? file->bytes : 0;
  return file ? file->content : NULL;
}

void drv_elf_put(void) { pthread_mutex_unlock(&lock); }

// ---- variables ----

static int is_inside(const struct file *file, uint64_t offset, uint64_t bytes) { return offset <= file->bytes && bytes <= file->bytes - offset; }

// The section headers of a file; NULL: it has none.
static const Elf64_Shdr *sections_of(const struct file *file, uint32_t *count) {
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)file->content;
  *count = head->e_shnum;
  int is_known = head->e_shoff && head->e_shentsize == sizeof(Elf64_Shdr) && is_inside(file, head->e_shoff, *count * sizeof(Elf64_Shdr));
  return is_known ? (const Elf64_Shdr *)(file->content + head->e_shoff) : NULL;
}

#define COMPILERS_OWN "__hip_cuid_"

// Narrows `v` to what the variables of one symbol table say about the relative address `at`.
static void look_at_symbols(const struct file *file, const Elf64_Shdr *table, const Elf64_Shdr *names, uint64_t at, struct drv_variable *v) {
  if (!is_inside(file, table->sh_offset, table->sh_size) || !is_inside(file, names->sh_offset, names->sh_size) || !names->sh_size) return;
  const Elf64_Sym *symbols = (const Elf64_Sym *)(file->content + table->sh_offset);
  const char *text = (const char *)file->content + names->sh_offset;
  for (uint64_t k = 0; k < table->sh_size / sizeof *symbols; k++) {
    const Elf64_Sym *s = &symbols[k];
    if (ELF64_ST_TYPE(s->st_info) != STT_OBJECT || !s->st_size || s->st_name >= names->sh_size || text[names->sh_size - 1]) continue;
    if (strncmp(text + s->st_name, COMPILERS_OWN, strlen(COMPILERS_OWN)) == 0) continue;
    uint64_t begin = s->st_value, end = begin + s->st_size;
    if (at < begin) {
      if (begin < v->end) v->end = begin;
    } else if (end > v->begin || (end == v->begin && !v->bytes)) {
      v->begin = at < end ? begin : end;
      if (at < end && end < v->end) v->end = end;
      v->is_between = at >= end;
      v->bytes = s->st_size;
      snprintf(v->name, sizeof v->name, "%s", text + s->st_name);
    }
  }
}

// Constants without a symbol share sections with variables that are not written; other sections contain variables only.
static int may_have_unnamed(const Elf64_Shdr *section) { return !(section->sh_flags & SHF_WRITE) || section->sh_flags & SHF_EXECINSTR; }

static int find_variable(const struct file *file, uint64_t at, struct drv_variable *v) {
  uint32_t count;
  const Elf64_Shdr *sections = sections_of(file, &count);
  if (!sections) return 0;
  *v = (struct drv_variable){.end = UINT64_MAX};
  const Elf64_Shdr *inside = NULL;
  for (uint32_t k = 0; k < count; k++) {
    const Elf64_Shdr *s = &sections[k];
    if (s->sh_type == SHT_SYMTAB && s->sh_link < count) look_at_symbols(file, s, &sections[s->sh_link], at, v);
    if (s->sh_flags & SHF_ALLOC && at >= s->sh_addr && at - s->sh_addr < s->sh_size) inside = s;
  }
  for (uint32_t k = 0; k < count; k++) {  // a gap ends where the next section begins
    const Elf64_Shdr *s = &sections[k];
    if (s->sh_flags & SHF_ALLOC && s->sh_addr > at && s->sh_addr < v->end) v->end = s->sh_addr;
    if (v->is_between && s->sh_flags & SHF_ALLOC && s->sh_addr > v->begin - v->bytes && s->sh_addr <= at) v->bytes = 0;  // of another section
  }
  return v->bytes && !(v->is_between && inside && may_have_unnamed(inside));
}

int drv_elf_variable(const struct drv_block_place *block, uint64_t address, struct drv_variable *v) {
  pthread_mutex_lock(&lock);
  uint64_t image = 0, end = block->address + block->size;
  const struct file *file = loaded_at(block, address, &image);
  int is_known = file && find_variable(file, address - image, v);
  pthread_mutex_unlock(&lock);
  if (!is_known) return 0;
  v->begin += image;
  v->end = v->end < end - image ? v->end + image : end;
  return 1;
}
