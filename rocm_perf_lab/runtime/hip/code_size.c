// Sizes of code in memory that comes without one: ELF files, offload bundles and compressed offload bundles.
#define _GNU_SOURCE
#include <elf.h>
#include <string.h>

#include "modules.h"

static const char bundle_magic[] = "__CLANG_OFFLOAD_BUNDLE__";
enum { BUNDLE_MAGIC_BYTES = sizeof bundle_magic - 1, MOST_ENTRIES = 4096, MOST_NAME_BYTES = 4096 };

static uint64_t word(const uint8_t *at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static uint64_t greater(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint64_t elf_bytes(const uint8_t *code) {
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)code;
  uint64_t end = head->e_shoff + (uint64_t)head->e_shnum * head->e_shentsize;
  const Elf64_Phdr *segments = (const Elf64_Phdr *)(code + head->e_phoff);
  for (int k = 0; k < head->e_phnum; k++) end = greater(end, segments[k].p_offset + segments[k].p_filesz);
  const Elf64_Shdr *sections = (const Elf64_Shdr *)(code + head->e_shoff);
  for (int k = 0; head->e_shoff && k < head->e_shnum; k++)
    if (sections[k].sh_type != SHT_NOBITS) end = greater(end, sections[k].sh_offset + sections[k].sh_size);
  return end;
}

static uint64_t bundle_bytes(const uint8_t *code) {
  uint64_t count = word(code + BUNDLE_MAGIC_BYTES), end = BUNDLE_MAGIC_BYTES + sizeof count;
  if (count > MOST_ENTRIES) return 0;
  const uint8_t *at = code + end;
  for (uint64_t k = 0; k < count; k++) {
    uint64_t offset = word(at), bytes = word(at + 8), name_bytes = word(at + 16);
    if (name_bytes > MOST_NAME_BYTES) return 0;
    at += 24 + name_bytes;
    end = greater(end, greater(offset + bytes, (uint64_t)(at - code)));
  }
  return end;
}

// Version 1 has no size, but it was never the default of a released compiler.
static uint64_t compressed_bytes(const uint8_t *code) {
  uint16_t version;
  uint32_t bytes;
  memcpy(&version, code + 4, sizeof version);
  memcpy(&bytes, code + 8, sizeof bytes);
  return version == 2 ? bytes : version == 3 ? word(code + 8) : 0;
}

uint64_t hip_code_bytes(const void *code) {
  if (!code) return 0;
  if (memcmp(code, ELFMAG, SELFMAG) == 0) return elf_bytes(code);
  if (memcmp(code, "CCOB", 4) == 0) return compressed_bytes(code);
  return memcmp(code, bundle_magic, BUNDLE_MAGIC_BYTES) == 0 ? bundle_bytes(code) : 0;
}
