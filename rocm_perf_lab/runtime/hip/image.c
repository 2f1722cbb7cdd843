// An ELF code object in the memory of a device: segments, relocations and the names of its variables.
#define _GNU_SOURCE
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "modules.h"
#include "tools.h"

enum { MACHINE_AMDGPU = 224, R_NONE = 0, R_ABS32_LO = 1, R_ABS32_HI = 2, R_ABS64 = 3, R_REL32 = 4, R_REL64 = 5, R_ABS32 = 6, R_RELATIVE64 = 13 };

struct file {
  const uint8_t *content;
  uint64_t bytes;
  const Elf64_Ehdr *head;
  const Elf64_Sym *symbols;       // the dynamic ones
  uint64_t symbol_count;
  const char *names;
  uint64_t name_bytes;
};

static const void *part(const struct file *file, uint64_t offset, uint64_t bytes) {
  return offset <= file->bytes && bytes <= file->bytes - offset ? file->content + offset : NULL;
}

static const Elf64_Phdr *segment(const struct file *file, uint32_t number) {
  return part(file, file->head->e_phoff + number * sizeof(Elf64_Phdr), sizeof(Elf64_Phdr));
}

static const Elf64_Shdr *section(const struct file *file, uint32_t number) {
  return number < file->head->e_shnum ? part(file, file->head->e_shoff + number * sizeof(Elf64_Shdr), sizeof(Elf64_Shdr)) : NULL;
}

static int open_file(struct file *file, const uint8_t *content, uint64_t bytes) {
  *file = (struct file){.content = content, .bytes = bytes};
  file->head = part(file, 0, sizeof(Elf64_Ehdr));
  if (!file->head || memcmp(content, ELFMAG, SELFMAG) != 0 || file->head->e_machine != MACHINE_AMDGPU || file->head->e_ident[EI_CLASS] != ELFCLASS64)
    return 0;
  for (uint32_t k = 0; k < file->head->e_shnum; k++) {
    const Elf64_Shdr *table = section(file, k);
    if (!table || table->sh_type != SHT_DYNSYM) continue;
    const Elf64_Shdr *strings = section(file, table->sh_link);
    file->symbols = part(file, table->sh_offset, table->sh_size);
    file->names = strings ? part(file, strings->sh_offset, strings->sh_size) : NULL;
    if (!file->symbols || !file->names || !strings->sh_size || file->names[strings->sh_size - 1]) return 0;
    file->symbol_count = table->sh_size / sizeof(Elf64_Sym);
    file->name_bytes = strings->sh_size;
  }
  return 1;
}

static const char *name_of(const struct file *file, const Elf64_Sym *symbol) {
  return symbol->st_name < file->name_bytes ? file->names + symbol->st_name : "";
}

// The addresses that the segments occupy. Returns whether there is one.
static int extent(const struct file *file, uint64_t *low, uint64_t *high, uint64_t *alignment) {
  *low = UINT64_MAX;
  *high = 0;
  *alignment = HIP_PAGE_BYTES;
  for (uint32_t k = 0; k < file->head->e_phnum; k++) {
    const Elf64_Phdr *head = segment(file, k);
    if (!head) return 0;
    if (head->p_type != PT_LOAD) continue;
    if (head->p_vaddr > UINT64_MAX / 2 || head->p_memsz > UINT64_MAX / 4 || head->p_filesz > head->p_memsz || !part(file, head->p_offset, head->p_filesz))
      return 0;
    if (head->p_vaddr < *low) *low = head->p_vaddr;
    if (head->p_vaddr + head->p_memsz > *high) *high = head->p_vaddr + head->p_memsz;
    if (head->p_align > *alignment && !(head->p_align & (head->p_align - 1))) *alignment = head->p_align;
  }
  *low &= ~(uint64_t)(HIP_PAGE_BYTES - 1);
  return *high > *low;
}

static void copy_segments(const struct file *file, uint64_t delta) {
  for (uint32_t k = 0; k < file->head->e_phnum; k++) {
    const Elf64_Phdr *head = segment(file, k);
    if (head->p_type == PT_LOAD) memcpy((void *)(head->p_vaddr + delta), file->content + head->p_offset, head->p_filesz);
  }
}

static hipError_t relocate_one(const struct file *file, const struct hip_image *image, const Elf64_Rela *entry) {
  uint32_t type = (uint32_t)ELF64_R_TYPE(entry->r_info);
  uint64_t number = ELF64_R_SYM(entry->r_info), value = 0, place = entry->r_offset + image->delta;
  if (type == R_NONE) return hipSuccess;
  if (place < image->base || place > image->base + image->bytes - sizeof value) return hipErrorInvalidImage;
  if (number) {
    if (number >= file->symbol_count) return hipErrorInvalidImage;
    const Elf64_Sym *symbol = &file->symbols[number];
    if (symbol->st_shndx == SHN_UNDEF && ELF64_ST_BIND(symbol->st_info) != STB_WEAK) {
      hip_say("the code object refers to %s, which it does not define", name_of(file, symbol));
      return hipErrorSharedObjectSymbolNotFound;
    }
    value = symbol->st_shndx == SHN_UNDEF ? 0 : symbol->st_value + image->delta;
  }
  value += (uint64_t)entry->r_addend;
  if (type == R_RELATIVE64) value += image->delta;
  if (type == R_REL32 || type == R_REL64) value -= place;
  if (type == R_ABS32_HI) value >>= 32;
  int is_long = type == R_ABS64 || type == R_RELATIVE64 || type == R_REL64;
  if (!is_long && type != R_ABS32_LO && type != R_ABS32_HI && type != R_ABS32 && type != R_REL32) return hipErrorInvalidImage;
  memcpy((void *)place, &value, is_long ? sizeof value : sizeof(uint32_t));
  return hipSuccess;
}

static hipError_t relocate(const struct file *file, const struct hip_image *image) {
  for (uint32_t k = 0; k < file->head->e_shnum; k++) {
    const Elf64_Shdr *table = section(file, k);
    if (!table) return hipErrorInvalidImage;
    if (table->sh_type != SHT_RELA || !(table->sh_flags & SHF_ALLOC)) continue;
    const Elf64_Rela *entries = part(file, table->sh_offset, table->sh_size);
    if (!entries) return hipErrorInvalidImage;
    for (uint64_t n = 0; n < table->sh_size / sizeof *entries; n++) HIP_TRY(relocate_one(file, image, &entries[n]));
  }
  return hipSuccess;
}

static int by_name(const void *left, const void *right) {
  return strcmp(((const struct hip_variable *)left)->name, ((const struct hip_variable *)right)->name);
}

static int is_variable(const struct file *file, const Elf64_Sym *symbol) {
  const char *name = name_of(file, symbol);
  size_t length = strlen(name);
  int is_descriptor = length > 3 && strcmp(name + length - 3, ".kd") == 0;
  return symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && !is_descriptor;
}

static hipError_t read_variables(const struct file *file, struct hip_image *image) {
  image->names = malloc(file->name_bytes + 1);
  image->variables = calloc(file->symbol_count + 1, sizeof *image->variables);
  if (!image->names || !image->variables) return hipErrorOutOfMemory;
  if (file->name_bytes) memcpy(image->names, file->names, file->name_bytes);
  for (uint64_t k = 0; k < file->symbol_count; k++)
    if (is_variable(file, &file->symbols[k]))
      image->variables[image->variable_count++] =
          (struct hip_variable){image->names + file->symbols[k].st_name, file->symbols[k].st_value + image->delta, file->symbols[k].st_size};
  qsort(image->variables, image->variable_count, sizeof *image->variables, by_name);
  return hipSuccess;
}

hipError_t hip_image_load(struct hip_device *device, const uint8_t *elf, uint64_t bytes, struct hip_image *image) {
  struct file file;
  uint64_t low, high, alignment;
  *image = (struct hip_image){0};
  if (!open_file(&file, elf, bytes) || !extent(&file, &low, &high, &alignment)) return hipErrorInvalidImage;
  struct hip_memory memory;
  HIP_TRY(hip_memory_allocate(device, HIP_MEMORY_INTERNAL, high - low, alignment, 0, &memory));
  image->base = memory.address;
  image->bytes = high - low;
  image->delta = memory.address - low;
  copy_segments(&file, image->delta);
  hipError_t error = relocate(&file, image);
  if (error == hipSuccess) error = read_variables(&file, image);
  if (error != hipSuccess) {
    hip_image_unload(image);
    return error;
  }
  hip_announce_code(elf, bytes);
  hip_tools_is_code(image->base);
  for (uint32_t k = 0; k < image->variable_count; k++)
    if (image->variables[k].size)
      hip_memory_register_symbol(image->variables[k].address, image->variables[k].size, HIP_MEMORY_DEVICE, device);
  return hipSuccess;
}

void hip_image_unload(struct hip_image *image) {
  for (uint32_t k = 0; k < image->variable_count; k++)
    if (image->variables[k].size) hip_memory_forget(image->variables[k].address);
  if (image->base) hip_memory_free(image->base);
  free(image->variables);
  free(image->names);
  *image = (struct hip_image){0};
}

const struct hip_variable *hip_image_variable(const struct hip_image *image, const char *name) {
  struct hip_variable wanted = {.name = name};
  return bsearch(&wanted, image->variables, image->variable_count, sizeof wanted, by_name);
}
